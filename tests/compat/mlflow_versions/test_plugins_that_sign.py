"""SageMaker's own plug-in for MLflow, installed beside us: each request is signed as AWS checks it.

The server is an open-source one behind a check of signatures; SageMaker itself was not
tried.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from mlcat_ingest.testing.service import (
    ServiceAnswer,
    ServiceRequest,
    failing_service,
)
from support.commands import ended
from support.hooks import as_installed
from support.mlflow_server import running
from support.seeded_store import seed
from support.venvs import OURS, venv_for

pytestmark = pytest.mark.timeout(600)

ARN = "arn:aws:sagemaker:eu-west-1:123456789012:mlflow-tracking-server/team"
KEY = Credentials("AKIAEXAMPLE", "hunter2")
SIGNER: Any = SigV4Auth(KEY, "sagemaker-mlflow", "eu-west-1")


def is_signed(url: str, request: ServiceRequest) -> bool:
    """Return whether the signature of a request is the one that AWS would compute."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    scheme, _, given = headers.get("authorization", "").partition(" ")
    parts = dict(part.strip().split("=", 1) for part in given.split(",") if "=" in part)
    if scheme != "AWS4-HMAC-SHA256" or headers.get("x-mlflow-sm-tracking-server-arn") != ARN:
        return False
    signed = {name: headers.get(name, "") for name in parts["SignedHeaders"].split(";")}
    path = request.path.replace("+", "%20")
    again = AWSRequest(method=request.method, url=url + path, data=request.body, headers=signed)
    again.context["timestamp"] = headers["x-amz-date"]
    text = SIGNER.string_to_sign(again, SIGNER.canonical_request(again))
    return bool(parts["Signature"] == SIGNER.signature(text, again))


class CheckedServer:
    """Passes requests on that are signed, and refuses all others."""

    def __init__(self, upstream: str) -> None:
        self.upstream = upstream
        self.url = ""
        self.passed = 0

    def __call__(self, request: ServiceRequest) -> ServiceAnswer:
        if not is_signed(self.url, request):
            return ServiceAnswer(403, json.dumps({"error_code": "PERMISSION_DENIED"}).encode())
        self.passed += 1
        reply = requests.request(
            request.method,
            self.upstream + request.path,
            data=request.body,
            headers={"Content-Type": "application/json"},
            timeout=60,
        )
        kind = reply.headers.get("Content-Type", "application/json")
        return ServiceAnswer(reply.status_code, reply.content, {"Content-Type": kind})


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CheckedServer]:
    folder = tmp_path_factory.mktemp("sagemaker")
    seed(f"sqlite:///{folder / 'mlflow.db'}")
    with running(OURS, folder) as server:
        checked = CheckedServer(server.url)
        with failing_service(checked) as service:
            checked.url = service.url
            yield checked


def aspects_by(
    folder: Path, checked: CheckedServer, config: str, **env: str
) -> list[tuple[str, str]]:
    """Return URN and name of each aspect that a recipe writes, where the plug-in is installed."""
    folder.mkdir()
    (folder / "recipe.yml").write_text(
        "name: sagemaker\n"
        f"source: {{type: mlflow, config: {{{config}, ui_url: https://ui.example, retries: 0}}}}\n"
        "sink: {type: file, config: {path: out.jsonl}}\n"
    )
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW_", "PYTHON"))}
    done = ended(
        [
            venv_for("mlflow-3.17-sagemaker").python,
            "-c",
            "from mlcat_ingest.cli.main import main; main(['recipe.yml', '-q'])",
        ],
        cwd=folder,
        env={
            **inherited,
            "PYTHONPATH": as_installed(folder / "site"),
            "AWS_ACCESS_KEY_ID": KEY.access_key,
            "AWS_SECRET_ACCESS_KEY": KEY.secret_key,
            "SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT": checked.url,
            **env,
        },
    )
    assert "hunter2" not in done.stdout + done.stderr
    written = map(json.loads, (folder / "out.jsonl").read_text().splitlines())
    return sorted((one["entityUrn"], one["aspectName"]) for one in written)


def test_an_address_of_the_plug_in_is_read_through_mlflowclient(
    checked: CheckedServer, tmp_path: Path
) -> None:
    before = checked.passed
    by_plugin = aspects_by(tmp_path / "arn", checked, f"tracking_uri: '{ARN}'")
    assert checked.passed > before
    without = aspects_by(tmp_path / "direct", checked, f"tracking_uri: '{checked.upstream}'")
    assert by_plugin == without
    assert len(without) > 50


def test_requests_over_rest_are_signed_by_the_plug_in(
    checked: CheckedServer, tmp_path: Path
) -> None:
    before = checked.passed
    config = f"tracking_uri: '{checked.url}', auth: arn"
    assert aspects_by(tmp_path / "rest", checked, config, MLFLOW_TRACKING_URI=ARN)
    assert checked.passed > before
