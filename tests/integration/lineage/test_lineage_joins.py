"""Lineage that joins, by the command line: runs of a real store, tables that others wrote."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.urn import dataset
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.catalog_server import RunningCatalog, running_catalog
from support.cli import report_of

PLATFORMS = "{platforms: {snowflake: {instance: eu}}, source_types: {warehouse: snowflake}}"
LOGGED = {
    "monday": ("s3", {"uri": "s3a://lake/orders/dt=2024-01-01/part-00000.parquet"}),
    "tuesday": ("s3", {"uri": "s3://lake/orders/dt=2024-01-02/"}),
    "warehouse": ("warehouse", {"table": "SHOP.PUBLIC.CUSTOMERS"}),
    "misspelt": ("s3", {"uri": "s3://lake/raw/clicks"}),
}
ORDERS = dataset("s3", "lake/orders", "PROD")
CUSTOMERS = dataset("snowflake", "eu.shop.public.customers", "PROD")
CLICKS = dataset("s3", "lake/row/clicks", "PROD")
MISSING = dataset("s3", "lake/raw/clicks", "PROD")


@pytest.fixture
def store(tmp_path: Path) -> str:
    from mlflow.entities import Dataset, DatasetInput

    uri = f"sqlite:///{tmp_path}/mlflow.db"
    with mlflow_client(uri) as client:
        experiment = client.create_experiment("churn", artifact_location=str(tmp_path))
        for name, (kind, source) in LOGGED.items():
            run_id = client.create_run(experiment, run_name=name).info.run_id
            used = Dataset(f"shown as {name}", "d1", kind, json.dumps(source))
            client.log_inputs(run_id, datasets=[DatasetInput(used, [])])
            client.set_terminated(run_id, "FINISHED")
    return uri


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path / "catalog.db") as catalog:
        with CatalogClient(catalog.url) as client:
            for urn in (ORDERS, CUSTOMERS, CLICKS):
                client.emit(Proposal(urn, "datasetProperties", {"name": urn}))
        yield catalog


def ingest(folder: Path, store: str, catalog: RunningCatalog, more: str = "") -> dict[str, Any]:
    recipe = folder / "lineage.yml"
    recipe.write_text(
        f"source: {{type: mlflow, config: {{tracking_uri: '{store}', datasets: {PLATFORMS}}}}}\n"
        f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n{more}"
    )
    return report_of(recipe, "--full")


def test_runs_join_the_tables_that_others_wrote(
    tmp_path: Path, store: str, catalog: RunningCatalog
) -> None:
    found = ingest(tmp_path, store, catalog)["lineage"]
    assert (found["datasets"], found["in_catalog"]) == (3, 2)
    assert found["dangling"] == [{"urn": MISSING, "models": 1, "nearest": [CLICKS]}]
    assert not catalog.store.exists([MISSING])


def test_the_check_costs_one_look_up_and_one_search(
    tmp_path: Path, store: str, catalog: RunningCatalog
) -> None:
    first = ingest(tmp_path, store, catalog)
    again = ingest(tmp_path, store, catalog)
    without = ingest(tmp_path, store, catalog, "lineage: {check: false}\n")
    assert again["lineage"] == first["lineage"]
    assert without["lineage"]["not_checked"] == "switched off in the recipe"
    assert again["catalog_requests"] == without["catalog_requests"] + 2
