"""Datasets that runs logged with pandas and numpy, as entities: real MLflow, and a catalog."""

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.cli.main import call
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.urn import dataset
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.rest import RestReader
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_server import running_catalog
from support.mlflow_readings import entities_of, opened_reader
from support.mlflow_server import running
from support.mlflow_tables import reader_of
from support.venvs import OURS

CREATE = {"lineage": {"datasets": "create"}}
TRAIN = dataset("s3", "lake/fraud/train.parquet", "PROD")
IMAGES = dataset("file", "data/img.npz", "PROD")
ODD = dataset("http", "x.org/d.csv", "PROD")
NEXT = dataset("s3", "lake/fraud/next.csv", "PROD")


def log_runs(uri: str) -> list[str]:
    """Log two runs of one table, the second with one column more, images, and a bare address."""
    import numpy as np
    import pandas as pd
    from mlflow.data.http_dataset_source import HTTPDatasetSource
    from mlflow.data.meta_dataset import MetaDataset
    from mlflow.data.numpy_dataset import from_numpy
    from mlflow.data.pandas_dataset import from_pandas
    from mlflow.entities import DatasetInput

    meta: Any = MetaDataset
    http: Any = HTTPDatasetSource

    table = pd.DataFrame({"id": ["a", "b"], "amount": [1.5, None], "país": ["es", "fr"]})
    arrays = {"x": np.zeros((5, 28, 28)), "y": np.zeros(5, dtype="int32")}
    source = "s3://lake/fraud/train.parquet"
    with warnings.catch_warnings(action="ignore"):  # of pandas, and of MLflow's guesses
        used: list[list[Any]] = [
            [from_pandas(table[["id"]], source, name="first"), from_numpy(arrays, "/data/img.npz")],
            [
                from_pandas(table, source, name="second"),
                meta(http("https://x.org/d.csv"), name="meta"),
            ],
        ]
    run_ids = []
    with mlflow_client(uri) as client:
        experiment = client.create_experiment("fraud")
        for start_ms, datasets in enumerate(used, 1_767_225_600_000):
            run = client.create_run(experiment, start_time=start_ms)
            with warnings.catch_warnings(action="ignore"):
                inputs = [DatasetInput(one._to_mlflow_entity(), []) for one in datasets]
            client.log_inputs(run.info.run_id, datasets=inputs)
            client.set_terminated(run.info.run_id, end_time=start_ms + 1)
            run_ids.append(run.info.run_id)
    return run_ids


def test_rest_and_sql_give_the_same(tmp_path: Path) -> None:
    with running(OURS, tmp_path) as server:
        log_runs(server.url)
        rest = RestReader(MlflowConfig(tracking_uri=server.url))
        sql = reader_of(f"sqlite:///{server.db_path}")
        with opened_reader(rest), opened_reader(sql):
            found = entities_of(rest, **CREATE)
            assert entities_of(sql, **CREATE) == found
    by_urn = {entity.urn: entity.aspects for entity in found}
    columns = {
        urn: [
            (one["fieldPath"], *one["type"]["type"]) for one in aspects["schemaMetadata"]["fields"]
        ]
        for urn, aspects in by_urn.items()
        if "schemaMetadata" in aspects
    }
    kind = "com.linkedin.schema.{}Type".format
    assert columns == {
        TRAIN: [("id", kind("String")), ("amount", kind("Number")), ("país", kind("String"))],
        IMAGES: [("features.x", kind("Array")), ("features.y", kind("Number"))],
    }
    custom = by_urn[TRAIN]["datasetProperties"]["customProperties"]
    assert (custom["mlflow.dataset_name"], custom["mlflow.dataset_rows"]) == ("second", "2")
    assert by_urn[ODD].keys() == {"datasetProperties"}


Ingest = Callable[..., dict[str, Any]]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Store, CatalogClient, Ingest, str, list[str]]]:
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    run_ids = log_runs(uri)
    with running_catalog(tmp_path / "catalog.db") as catalog, CatalogClient(catalog.url) as client:

        def ingest(*options: str, command: str = "run", mode: str = "create") -> dict[str, Any]:
            recipe = tmp_path / "recipe.yml"
            recipe.write_text(
                "name: data\nwriter_id: data\n"
                f"source: {{type: mlflow, config: {{tracking_uri: '{uri}',"
                f" lineage: {{datasets: {mode}}}}}}}\n"
                f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
                f"state: {{url: 'sqlite:///{tmp_path}/state.db'}}\n"
                "enrich: [{match: {}, add_tags: [ml]}]\n"
            )
            report = tmp_path / "report.json"
            write = ("--report", str(report)) if command == "run" else ()
            assert call([command, str(recipe), "-q", *write, *options]) == 0
            found: dict[str, Any] = json.loads(report.read_text())
            return found

        yield catalog.store, client, ingest, uri, run_ids


