"""External models of a real MLflow server: whoever reads them, however they change."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import mlflow
import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.client import ClientReader
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject, ModelFilter, Reader
from mlcat_ingest.sources.mlflow.source import open_reader
from support.catalog_server import RunningCatalog
from support.mlflow_readings import entities_of, records_of
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS

NAMES = Naming()
GROUP = NAMES.group("agents").urn


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with running(OURS, tmp_path_factory.mktemp("mlflow")) as server:
        mlflow.set_tracking_uri(server.url)
        try:
            yield server
        finally:
            mlflow.set_tracking_uri(None)  # type: ignore[arg-type] # it takes None, "" is a folder


def make_agent(name: str, score: float | None = None) -> tuple[str, str | None]:
    """Make an external model, log a metric of it outside a run; return its id and the run's."""
    model = mlflow.create_external_model(name, model_type="agent", params={"llm": "small"})
    if score is None:
        return model.model_id, None
    mlflow.log_metric("score", score, model_id=model.model_id)
    run = mlflow.active_run()
    assert run is not None
    return model.model_id, run.info.run_id


@pytest.fixture(scope="module")
def agents(server: MlflowServer) -> Iterator[dict[str, str | None]]:
    assert mlflow.get_tracking_uri() == server.url
    mlflow.set_experiment("agents")
    first, running_metrics = make_agent("support", 0.5)
    with mlflow.start_run(run_name="nested", nested=True):
        made_in_run, _ = make_agent("in a run ü,()")
    made: dict[str, str | None] = {
        "support": first,
        "metrics": running_metrics,
        "in a run": made_in_run,
    }
    yield made
    mlflow.end_run()


def readers(server: MlflowServer) -> Iterator[Reader]:
    for uri in (server.url, f"sqlite:///{server.db_path}"):
        yield open_reader(MlflowConfig(tracking_uri=uri))
    yield ClientReader(MlflowConfig(tracking_uri=server.url))


def test_every_reader_gives_the_same_external_models(
    server: MlflowServer, agents: dict[str, str | None]
) -> None:
    over_http, *others = readers(server)
    expected, entities = records_of(over_http), entities_of(over_http)
    for reader in others:
        assert records_of(reader) == expected
        assert entities_of(reader) == entities
    support = next(one for one in expected["logged"] if one.model_id == agents["support"])
    assert support.source_run_id is None
    assert {metric.run_id for metric in support.metrics} == {agents["metrics"]}
    by_urn = {one.urn: one.aspects for one in entities}
    model = by_urn[NAMES.model(agents["support"] or "").urn]
    assert model["subTypes"] == {"typeNames": ["External Model"]}
    properties = model["mlModelProperties"]
    assert (properties["name"], properties["groups"]) == ("support", [GROUP])
    assert properties["hyperParams"] == [{"name": "llm", "value": "small"}]
    assert [one["value"] for one in properties["trainingMetrics"]] == ["0.5"]
    metrics = by_urn[NAMES.model(agents["metrics"] or "").urn]["mlModelProperties"]
    assert metrics["name"].startswith("metrics of support (")
    assert (
        NAMES.model(agents["support"] or "").urn
        in (metrics["customProperties"]["mlflow.metrics_of"])
    )
    in_run = by_urn[NAMES.model(agents["in a run"] or "").urn]["mlModelProperties"]
    assert in_run["name"] == "in a run ü,()"
    assert in_run["customProperties"]["mlflow.run_id"]


def test_every_reader_finds_the_newest_and_those_that_are_gone(
    server: MlflowServer, agents: dict[str, str | None]
) -> None:
    gone, _ = make_agent("gone")
    mlflow.MlflowClient().delete_logged_model(gone)
    for reader in readers(server):
        ids = [one.experiment_id for page in reader.experiments() for one in page]
        pages = reader.logged_models(ids, only=ModelFilter(newest_external=1))
        assert [one.model_id for page in pages for one in page] == [agents["in a run"]]
        assert reader.is_gone(MlflowObject("logged_model", gone))
        assert not reader.is_gone(MlflowObject("logged_model", agents["support"] or ""))
        reader.connection.close()


@pytest.mark.usefixtures("agents")
@pytest.mark.parametrize("by", ["REST", "SQL"])
def test_a_catalog_follows_external_models(
    server: MlflowServer, catalog: RunningCatalog, tmp_path: Path, by: str
) -> None:
    def stored(name: str) -> Mapping[str, Any]:
        return catalog.store.get_many([urn], [name])[urn][name].value

    uri = server.url if by == "REST" else f"sqlite:///{server.db_path}"
    recipe = tmp_path / "recipe.yml"
    recipe.write_text(
        f"source: {{type: mlflow, config: {{tracking_uri: '{uri}'}}}}\n"
        f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
    )
    mlflow.end_run()  # so that the next metric is one of a run of its own
    changing, _ = make_agent(f"changing by {by}")
    urn = NAMES.model(changing).urn
    assert call([str(recipe), "-q"]) == 0
    assert stored("mlModelProperties").get("trainingMetrics", []) == []
    time.sleep(0.01)
    mlflow.log_metric("late", 0.25, model_id=changing)
    mlflow.end_run()
    assert call([str(recipe), "-q"]) == 0
    [metric] = stored("mlModelProperties")["trainingMetrics"]
    assert (metric["name"], metric["value"]) == ("late", "0.25")
    assert call(["verify", str(recipe), "-q"]) == 0
    mlflow.MlflowClient().delete_logged_model(changing)
    assert call([str(recipe), "-q", "--full"]) == 0
    assert stored("status") == {"removed": True}
    assert call(["verify", str(recipe), "-q"]) == 0
