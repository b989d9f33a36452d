"""A small world for runs that meet faults: an MLflow store, a catalog, people, and what changes."""

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.testing.mlflow_store import mlflow_client
from mlcat_ingest.testing.service import failing_service
from support.bulk_runs import insert_runs
from support.catalog_checks import everything
from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import feature, group, put
from support.cli import report_of
from support.faults import Faults
from support.seeded_store import SeededStore, new_seeded_database

BULK = 160
REFUSED = "the run that nobody likes"
ATTEMPTS = 20
NAMING = Naming()

_RULES = {
    "on": {"types": ["mlModel", "mlModelGroup"]},
    "rules": [{"property": "mlModelProperties.description", "operator": "exists", "values": []}],
}
_DESCRIBED = {
    "name": "described",
    "category": "quality",
    "definition": {"type": "JSON", "json": json.dumps(_RULES)},
}


@dataclass
class Origin:
    """A store that worlds copy, as it is first and as it is after a while, and what is in it."""

    first: Path
    changed: Path
    made: SeededStore
    bulk: list[str]

    @classmethod
    def make(cls, folder: Path) -> "Origin":
        """Fill a store with what real ones hold, and with many small runs; then change it."""
        folder.mkdir(parents=True)
        first, changed = folder / "first.db", folder / "changed.db"
        made = new_seeded_database(first)
        bulk = insert_runs(first, BULK, experiments=4)
        with closing(sqlite3.connect(first)) as connection, connection:
            connection.execute("UPDATE runs SET name = ? WHERE run_uuid = ?", (REFUSED, bulk[7]))
        shutil.copy(first, changed)
        _change(changed, made)
        return cls(first, changed, made, bulk)


def _change(database: Path, made: SeededStore) -> None:
    """Delete, restore, rename, move and edit."""
    with mlflow_client(f"sqlite:///{database}") as client:
        client.delete_run(made.runs["child-2"])
        client.restore_run(made.runs["deleted"])
        client.rename_experiment(made.experiments["churn"], "churn, renamed")
        client.set_registered_model_alias("churn-model", "champion", "1")
        client.set_tag(made.runs["parent"], "team", "b")
        client.set_terminated(made.runs["running"], "FINISHED")
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE tags SET value = 'bob' WHERE key = 'mlflow.user'")


@dataclass
class World:
    """One copy of the store, one catalog, one folder for recipe and state."""

    folder: Path
    origin: Origin
    catalog: RunningCatalog

    @property
    def database(self) -> Path:
        return self.folder / "mlflow.db"

    def recipe(self, server: str) -> Path:
        """Write the recipe for a catalog behind `server`, and return its path."""
        path = self.folder / "faults.yml"
        path.write_text(
            f"""\
name: faults
writer_id: faults
source:
  type: mlflow
  config:
    tracking_uri: "sqlite:///{self.database}"
    page_size: 40
    connections: 2
    retries: 9
    ui_url: http://mlflow.test
sink:
  type: rest
  config: {{server: "{server}", batch_size: 20, retries: {ATTEMPTS - 1}, timeout_s: 5}}
"""
        )
        return path

    def ingest(self, faults: Faults | None = None, *options: str) -> dict[str, Any]:
        """Run the command with its catalog behind `faults`; return its report."""
        if faults is None:
            return self.run(self.recipe(self.catalog.url), *options)
        faults.upstream = self.catalog.url
        with failing_service(faults) as proxy:
            return self.run(self.recipe(proxy.url), *options)

    def run(self, recipe: Path, *options: str) -> dict[str, Any]:
        """Run the command once and return its report."""
        return report_of(recipe, *options, code=None)

    def report(self) -> dict[str, Any]:
        """Return the report that the last run left."""
        found: dict[str, Any] = json.loads((self.folder / "report.json").read_text())
        return found

    def letters(self) -> list[tuple[str, str]]:
        """Return URN and aspect of each dead letter."""
        path = self.folder / ".mlcat" / "faults.dead.jsonl"
        if not path.exists():
            return []
        letters = map(json.loads, path.read_text().splitlines())
        return sorted((one["urn"], one["aspect"]) for one in letters)

    def model(self, label: str) -> str:
        return NAMING.model(self.origin.made.runs[label]).urn

    def somebody_edits(self) -> None:
        """Add and take away entries of a model and a group, as people and other writers do."""
        urn = self.model("parent")
        stored = _properties(self.catalog.store, urn, "mlModelProperties")
        stored["groups"] = [*stored["groups"][1:], group("of somebody")]
        stored["mlFeatures"] = [feature("of.somebody", "age")]
        stored["customProperties"]["reviewed"] = "yes"
        owner = {"owner": "urn:li:corpuser:somebody", "type": "DATAOWNER"}
        owners = self.catalog.store.get_many([urn])[urn]["ownership"].value["owners"]
        put(
            self.catalog.store,
            urn,
            mlModelProperties=stored,
            ownership={"owners": [*owners, owner]},
        )
        churn = NAMING.group("churn").urn
        described = _properties(self.catalog.store, churn, "mlModelGroupProperties")
        described["customProperties"]["team"] = "of somebody"
        put(self.catalog.store, churn, mlModelGroupProperties=described)

    def source_changes(self) -> None:
        """Let the store be as it is after runs, experiments and aliases have changed."""
        shutil.copy(self.origin.changed, self.database)

    def contents(self) -> dict[str, dict[str, Any]]:
        return everything(self.catalog.store)


def add_test(store: Store) -> None:
    """Add a metadata test, so that there are results to lose."""
    put(store, "urn:li:test:described", testInfo=_DESCRIBED)


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing happened to: its report, the catalog after it, and the fewest requests.

    The latter are what a full run sends that has nothing to write.
    """

    report: dict[str, Any]
    contents: dict[str, dict[str, Any]]
    fewest: int


@contextmanager
def world(folder: Path, origin: Origin) -> Iterator[World]:
    """Give a world of its own copy of the store, with an empty catalog."""
    folder.mkdir()
    shutil.copy(origin.first, folder / "mlflow.db")
    with running_catalog(folder / "catalog.db") as catalog:
        add_test(catalog.store)
        yield World(folder, origin, catalog)


def _properties(store: Store, urn: str, name: str) -> dict[str, Any]:
    copied: dict[str, Any] = json.loads(json.dumps(store.get_many([urn])[urn][name].value))
    return copied


def assert_sums(report: dict[str, Any]) -> None:
    """Fail unless every entity of a report has exactly one outcome."""
    for kind, counts in report["entities"].items():
        outcomes = {name: count for name, count in counts.items() if name != "read"}
        assert counts["read"] == sum(outcomes.values()), (kind, counts)
