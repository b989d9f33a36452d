"""A workspace that answers as Databricks is documented to: read by us, and by MLflow's own client.

The same workspace serves both, so what it answers is held against the code of MLflow.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.errors import AuthenticationError
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read import decode
from mlcat_ingest.sources.mlflow.read.client import ClientReader
from mlcat_ingest.sources.mlflow.read.databricks import DatabricksReader
from mlcat_ingest.sources.mlflow.read.reader import (
    FileLocation,
    MlflowObject,
    ModelFilter,
    RunFilter,
)
from mlcat_ingest.sources.mlflow.source import open_reader
from mlcat_ingest.sources.mlflow.values.records import LoggedModel
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.databricks_stub import CLIENT, TOKEN, Databricks, databricks_over
from support.mlflow_readings import comparable, opened_reader, records_of
from support.mlflow_server import running
from support.seeded_store import new_seeded_database
from support.venvs import OURS

pytestmark = pytest.mark.timeout(600)

UC = "main.ml.churn"


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("databricks")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    made = new_seeded_database(folder / "mlflow.db")
    with mlflow_client(uri) as client:
        for number in range(120):
            client.create_experiment(f"/Users/someone/{number:03}")
        client.create_registered_model(UC, tags={"team": "risk"}, description="of the catalog")
        client.create_registered_model("main.ml.empty")
        for run_id in list(made.runs.values())[:2]:
            client.create_model_version(UC, "dbfs:/x", run_id, tags={"approved": "yes"})
        client.set_registered_model_alias(UC, "champion", "2")
    with running(OURS, folder) as server:
        run_id = made.runs["parent"]
        with mlflow_client(server.url) as client:
            client.log_text(run_id, "features: []", "model/feature_spec.yaml")
        yield server.url


@pytest.fixture
def workspace(
    upstream: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Databricks]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DATABRICKS_TOKEN", TOKEN)
    with databricks_over(upstream) as (workspace, _):
        monkeypatch.setenv("DATABRICKS_HOST", workspace.url)
        yield workspace


def reader_of(**config: Any) -> DatabricksReader:
    given = {"tracking_uri": "databricks", "retries": 0, "page_size": 20, **config}
    reader = open_reader(MlflowConfig.model_validate(given))
    assert isinstance(reader, DatabricksReader)
    return reader


def everything(client: Any, method: str, **arguments: Any) -> list[Any]:
    found, token = [], None
    while True:
        page = getattr(client, method)(page_token=token, **arguments)
        found.extend(page)
        token = page.token
        if not token:
            return found


def by_mlflow(registry_uri: str) -> dict[str, list[Any]]:
    """Return what MLflow's own client reads of the workspace, as records."""
    from mlflow import MlflowClient
    from mlflow.entities import ViewType

    client, json_of = MlflowClient("databricks", registry_uri), ClientReader.json_of
    experiments = everything(client, "search_experiments", view_type=ViewType.ALL)
    ids = [one.experiment_id for one in experiments]
    runs, logged = [], []
    for some in (ids[:100], ids[100:]):
        runs += everything(client, "search_runs", experiment_ids=some, run_view_type=ViewType.ALL)
        logged += everything(client, "search_logged_models", experiment_ids=some, max_results=50)
    names = [one.name for one in everything(client, "search_registered_models")]
    listable = [name for name in names if "'" not in name or '"' not in name]
    models = [decode.registered_model(json_of(client.get_registered_model(one))) for one in names]
    versions = [
        client.get_model_version(name, one.version)
        for name in listable
        for one in everything(
            client,
            "search_model_versions",
            filter_string=f'name="{name}"' if "'" in name else f"name='{name}'",
        )
    ]
    return {
        "experiments": [decode.experiment(json_of(one)) for one in experiments],
        "runs": [comparable(decode.run(json_of(one))) for one in runs],
        "logged": [decode.logged_model(json_of(one)) for one in logged],
        "registered": models,
        "versions": [
            decode.model_version(json_of(one), decode.Aliases(models)) for one in versions
        ],
    }


