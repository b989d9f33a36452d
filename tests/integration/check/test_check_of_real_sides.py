"""`mlcat-ingest check` where something is wrong: each fault is named, and hides no other side."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from mlcat_ingest import Pipeline, Recipe
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.testing.mlflow_store import mlflow_client
from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest, failing_service
from mlcat_ingest.workflows.check import examine
from mlcat_ingest.workflows.resolve import resolve
from support.catalog_server import RunningCatalog, running_catalog

pytestmark = pytest.mark.filterwarnings("ignore:.*:FutureWarning")

TOKEN = "right-token"
AN_EXPERIMENT = {"experiment_id": "0", "name": "e", "creation_time": 1}


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path / "c.db", token=TOKEN) as running:
        yield running


def mlflow(denied: str = "") -> Any:
    """Return the script of an MLflow server; the listing called `denied` answers 403."""

    def answer(request: ServiceRequest) -> ServiceAnswer:
        path = urlsplit(request.path).path
        if path == "/version":
            return ServiceAnswer(200, b"3.17.2", {"Content-Type": "text/plain"})
        if denied and f"/{denied}/search" in path:
            body = {"error_code": "PERMISSION_DENIED", "message": "Permission denied"}
            return ServiceAnswer(403, json.dumps(body).encode())
        found = {"experiments": [AN_EXPERIMENT]} if "/experiments/" in path else {}
        return ServiceAnswer(200, json.dumps(found).encode())

    return answer


def recipe_of(tracking_uri: str, server: str, token: str = TOKEN, **config: Any) -> Recipe:
    return Recipe.parse(
        json.dumps(
            {
                "name": "checked",
                "source": {"type": "mlflow", "config": {"tracking_uri": tracking_uri, **config}},
                "sink": {"type": "rest", "config": {"server": server, "token": token}},
            }
        )
    )


def examined(recipe: Recipe, *, write: bool = False) -> dict[str, Finding]:
    return {one.what: one for one in examine(resolve(recipe), write=write)}


def failed(found: dict[str, Finding]) -> set[str]:
    return {what for what, one in found.items() if one.outcome == "failed"}


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_nothing_is_wrong(catalog: RunningCatalog) -> None:
    with failing_service(mlflow()) as server:
        found = examined(recipe_of(server.url, catalog.url), write=True)
    assert failed(found) == set()
    assert found["overlapping URNs"].detail == "none among 1 sampled"
    assert catalog.store.list_urns("mlModel").total == 0


def test_a_wrong_token(catalog: RunningCatalog) -> None:
    with failing_service(mlflow()) as server:
        found = examined(recipe_of(server.url, catalog.url, "wrong-token"), write=True)
    assert failed(found) >= {"catalog permission: read aspects", "catalog permission: write"}
    denied = found["catalog permission: read aspects"]
    assert "401" in denied.detail
    assert "the token came from" in denied.detail
    assert all("wrong-token" not in f"{one.detail} {one.hint}" for one in found.values())
    assert found["MLflow permission: read runs"].outcome == "ok"
    assert found["overlapping URNs"].outcome == "warning"


@pytest.mark.parametrize(
    ("listing", "permission"),
    [
        ("experiments", "read experiments"),
        ("runs", "read runs"),
        ("registered-models", "read registered models"),
        ("logged-models", "read logged models"),
    ],
)
def test_a_permission_that_is_missing_in_mlflow(
    listing: str, permission: str, catalog: RunningCatalog
) -> None:
    with failing_service(mlflow(denied=listing)) as server:
        found = examined(recipe_of(server.url, catalog.url))
    denied = {what for what in failed(found) if what.startswith("MLflow permission")}
    assert denied == {f"MLflow permission: {permission}"}
    assert found[f"MLflow permission: {permission}"].hint == "grant the user read access"
    assert found["catalog permission: read aspects"].outcome == "ok"


def test_urns_that_another_server_holds(catalog: RunningCatalog, tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with mlflow_client(uri) as client:
        client.create_experiment("churn")
    first = recipe_of(uri, catalog.url, server_id="eu")
    assert Pipeline(first).run().exit_code == 0
    assert failed(examined(first)) == set()
    second = recipe_of(uri, catalog.url, server_id="us")
    found = examined(second)["overlapping URNs"]
    assert found.outcome == "failed"
    assert "2 of 2 sampled belong to another server" in found.detail
    assert found.hint is not None
    assert "set `instance: NAME`" in found.hint
    apart = recipe_of(uri, catalog.url, server_id="us", instance="us")
    assert failed(examined(apart)) == set()
