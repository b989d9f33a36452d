"""A small MLflow store in SQLite, and recipes from it into one catalog: no MLflow needed."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.client.config import EmbeddedSinkConfig, RestSinkConfig
from mlcat_ingest.client.embedded import EmbeddedCatalog
from mlcat_ingest.client.rest.catalog import RestCatalog
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from support.fakes import group_urn, model_urn
from support.mlflow_tables import insert, make_database

STARTED_MS = 1_760_000_000_000
GROUP = group_urn("churn")
_SHOWN = (
    *("mlModelProperties", "mlModelGroupProperties", "ownership", "status", "globalTags"),
    *("editableMlModelProperties", "sourceCode", "versionProperties"),
)


@dataclass(frozen=True)
class SmallStore:
    """A folder with `mlflow.db`, and the catalog that its recipes write to.

    That is the service at `server`, or where there is none the embedded catalog.
    """

    folder: Path
    server: str | None = None

    @property
    def mlflow(self) -> Path:
        return self.folder / "mlflow.db"

    @property
    def catalog(self) -> Path:
        return self.folder / "catalog.db"

    def recipe(self, name: str = "prod", more: str = "") -> str:
        """Write a recipe, and return its path."""
        path = self.folder / f"{name}.yml"
        sink = f"{{type: rest, config: {{server: '{self.server}'}}}}"
        if self.server is None:
            sink = "{type: embedded, config: {db: catalog.db}}"
        path.write_text(
            f"source: {{type: mlflow, config: {{tracking_uri: 'sqlite:///mlflow.db'}}}}\n"
            f"sink: {sink}\n{more}"
        )
        return str(path)

    def add_run(self, name: str, **params: str) -> None:
        insert(
            self.mlflow,
            "runs",
            [
                {
                    "run_uuid": name,
                    "experiment_id": 1,
                    "name": f"run {name}",
                    "user_id": "jane",
                    "status": "FINISHED",
                    "start_time": STARTED_MS,
                    "end_time": STARTED_MS + 5,
                    "lifecycle_stage": "active",
                }
            ],
        )
        rows = [{"run_uuid": name, "key": key, "value": value} for key, value in params.items()]
        insert(self.mlflow, "params", rows)

    def change(self, statement: str, *values: object) -> None:
        with closing(sqlite3.connect(self.mlflow)) as connection, connection:
            connection.execute(statement, values)

    @contextmanager
    def _open(self) -> Iterator[Catalog]:
        sink: Catalog = EmbeddedCatalog(EmbeddedSinkConfig(db=f"sqlite:///{self.catalog}"))
        if self.server is not None:
            sink = RestCatalog(RestSinkConfig.model_validate({"server": self.server}))
        try:
            sink.open()
            yield sink
        finally:
            sink.close()

    def put(self, urn: str, **aspects: Aspect) -> None:
        """Write as a person does."""
        with self._open() as sink:
            assert sink.write([Proposal(urn, name, value) for name, value in aspects.items()]) == []

    def stored(self, *urns: str) -> dict[str, dict[str, Any]]:
        """Return what the catalog holds of the entities, of the aspects that matter here."""
        found: dict[str, dict[str, Any]] = {}
        with self._open() as sink:
            for urn in urns:
                stored = sink.read_many([urn], _SHOWN).get(urn, {})
                found[urn] = {name: one.value for name, one in stored.items()}
        return found


def make(folder: Path, server: str | None = None) -> SmallStore:
    """Make a store of one experiment with two runs, `a` and `b`."""
    store = SmallStore(folder, server)
    make_database(
        store.mlflow,
        experiments=[
            {
                "experiment_id": 1,
                "name": "churn",
                "lifecycle_stage": "active",
                "creation_time": STARTED_MS,
                "last_update_time": STARTED_MS,
            }
        ],
    )
    store.add_run("a", lr="0.1", depth="3")
    store.add_run("b", lr="0.2")
    return store


A, B, C = map(model_urn, "abc")
