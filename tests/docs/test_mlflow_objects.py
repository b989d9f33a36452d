"""`mlflow-objects.md` and the declaration behind it name each table of MLflow's database."""

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import pytest

from mlcat_ingest.sources.mlflow.read.database.groups import ROWS_COUNTED
from mlcat_ingest.sources.mlflow.read.database.tables import tables_of
from mlcat_ingest.sources.mlflow.read.listing import MODELS_PAGE
from mlcat_ingest.sources.mlflow.values.objects import LEFT_OUT, READ, LeftOutKind, MlflowKind
from mlcat_ingest.sources.mlflow.values.releases import REVISIONS
from mlcat_ingest.testing.mlflow_store import new_database

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "mlflow-objects.md").read_text()
NEWEST = list(REVISIONS.values())[-1]


def rows() -> list[str]:
    """Return the rows of the page's tables, without their heads."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    return [line for line in lines if not line.startswith("| of MLflow |")]


def named(tables: Iterable[str]) -> str:
    return ", ".join(f"`{table}`" for table in tables)


def row_of(kind: MlflowKind) -> str:
    """Return the row of a kind as the page has it."""
    if not isinstance(kind, LeftOutKind):
        return f"| {kind.noun} | {kind.meaning} | {named(kind.tables)} |"
    since = f"counted since {kind.since[0]}.{kind.since[1]}" if kind.scope else "not counted"
    listed = "counted" if kind.listed else "not counted"
    return f"| {kind.noun} | {kind.meaning} | {since} | {listed} | {named(kind.tables)} |"


def test_the_page_has_a_row_for_each_kind() -> None:
    assert rows() == [row_of(kind) for kind in (*READ, *LEFT_OUT)]


def test_the_page_names_the_limits_of_counting() -> None:
    assert {f"up to {ROWS_COUNTED:,} rows", f"up to {MODELS_PAGE:,}."} <= set(
        re.findall(r"up to [\d,]+(?: rows|\.)", PAGE)
    )


@pytest.fixture(scope="module")
def columns(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Return the columns of each table that the installed MLflow makes."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    new_database(path)
    with closing(sqlite3.connect(path)) as database:
        tables = database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return {
            name: {column[1] for column in database.execute(f"PRAGMA table_info({name})")}
            for (name,) in tables
        }


@pytest.mark.process
def test_every_table_of_mlflow_belongs_to_one_kind(columns: dict[str, set[str]]) -> None:
    shared = {"registered_models"}  # prompts are registered models with a tag
    declared = [table for kind in (*READ, *LEFT_OUT) for table in kind.tables]
    assert sorted(declared) == sorted([*columns, *shared])


@pytest.mark.process
def test_a_kind_is_counted_in_its_workspace(columns: dict[str, set[str]]) -> None:
    scoped = [kind for kind in LEFT_OUT if kind.scope]
    assert [one.noun for one in scoped if one.scope not in columns[one.tables[0]]] == []


def test_the_tables_of_kinds_in_the_catalog_are_those_that_are_read() -> None:
    declared = {table for kind in READ for table in kind.tables}
    of_traces = {"trace_info", "trace_request_metadata"}  # they lead from a run to assessments
    read = {table.name for table in tables_of(NEWEST)}
    assert (declared - {"alembic_version"}, set[str]()) == (read - of_traces, of_traces - read)
