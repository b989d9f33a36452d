"""Lineage over process instances: dataset, run, model and version."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.urn import dataset
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_server import running_catalog
from support.cli import report_of

ON = "lineage: {process_instances: true}"
JOB = "urn:li:dataJob:(urn:li:dataFlow:(airflow,churn,prod),train)"
MORE_RUNS = 60

LOGGED = {
    "s3": ({"uri": "s3a://lake/orders/dt=2024-01-01/part-00000.parquet"}, "training"),
    "delta_table": ({"delta_table_name": "main.churn.labels"}, "training"),
    "local": ({"uri": "/data/held-out.csv"}, "eval"),
    "code": ({"tags": {"mlflow.user": "ada"}}, "training"),
}
ORDERS = dataset("s3", "lake/orders", "PROD")
LABELS = dataset("databricks", "main.churn.labels", "PROD")
HELD_OUT = dataset("file", "data/held-out.csv", "PROD")

ACROSS = """
query lineage($input: ScrollAcrossLineageInput!) {
  scrollAcrossLineage(input: $input) { searchResults { degree entity { urn } } }
}
"""


@dataclass(frozen=True)
class Place:
    """A real MLflow store and a catalog, and what the two call a run."""

    folder: Path
    uri: str
    catalog: str
    store: Store
    run_id: str

    @property
    def process(self) -> str:
        return Naming().process(self.run_id)

    @property
    def model(self) -> str:
        return Naming().model(self.run_id).urn

    @property
    def version(self) -> str:
        return Naming().version("scorer", "1").urn

    def write_recipe(self, more: str) -> str:
        path = self.folder / "recipe.yml"
        path.write_text(
            "name: lineage\nwriter_id: lineage\n"
            f"source: {{type: mlflow, config: {{tracking_uri: '{self.uri}', {more}}}}}\n"
            f"sink: {{type: rest, config: {{server: '{self.catalog}'}}}}\n"
            f"state: {{url: 'sqlite:///{self.folder}/state.db'}}\n"
        )
        return str(path)

    def ingest(self, more: str, *options: str) -> dict[str, Any]:
        return report_of(self.write_recipe(more), *options)

    def aspects(self, urn: str) -> dict[str, Any]:
        found = self.store.get_many([urn]).get(urn, {})
        return {name: dict(one.value) for name, one in found.items()}

    def jobs(self, urn: str) -> list[str]:
        return list(self.aspects(urn)["mlModelProperties"].get("trainingJobs") or ())

    def is_removed(self, urn: str) -> bool:
        return bool(self.aspects(urn).get("status", {}).get("removed"))

    def reached(self, urn: str, direction: str = "DOWNSTREAM") -> dict[str, int]:
        inputs = {"urn": urn, "direction": direction, "query": "*", "count": 100}
        with CatalogClient(self.catalog) as client:
            page = client.graphql(ACROSS, {"input": inputs})["scrollAcrossLineage"]
        return {one["entity"]["urn"]: one["degree"] for one in page["searchResults"]}


def train(uri: str, folder: Path) -> str:
    """Log a run with four datasets, a version made from it, and many runs without either."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    with mlflow_client(uri) as client:
        experiment = client.create_experiment("churn", artifact_location=str(folder))
        run = client.create_run(experiment, run_name="night", tags={"mlcat.training_job": JOB})
        run_id: str = run.info.run_id
        client.log_param(run_id, "depth", 3)
        client.log_metric(run_id, "auc", 0.5)
        used = [
            DatasetInput(
                Dataset(f"shown as {kind}", "d1", kind, json.dumps(source)),
                [InputTag("mlflow.data.context", context)],
            )
            for kind, (source, context) in LOGGED.items()
        ]
        client.log_inputs(run_id, datasets=used)
        client.set_terminated(run_id, "FINISHED")
        client.create_registered_model("scorer")
        client.create_model_version("scorer", f"{folder}/model", run_id)
        for _ in range(MORE_RUNS):
            client.create_run(experiment)
    return run_id


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("store")
    return folder / "mlflow.db", train(f"sqlite:///{folder / 'mlflow.db'}", folder)


