"""Seeded MLflow stores on every kind of database, each with a server of its own."""

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import NamedTuple

from support import mlflow_store
from support.mlflow_server import running
from support.services import mariadb_database, postgres_database
from support.venvs import Venv

KINDS = ("sqlite", "postgresql", "mysql")

OURS = Venv(Path(sys.prefix))
"""This environment: it has MLflow, and the drivers."""


class Store(NamedTuple):
    """The addresses of a server and of its database."""

    server: str
    database: str

    @property
    def kind(self) -> str:
        return self.database.partition("+")[0].partition(":")[0]


@contextmanager
def seeded_store(kind: str, folder: Path) -> Iterator[Store]:
    """Give a store on a database of `kind`, with all that `mlflow_store.seed` makes."""
    databases: dict[str, AbstractContextManager[str]] = {
        "sqlite": nullcontext(f"sqlite:///{folder / 'mlflow.db'}"),
        "postgresql": postgres_database(),
        "mysql": mariadb_database(),
    }
    with ExitStack() as stack:
        database = stack.enter_context(databases[kind])
        extra_args = ["--backend-store-uri", database]
        server = stack.enter_context(running(OURS, folder, extra_args=extra_args))
        mlflow_store.seed(server.url, name_chars=256)
        yield Store(server.url, database)
