"""SQLite databases with the tables of MLflow that are read, and nothing else: no MLflow needed."""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.checks import REVISIONS
from mlcat_ingest.sources.mlflow.read.database.reader import DatabaseReader
from mlcat_ingest.sources.mlflow.read.database.schema import READ
from mlcat_ingest.sources.mlflow.source import open_reader

Row = Mapping[str, Any]

BEFORE_LOGGED_MODELS = "0584bdc529eb"
BEFORE_WORKSPACES = "bda7b8c39065"
NEWEST = "dc11669786a5"


def make_database(path: Path, revision: str = NEWEST, **tables: Iterable[Row]) -> str:
    """Make the database of one schema revision, put rows into its tables, return its address."""
    version = REVISIONS[revision]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE alembic_version (version_num TEXT)")
        connection.execute("INSERT INTO alembic_version VALUES (?)", [revision])
        for table in {table for table, _ in READ}:
            names = ", ".join(
                f'"{name}"' + (" DEFAULT 'default'" if name == "workspace" else "")
                for (held_in, name), (_, feature) in READ.items()
                if held_in == table and (feature is None or feature.is_in(version))
            )
            if names:
                connection.execute(f"CREATE TABLE {table} ({names})")
    for name, rows in tables.items():
        insert(path, name, rows)
    return f"sqlite:///{path}"


def insert(path: Path, table: str, rows: Iterable[Row]) -> None:
    """Add rows to a table."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for row in rows:
            names = ", ".join(f'"{name}"' for name in row)
            marks = ", ".join("?" * len(row))
            connection.execute(
                f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values())
            )


def reader_of(uri: str, **options: Any) -> DatabaseReader:
    """Return the reader that is chosen for a database."""
    reader = open_reader(MlflowConfig.model_validate({"tracking_uri": uri, **options}))
    assert isinstance(reader, DatabaseReader)
    return reader