@pytest.mark.parametrize("registry_uri", ["databricks-uc", "databricks"])
def test_mlflows_own_client_reads_the_same(
    workspace: Databricks, registry_uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    expected = by_mlflow(registry_uri)
    asked_by_mlflow = set(workspace.calls)
    workspace.calls.clear()
    with opened_reader(reader_of(registry_uri=registry_uri)) as reader:
        found = records_of(reader)
    for listing, records in expected.items():
        assert sorted(map(repr, found[listing])) == sorted(map(repr, records)), listing
        assert records, listing
    assert set(workspace.calls) <= asked_by_mlflow
    in_both = "cannot list the versions of registered model"  # its name holds both kinds of quotes
    assert (in_both in caplog.text) == (registry_uri == "databricks")
    of_catalog = {one.name for one in found["registered"]} == {UC, "main.ml.empty"}
    assert of_catalog == (registry_uri == "databricks-uc")


def test_unity_catalog_is_the_registry_unless_another_is_named(workspace: Databricks) -> None:
    with opened_reader(reader_of()) as reader:
        versions = [one for page in reader.model_versions() for one in page]
        assert {(one.name, one.version, one.aliases, one.stage) for one in versions} == {
            (UC, "1", (), None),
            (UC, "2", ("champion",), None),
        }
        assert all(one.tags == {"approved": "yes"} for one in versions)
        assert not reader.is_gone(MlflowObject("version", UC, "2"))
        assert reader.is_gone(MlflowObject("version", UC, "3"))
        assert reader.is_gone(MlflowObject("registered", "main.ml.none"))
    listed = [one for one in workspace.calls if "registered-models" in one]
    assert all(one.startswith("GET unity-catalog/") for one in listed)


@pytest.mark.usefixtures("workspace")
def test_each_run_of_many_experiments_is_found() -> None:
    with opened_reader(reader_of()) as reader:
        ids = [one.experiment_id for page in reader.experiments() for one in page]
        assert len(ids) > 120
        runs = [one.run_id for page in reader.runs(ids) for one in page]
        only = RunFilter(run_ids=tuple(runs[:2]))
        assert {one.run_id for page in reader.runs(ids, only=only) for one in page} == {*runs[:2]}


def test_a_filter_that_databricks_refuses_is_asked_for_once(workspace: Databricks) -> None:
    with opened_reader(reader_of()) as reader:
        ids = [one.experiment_id for page in reader.experiments() for one in page]
        every = [one for page in reader.logged_models(ids) for one in page]
        run_id = next(one.source_run_id for one in every if one.source_run_id)
        workspace.calls.clear()
        for only in (ModelFilter(run_ids=(run_id,)), ModelFilter(run_ids=(run_id, "other"))):
            found = [one for page in reader.logged_models(ids, only=only) for one in page]
            assert found == [one for one in every if one.source_run_id == run_id]
        # One that is refused, and then two listings of two pages of experiments.
        assert workspace.calls == ["POST logged-models/search"] * 5
        workspace.calls.clear()
        wanted = [one for one in every if one.source_run_id == run_id]
        named = ModelFilter(model_ids=(*(one.model_id for one in wanted), "m-none"))
        assert [one for page in reader.logged_models(ids, only=named) for one in page] == wanted
        assert not any(one == "POST logged-models/search" for one in workspace.calls)


def test_models_of_the_runs_just_listed_are_asked_for_by_id(workspace: Databricks) -> None:
    with opened_reader(reader_of()) as reader:
        ids = [one.experiment_id for page in reader.experiments() for one in page]
        every = {one.model_id: one for page in reader.logged_models(ids) for one in page}
        refused = ModelFilter(run_ids=("none",))
        assert not [one for page in reader.logged_models(ids, only=refused) for one in page]
        workspace.calls.clear()
        made: dict[str, LoggedModel] = {}
        for page in reader.runs(ids):
            run_ids = tuple(run.run_id for run in page if run.model_outputs)
            for models in reader.logged_models(ids, only=ModelFilter(run_ids=run_ids)):
                made.update((one.model_id, one) for one in models)
    assert made == {one: model for one, model in every.items() if model.source_run_id}
    assert "POST logged-models/search" not in workspace.calls


@pytest.mark.usefixtures("workspace")
def test_a_file_is_read_by_a_signed_address() -> None:
    with opened_reader(reader_of()) as reader:
        experiments = [one for page in reader.experiments() for one in page]
        ids = [one.experiment_id for one in experiments]
        run = next(one for page in reader.runs(ids) for one in page if one.name == "parent")
        place = FileLocation("run", run.run_id, run.artifact_uri)
        assert reader.text_of(place, "model/feature_spec.yaml") == "features: []"
        assert reader.text_of(place, "model/other.yaml") is None


# --- sign-in --------------------------------------------------------------------------------------


@pytest.fixture
def by_oauth(workspace: Databricks, monkeypatch: pytest.MonkeyPatch) -> Databricks:
    monkeypatch.delenv("DATABRICKS_TOKEN")
    monkeypatch.setenv("DATABRICKS_CLIENT_ID", CLIENT[0])
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", CLIENT[1])
    return workspace


def experiments_read(reader: DatabricksReader) -> int:
    return sum(len(page) for page in reader.experiments())


def test_oauth_tokens_are_kept_and_renewed_after_a_refusal(by_oauth: Databricks) -> None:
    with opened_reader(reader_of()) as reader:
        assert experiments_read(reader) > 120
        by_oauth.accepted = set()
        assert next(reader.registered_models())
        assert next(reader.model_versions())
    assert by_oauth.issued == 2


def test_oauth_tokens_that_end_soon_are_renewed_before(by_oauth: Databricks) -> None:
    by_oauth.lasts_s = 0
    with opened_reader(reader_of()) as reader:
        list(reader.experiments())
        before = by_oauth.issued
        list(reader.registered_models())
    assert by_oauth.issued > before
    assert all(one != "" for one in by_oauth.accepted)


def test_mlflows_own_client_gets_a_token_the_same_way(by_oauth: Databricks) -> None:
    from mlflow import MlflowClient

    assert MlflowClient("databricks").search_experiments(max_results=5)
    assert by_oauth.issued >= 1


def test_a_secret_that_is_refused_names_where_it_came_from(
    by_oauth: Databricks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_CLIENT_SECRET", "wrong-hunter2")
    with opened_reader(reader_of()) as reader, pytest.raises(AuthenticationError) as refused:
        list(reader.experiments())
    assert CLIENT[0] in str(refused.value)
    assert "DATABRICKS_CLIENT_SECRET" in str(refused.value)
    assert "hunter2" not in str(refused.value)
    assert by_oauth.issued == 0


def test_the_workspace_id_goes_with_each_request(
    workspace: Databricks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABRICKS_WORKSPACE_ID", "4711")
    with opened_reader(reader_of()) as reader:
        list(reader.experiments())
    assert {one["x-databricks-org-id"] for one in workspace.headers} == {"4711"}


def test_a_run_and_the_check_of_a_recipe(
    workspace: Databricks,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    source = {"type": "mlflow", "config": {"tracking_uri": "databricks"}}
    sink = {"type": "file", "config": {"path": "out.jsonl"}}
    recipe = {"name": "r", "sources": [source], "sink": sink}
    Path("recipe.yml").write_text(json.dumps(recipe))
    assert call(["check", "recipe.yml"]) == 0
    checked = capsys.readouterr().out
    assert "accepted: DATABRICKS_TOKEN" in checked
    assert call(["recipe.yml"]) == 0
    written = Path("out.jsonl").read_text()
    for page in ("explore/data/models/main/ml/churn/version/2", "ml/experiments/1"):
        assert f"{workspace.url}/{page}" in written
    assert "hunter2" not in written + checked + "".join(capsys.readouterr())
