"""A connection's options mean what DataHub's emitter and MLflow's client take them for."""

from pathlib import Path
from typing import Any

import pytest
from datahub.emitter.rest_emitter import DataHubRestEmitter
from requests.adapters import HTTPAdapter

from mlcat_ingest.client.config import RestSinkConfig
from mlcat_ingest.net.session import HttpOptions
from mlcat_ingest.recipe.http_options import http_options
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.signin import sign_in

pytestmark = pytest.mark.filterwarnings("ignore:.*:FutureWarning")

SERVER = "https://catalog.example.com"


def ours(options: dict[str, Any]) -> HttpOptions:
    config = RestSinkConfig.model_validate({"server": SERVER, **options})
    return http_options(config, peer="the catalog", connections=1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ca_certificate_path": "ca.pem"},
        {"disable_ssl_verification": True},
        {"disable_ssl_verification": False},
        {"client_certificate_path": "c.pem"},
        {"client_certificate_path": "c.pem", "client_key_path": "k.pem"},
        {"retry_max_times": 2, "timeout_sec": 7, "extra_headers": {"X-Proxy": "open"}},
    ],
    ids=str,
)
def test_the_keys_of_a_datahub_recipe(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("DATAHUB_CLIENT_CERT_PATH", "DATAHUB_CLIENT_KEY_PATH"):
        monkeypatch.delenv(variable, raising=False)
    options = {
        name: str(_made(tmp_path / value)) if name.endswith("_path") else value
        for name, value in options.items()
    }
    found = ours(options)
    named = {"timeout_sec": "read_timeout_sec"}
    emitter = DataHubRestEmitter(
        SERVER, **{named.get(name, name): value for name, value in options.items()}
    )
    session = emitter._session
    assert (found.trust.verify, found.trust.cert) == (session.verify, session.cert)
    assert found.headers.items() <= session.headers.items()
    if "retry_max_times" in options:
        adapter, timeout = session.get_adapter(SERVER), emitter._session_config.timeout
        assert isinstance(adapter, HTTPAdapter)
        assert isinstance(timeout, tuple)
        assert found.retries == adapter.max_retries.total
        assert found.read_timeout_s == timeout[1]


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"USERNAME": "ada", "PASSWORD": "päss"},
        {"TOKEN": "t0ken"},
        {"INSECURE_TLS": "true"},
        {"INSECURE_TLS": "false"},
        {"SERVER_CERT_PATH": "ca.pem"},
        {"CLIENT_CERT_PATH": "c.pem"},
    ],
    ids=str,
)
def test_the_variables_of_mlflow(
    variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.utils.credentials import get_default_host_creds

    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("USERNAME", "PASSWORD", "TOKEN", "INSECURE_TLS", "AUTH"):
        monkeypatch.delenv(f"MLFLOW_TRACKING_{name}", raising=False)
    for name, value in variables.items():
        text = str(_made(tmp_path / value)) if name.endswith("_PATH") else value
        monkeypatch.setenv(f"MLFLOW_TRACKING_{name}", text)
    signed = sign_in(MlflowConfig(tracking_uri="https://mlflow.example.com"))
    theirs = get_default_host_creds("https://mlflow.example.com")  # type: ignore[no-untyped-call]
    assert (signed.options.trust.verify, signed.options.trust.cert) == (
        theirs.verify,
        theirs.client_cert_path,
    )
    assert signed.user == theirs.username
    assert ("MLFLOW_TRACKING_TOKEN" in signed.how) == (theirs.token is not None)


def _made(path: Path) -> Path:
    path.touch()
    return path
