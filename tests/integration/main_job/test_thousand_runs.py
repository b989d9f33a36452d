"""The main job on real input: 1,000 runs in 10 experiments of a real server, into the catalog."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.generate import generate
from mlcat_ingest.catalog.schema.virtual import DEFAULTED
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.metadata.urn import raw_parts
from support.catalog_server import RunningCatalog, running_catalog
from support.cli import report_of
from support.counting_proxy import CountingProxy, counting_proxy
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS

RUNS = 1000
EXPERIMENTS = 10
GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,{},PROD)"
MODEL = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,{},PROD)"


@dataclass(frozen=True)
class World:
    mlflow: MlflowServer
    catalog: RunningCatalog
    folder: Path
    to_mlflow: CountingProxy
    to_catalog: CountingProxy

    def ingest(self, *options: str) -> dict[str, Any]:
        """Run the recipe; return its report, and under `seen` how much each server was asked."""
        recipe = self.folder / "thousand.yml"
        recipe.write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: '{self.to_mlflow.url}'}}}}\n"
            f"sink: {{type: rest, config: {{server: '{self.to_catalog.url}'}}}}\n"
        )
        self.to_mlflow.take()
        self.to_catalog.take()
        data = report_of(recipe, *options)
        data["seen"] = {"mlflow": len(self.to_mlflow.seen), "catalog": len(self.to_catalog.seen)}
        return data

    def groups_by_run(self) -> dict[str, str]:
        """Run id to experiment name, of every active run, as MLflow's own database has it."""
        with closing(sqlite3.connect(self.mlflow.db_path)) as database:
            return dict(
                database.execute(
                    "SELECT run_uuid, e.name FROM runs JOIN experiments e USING (experiment_id)"
                    " WHERE runs.lifecycle_stage = 'active'"
                )
            )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("thousand")
    generate(folder / "store", runs=RUNS, experiments=EXPERIMENTS)
    with (
        running(OURS, folder / "store") as mlflow,
        running_catalog(folder / "c.db") as catalog,
        counting_proxy(mlflow.url) as to_mlflow,
        counting_proxy(catalog.url) as to_catalog,
    ):
        yield World(mlflow, catalog, folder, to_mlflow, to_catalog)


@pytest.fixture(scope="module")
def first(world: World) -> dict[str, Any]:
    """The report of the first run, and under `groups` what the catalog held right after it."""
    report = world.ingest()
    urns = [MODEL.format(run_id) for run_id in world.groups_by_run()]
    with CatalogClient(world.catalog.url) as client:
        stored = client.read_many(urns, ["mlModelProperties"])
    report["groups"] = {
        raw_parts(urn)[1]: aspects["mlModelProperties"].value["groups"]
        for urn, aspects in stored.items()
    }
    return report


def test_every_active_run_is_a_model_in_its_experiments_group(
    world: World, first: dict[str, Any]
) -> None:
    expected = world.groups_by_run()
    assert len(expected) == RUNS
    assert first["entities"]["mlModel"]["created"] == RUNS
    assert first["groups"] == {run: [GROUP.format(name)] for run, name in expected.items()}


def test_mlflow_sees_a_request_a_page_of_a_listing_and_four(first: dict[str, Any]) -> None:
    others = len(("experiments", "registered models", "logged models"))
    pages_of_runs = -(-RUNS // 500)
    # What the store is, a small first page, and at most two pages beyond the end.
    assert first["seen"]["mlflow"] <= pages_of_runs + others + 4 <= 9


def test_the_catalog_sees_few_requests(first: dict[str, Any]) -> None:
    entities = sum(counts["read"] for counts in first["entities"].values())
    written = sum(c["created"] + c["updated"] for c in first["entities"].values())
    pages = sum(-(-n // 200) for n in (first["proposals_sent"], entities, written))
    assert first["seen"]["catalog"] <= 1.1 * pages + 10


def test_the_report_counts_the_requests_that_the_servers_saw(first: dict[str, Any]) -> None:
    assert first["source_requests"] == first["seen"]["mlflow"]
    assert first["catalog_requests"] == first["seen"]["catalog"]


def test_an_ordinary_run_is_at_most_three_aspects(world: World, first: dict[str, Any]) -> None:
    assert first["entities"]["mlModel"]["read"] == RUNS
    urn = MODEL.format(next(iter(world.groups_by_run())))
    stored = world.catalog.store.get_many([urn])[urn].keys() - set(DEFAULTED)
    assert stored == {"mlModelKey", "mlModelProperties", "ownership"}