def aspects_of(store: Store, urn: str) -> dict[str, Any]:
    found = store.get_many([urn]).get(urn, {})
    return {name: dict(one.value) for name, one in found.items()}


def test_datasets_come_stay_and_go(
    place: tuple[Store, CatalogClient, Ingest, str, list[str]],
) -> None:
    store, client, ingest, uri, run_ids = place
    assert ingest()["entities"]["dataset"]["created"] == 3
    assert "globalTags" not in aspects_of(store, TRAIN)  # of the rule in the recipe
    for options in ((), ("--full",)):
        assert ingest(*options)["proposals_sent"] == 0
    ingest(command="verify")
    # Another connector comes: ours goes with the next full pass, and theirs stays as it is.
    theirs = {"name": "TRAIN", "customProperties": {"owner": "warehouse"}, "tags": []}
    client.emit(Proposal(TRAIN, "datasetProperties", theirs))
    client.emit(Proposal(TRAIN, "status", {"removed": False}))
    for _ in range(2):
        assert ingest("--full")["entities"]["dataset"]["left_out"] == 1
    left = aspects_of(store, TRAIN)
    assert left["datasetProperties"] == theirs
    assert left["status"] == {"removed": False}
    assert left.keys() & {"schemaMetadata", "testResults"} == set()
    # A dataset that no run names any more goes after two passes, and comes back with its run.
    with mlflow_client(uri) as runs:
        runs.delete_run(run_ids[0])
        for _ in range(2):
            ingest("--full")
        gone = aspects_of(store, IMAGES)
        assert gone["status"] == {"removed": True}
        assert not gone.keys() & {"datasetProperties", "schemaMetadata"}
        runs.restore_run(run_ids[0])
        ingest("--full")
    back = aspects_of(store, IMAGES)
    assert "status" not in back
    assert back["schemaMetadata"]["fields"]
    # Switched off, and retracted: nothing of ours is left.
    assert ingest(mode="link")["entities"]["dataset"]["removed"] == 2
    ingest()
    ingest("--yes", command="retract")
    for urn in (IMAGES, ODD):
        assert not aspects_of(store, urn).keys() & {"datasetProperties", "schemaMetadata"}
        assert aspects_of(store, urn)["status"] == {"removed": True}
    assert aspects_of(store, TRAIN)["datasetProperties"] == theirs
    assert ingest()["entities"]["dataset"]["updated"] == 2
    assert "status" not in aspects_of(store, ODD)


def test_the_description_of_a_run_goes_with_it(
    place: tuple[Store, CatalogClient, Ingest, str, list[str]],
) -> None:
    store, _, ingest, uri, run_ids = place

    def described() -> tuple[str, int]:
        aspects = aspects_of(store, TRAIN)
        custom = aspects["datasetProperties"]["customProperties"]
        return custom["mlflow.dataset_name"], len(aspects["schemaMetadata"]["fields"])

    ingest()
    assert described() == ("second", 3)
    with mlflow_client(uri) as runs:
        runs.delete_run(run_ids[1])
        ingest("--full")
        assert described() == ("first", 1)
        assert ingest("--full")["entities"]["dataset"]["updated"] == 0
        runs.restore_run(run_ids[1])
        ingest()
    assert described() == ("second", 3)


def test_a_pass_over_changes_keeps_the_schema_of_a_deleted_run(
    place: tuple[Store, CatalogClient, Ingest, str, list[str]],
) -> None:
    from mlflow.entities import Dataset, DatasetInput

    store, _, ingest, uri, run_ids = place
    ingest()
    with mlflow_client(uri) as runs:
        runs.delete_run(run_ids[1])
        # It reads this run alone, and not the one that logged the next best schema.
        experiment_id = runs.get_run(run_ids[0]).info.experiment_id
        bare = Dataset("bare", "x", "s3", json.dumps({"uri": "s3://lake/fraud/train.parquet"}))
        run_id = runs.create_run(experiment_id).info.run_id
        runs.log_inputs(run_id, datasets=[DatasetInput(bare, [])])
        runs.set_terminated(run_id)
    for options, columns in ((), 3), (("--full",), 1):
        ingest(*options)
        assert len(aspects_of(store, TRAIN)["schemaMetadata"]["fields"]) == columns


def test_a_file_takes_no_description(tmp_path: Path) -> None:
    log_runs(f"sqlite:///{tmp_path}/mlflow.db")
    recipe = tmp_path / "recipe.yml"
    recipe.write_text(
        f"source: {{type: mlflow, config: {{tracking_uri: 'sqlite:///{tmp_path}/mlflow.db',"
        " lineage: {datasets: create}}}\n"
        f"sink: {{type: file, config: {{path: '{tmp_path}/out.json'}}}}\nname: file\n"
    )
    assert call([str(recipe), "-q"]) == 0
    written = json.loads((tmp_path / "out.json").read_text())
    assert "dataset" not in {one["entityType"] for one in written}