@pytest.fixture
def place(tmp_path: Path, trained: tuple[Path, str]) -> Iterator[Place]:
    database, run_id = trained
    (tmp_path / "mlflow.db").write_bytes(database.read_bytes())
    with running_catalog(tmp_path / "catalog.db") as catalog:
        with CatalogClient(catalog.url) as client:
            client.emit(Proposal(ORDERS, "datasetProperties", {"name": "orders"}))
        uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
        yield Place(tmp_path, uri, catalog.url, catalog.store, run_id)


def test_lineage_leads_from_a_dataset_to_the_version(place: Place) -> None:
    place.ingest("env: PROD")
    assert place.reached(ORDERS) == {}
    place.ingest(ON)
    downstream, upstream = place.reached(ORDERS), place.reached(place.version, "UPSTREAM")
    assert downstream.items() >= {place.process: 1, place.model: 2, place.version: 2}.items()
    assert upstream.items() >= {place.process: 1, ORDERS: 2}.items()
    assert place.jobs(place.model) == place.jobs(place.version) == [JOB, place.process]
    # What the run used is an edge whether or not the catalog has it; no dataset is made.
    inputs = place.aspects(place.process)["dataProcessInstanceInput"]
    assert sorted(inputs["inputs"]) == sorted([ORDERS, LABELS, HELD_OUT])
    assert list(place.store.list_urns("dataset").urns) == [ORDERS]
    process = place.aspects(place.process)
    assert process["subTypes"] == {"typeNames": ["ML Training Run"]}
    assert process["dataProcessInstanceProperties"]["name"] == "night"
    assert place.store.list_urns("dataProcessInstance").total == 1 + MORE_RUNS


def test_switched_off_it_is_taken_back(place: Place) -> None:
    place.ingest(ON)
    # More entities than limits.max_removed_ratio lets a run remove because of its source.
    report = place.ingest("env: PROD")
    assert report["entities"]["dataProcessInstance"]["removed"] == 1 + MORE_RUNS
    assert place.is_removed(place.process)
    assert (place.jobs(place.model), place.jobs(place.version)) == ([JOB], [])
    assert place.reached(ORDERS) == {}
    place.ingest(ON)
    assert not place.is_removed(place.process)
    assert place.jobs(place.version) == [JOB, place.process]


def test_others_keep_what_they_wrote(place: Place) -> None:
    theirs = dataset("s3", "lake/by-hand", "PROD")
    place.ingest(ON)
    value = place.aspects(place.process)["dataProcessInstanceInput"]
    value["inputEdges"] = [*value["inputEdges"], {"destinationUrn": theirs}]
    with CatalogClient(place.catalog) as client:
        client.emit(Proposal(place.process, "dataProcessInstanceInput", value))
    place.ingest(ON, "--full")
    edges = place.aspects(place.process)["dataProcessInstanceInput"]["inputEdges"]
    assert {one["destinationUrn"] for one in edges} == {ORDERS, LABELS, HELD_OUT, theirs}
    for database in place.folder.glob("state.db*"):
        database.unlink()  # the catalog is searched for what the recipe wrote
    assert call(["retract", place.write_recipe(ON), "--yes"]) == 0
    left = place.aspects(place.process)
    assert left["dataProcessInstanceInput"]["inputEdges"] == [{"destinationUrn": theirs}]
    assert not place.is_removed(place.process)
    other = next(
        urn for urn in place.store.list_urns("dataProcessInstance").urns if urn != place.process
    )
    assert place.is_removed(other)


def test_it_goes_and_comes_back_with_its_run(place: Place) -> None:
    place.ingest(ON)
    with mlflow_client(place.uri) as client:
        client.delete_run(place.run_id)
        place.ingest(ON)
        assert place.is_removed(place.process)
        assert place.is_removed(place.model)
        client.restore_run(place.run_id)
    place.ingest(ON)
    assert not place.is_removed(place.process)
    assert not place.is_removed(place.model)
