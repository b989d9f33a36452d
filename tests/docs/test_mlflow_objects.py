"""`mlflow-objects.md` names each table of MLflow's database."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mlcat_ingest.sources.mlflow.read.checks import REVISIONS
from mlcat_ingest.sources.mlflow.read.database.access import tables_of
from mlcat_ingest.testing.mlflow_store import new_database

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "mlflow-objects.md").read_text()
NEWEST = list(REVISIONS.values())[-1]


def tables_under(heading: str) -> list[str]:
    """Return the tables in the last column of the rows of a section."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return [table for row in rows for table in re.findall(r"`(\w+)`", row.split(" | ")[-1])]


@pytest.mark.process
def test_the_page_names_every_table_of_the_installed_mlflow(tmp_path: Path) -> None:
    new_database(tmp_path / "mlflow.db")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        rows = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
    tables = [name for (name,) in rows]
    shared = ["registered_models"]  # prompts are registered models with a tag
    named = tables_under("In the catalog") + tables_under("Not ingested")
    assert sorted(named) == sorted(tables + shared)


def test_the_tables_of_objects_in_the_catalog_are_those_that_are_read() -> None:
    named = set(tables_under("In the catalog")) - {"alembic_version"}
    assert named == {table.name for table in tables_of(NEWEST)}
