"""Seeded MLflow stores on every kind of database, each with a server of its own."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from support.mlflow_server import MlflowServer, running
from support.seeded_store import SeededStore, new_seeded_database, seed
from support.services import mariadb_database, postgres_database
from support.venvs import OURS, venv_for

KINDS = ("sqlite", "postgresql", "mysql")


class Store(NamedTuple):
    """The addresses of a server and of its database."""

    server: str
    database: str

    @property
    def kind(self) -> str:
        return self.database.partition("+")[0].partition(":")[0]


@contextmanager
def seeded_server(version: str, folder: Path) -> Iterator[tuple[MlflowServer, SeededStore]]:
    """Give a server on a store with all that `seed` makes.

    `version` is `ours`, the MLflow of this environment, or names an environment of MLflow 2.
    """
    if version == "ours":
        made = new_seeded_database(folder / "mlflow.db")
        with running(OURS, folder) as server:
            yield server, made
    else:
        with running(venv_for(version), folder) as server:
            yield server, seed(server.url, logged_models=False)


@contextmanager
def seeded_store(kind: str, folder: Path) -> Iterator[Store]:
    """Give a store on a database of `kind`, with all that `seed` makes."""
    databases: dict[str, AbstractContextManager[str]] = {
        "sqlite": nullcontext(f"sqlite:///{folder / 'mlflow.db'}"),
        "postgresql": postgres_database(),
        "mysql": mariadb_database(),
    }
    with ExitStack() as stack:
        database = stack.enter_context(databases[kind])
        # Without a word of it, the server gets the copy of an empty database in SQLite.
        extra_args = [] if kind == "sqlite" else ["--backend-store-uri", database]
        server = stack.enter_context(running(OURS, folder, extra_args=extra_args))
        seed(server.url, name_chars=256)
        yield Store(server.url, database)
