"""The catalog lists the runs that wrote to it: one source a recipe, one request a run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.pipeline.report.catalog import source_urn
from support.catalog_server import RunningCatalog, running_catalog
from support.mlflow_tables import make_database

pytestmark = pytest.mark.integration

TOKEN = "hunter2hunter2"
SOURCE, REQUEST = "dataHubIngestionSource", "dataHubExecutionRequest"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RunningCatalog]:
    experiment = {"experiment_id": 1, "name": "churn", "lifecycle_stage": "active"}
    make_database(tmp_path / "mlflow.db", experiments=[experiment])
    with running_catalog(tmp_path / "catalog.db", token=TOKEN) as catalog:
        yield catalog


def ingest(folder: Path, catalog: RunningCatalog, more: str = "", limit: str = "") -> int:
    (folder / "night.yml").write_text(
        "source: {type: mlflow, config: {tracking_uri: 'sqlite:///mlflow.db'}}\n"
        f"sink: {{type: rest, config: {{server: '{catalog.url}', token: {TOKEN}}}}}\n"
        f"limits: {{max_new_entities: {limit or 9}}}\n{more}"
    )
    return call([str(folder / "night.yml"), "-q", "--report", str(folder / "report.json")])


def listed(catalog: RunningCatalog) -> list[dict[str, Any]]:
    """The aspects of each run that the catalog lists, in the order they began."""
    urns = catalog.store.list_urns(REQUEST).urns
    found = [
        {name: one.value for name, one in aspects.items()}
        for aspects in catalog.store.get_many(urns).values()
    ]
    return sorted(found, key=lambda one: int(one["dataHubExecutionRequestInput"]["requestedAt"]))


def test_each_run_is_listed_under_its_recipe(tmp_path: Path, catalog: RunningCatalog) -> None:
    assert ingest(tmp_path, catalog, limit="0") == 2
    assert ingest(tmp_path, catalog) == 0
    assert ingest(tmp_path, catalog) == 0
    assert list(catalog.store.list_urns(SOURCE).urns) == [source_urn("night")]
    runs = listed(catalog)
    results = [run["dataHubExecutionRequestResult"] for run in runs]
    assert [one["status"] for one in results] == ["FAILURE", "SUCCESS", "SUCCESS"]
    assert {run["dataHubExecutionRequestInput"]["source"]["ingestionSource"] for run in runs} == {
        source_urn("night")
    }
    reported = json.loads(results[-1]["structuredReport"]["serializedValue"])
    last = json.loads((tmp_path / "report.json").read_text())
    # Nothing had changed: no proposal was sent, and one write came after what the catalog lists.
    assert reported["mlcat"]["proposals_sent"] == last["proposals_sent"] == 0
    assert last["catalog_requests"] == reported["mlcat"]["catalog_requests"] + 1
    assert TOKEN not in str(runs)
    assert TOKEN not in str(catalog.store.get_many([source_urn("night")]))


def test_a_recipe_can_do_without(tmp_path: Path, catalog: RunningCatalog) -> None:
    assert ingest(tmp_path, catalog, "report_to_catalog: false\n") == 0
    assert catalog.store.list_urns(REQUEST).total == 0
    # Switching it on is no change of what is read.
    assert ingest(tmp_path, catalog) == 0
    [source] = json.loads((tmp_path / "report.json").read_text())["passes"]
    assert not source["full"]
    assert catalog.store.list_urns(REQUEST).total == 1
