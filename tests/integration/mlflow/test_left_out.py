"""Objects that the catalog does not hold: counted alike by a server and from its database."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests

from mlcat_ingest.cli.main import call
from mlcat_ingest.core.left_out import KindCount
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import open_reader
from mlcat_ingest.sources.mlflow.values.objects import LEFT_OUT
from mlcat_ingest.testing.mlflow_store import mlflow_client, new_seeded_database
from support.mlflow_server import add_workspace, running
from support.venvs import OURS

pytestmark = pytest.mark.integration

COUNTS = {"prompt": 1, "trace": 3, "GenAI dataset": 2, "webhook": 1}
TEAM = {"trace": 1, "webhook": 1}
HOOK = {
    "name": "hook",
    # A public address, or MLflow refuses it; nothing is sent there.
    "url": "https://93.184.216.34/",
    "events": [{"entity": "REGISTERED_MODEL", "action": "CREATED"}],
}


@dataclass(frozen=True)
class Served:
    """A server with all kinds that a server counts, in two workspaces, and its database."""

    url: str
    database: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("mlflow")
    with running(OURS, folder, extra_args=["--enable-workspaces"]) as server:
        add_workspace(server, "team")
        with mlflow_client(server.url) as client:
            experiment = client.create_experiment("app")
            deleted = client.create_experiment("deleted")
            client.create_dataset("questions", experiment_id=[experiment])
            client.create_dataset("others")
            client.register_prompt("greeting", "Say {{what}}")
        for at, one in enumerate((experiment, experiment, deleted)):
            start_trace(server.url, one, at, "default")
        requests.post(
            f"{server.url}/api/2.0/mlflow/experiments/delete",
            json={"experiment_id": deleted},
            timeout=30,
        ).raise_for_status()
        start_trace(server.url, experiment_of(server.url, "team"), 9, "team")
        hooks = [
            post(server.url, "2.0/mlflow/webhooks", HOOK, workspace)["webhook"]["webhook_id"]
            for workspace in ("default", "default", "team")
        ]
        address = f"{server.url}/api/2.0/mlflow/webhooks/{hooks[0]}"
        requests.delete(address, timeout=30).raise_for_status()
        yield Served(server.url, f"sqlite:///{server.db_path}")


def post(url: str, path: str, body: Any, workspace: str) -> Any:
    headers = {"X-MLFLOW-WORKSPACE": workspace}
    reply = requests.post(f"{url}/api/{path}", json=body, headers=headers, timeout=30)
    assert reply.ok, reply.text
    return reply.json()


def experiment_of(url: str, workspace: str) -> str:
    body = {"max_results": 10, "filter": "name LIKE 'only in%'"}
    found = post(url, "2.0/mlflow/experiments/search", body, workspace)["experiments"]
    return str(found[0]["experiment_id"])


def start_trace(url: str, experiment_id: str, number: int, workspace: str) -> None:
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment_id}}
    info = {
        "trace_id": f"tr-{number:032x}",
        "trace_location": place,
        "request_time": "2026-01-01T00:00:00Z",
        "state": "OK",
    }
    post(url, "3.0/mlflow/traces", {"trace": {"trace_info": info}}, workspace)


def counts_of(uri: str, workspace: str = "default", **config: Any) -> dict[str, KindCount]:
    reader = open_reader(MlflowConfig.model_validate({"tracking_uri": uri, **config}))
    if workspace != "default":
        reader = reader.in_workspace(workspace)
    found = {one.kind: one for one in reader.left_out()}
    assert list(found) == [kind.noun for kind in LEFT_OUT]
    reader.close()
    return found


@pytest.mark.parametrize(("workspace", "expected"), [("default", COUNTS), ("team", TEAM)])
def test_a_server_and_its_database_count_the_same(
    served: Served, workspace: str, expected: dict[str, int]
) -> None:
    by_server = counts_of(served.url, workspace)
    by_database = counts_of(served.database, workspace)
    assert {kind: one.count for kind, one in by_server.items() if one.count} == expected
    assert {kind: one.count for kind, one in by_database.items() if one.count} == expected
    assert all(one.exact for one in (*by_server.values(), *by_database.values()))
    uncounted = {kind for kind, one in by_database.items() if one.count is None}
    assert uncounted == {"earlier metric value"}
    listed = {kind.noun for kind in LEFT_OUT if kind.listed}
    assert {kind for kind, one in by_server.items() if one.count is not None} == listed


def test_mlflow_client_counts_prompts(tmp_path: Path) -> None:
    new_seeded_database(tmp_path / "mlflow.db")
    found = counts_of(f"sqlite:///{tmp_path / 'mlflow.db'}", reader="client")
    assert {kind: one.count for kind, one in found.items() if one.count is not None} == {
        "prompt": 1
    }


def test_a_full_pass_reports_them_and_verify_leaves_them_out(
    served: Served, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe, report = tmp_path / "recipe.yml", tmp_path / "report.json"
    recipe.write_text(
        f"source: {{type: mlflow, config: {{tracking_uri: '{served.url}'}}}}\n"
        "sink: {type: embedded, config: {db: c.db}}\n"
    )
    run = [str(recipe), "--report", str(report)]
    assert call(run) == 0
    text = capsys.readouterr().out
    counted = "left out     4 traces, 2 GenAI datasets, 2 webhooks, 1 prompt"
    uncounted = "not counted: earlier metric values, scorers, issues and 9 more kinds"
    assert f"  {counted}; {uncounted}\n" in text
    data = json.loads(report.read_text())
    assert data["left_out"] == {**COUNTS, "trace": 4, "webhook": 2}
    assert len(data["not_counted"]) == 12

    assert call(run) == 0
    data = json.loads(report.read_text())
    assert (data["left_out"], data["not_counted"]) == ({}, [])

    capsys.readouterr()
    assert call(["verify", str(recipe), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    left_out = {one["what"]: one["count"] for one in found["left_out"]}
    assert {kind: left_out.get(kind) for kind in COUNTS} == {**COUNTS, "trace": 4, "webhook": 2}
    assert len(found["not_counted"]) == 12
