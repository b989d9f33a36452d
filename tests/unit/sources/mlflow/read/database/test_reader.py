"""Which databases are read directly, and what is said of those that cannot be."""

import logging
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.engine import make_url

from mlcat_ingest.errors import (
    MissingExtraError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
)
from mlcat_ingest.sources.base import Finished, ReadRequest
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.checks import REVISIONS
from mlcat_ingest.sources.mlflow.read.client import check_store
from mlcat_ingest.sources.mlflow.read.database.reader import DatabaseReader
from mlcat_ingest.sources.mlflow.read.database.schema import READ, Schema
from mlcat_ingest.sources.mlflow.source import MlflowSource, open_reader
from mlcat_ingest.sql import engine
from support.mlflow_readings import records_of
from support.mlflow_tables import BEFORE_WORKSPACES, NEWEST, make_database, reader_of

SECRET = "hunter2"


def opened(**config: Any) -> Any:
    return open_reader(MlflowConfig.model_validate(config))


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_known_schema_is_read_directly(
    revision: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    uri = make_database(tmp_path / "m.db", revision)
    with caplog.at_level(logging.INFO):
        reader = reader_of(uri)
    assert caplog.messages == [f"reading the tables of MLflow {REVISIONS[revision]} in {uri}"]
    for listing in (reader.experiments, reader.registered_models, reader.model_versions):
        assert list(listing()) == []
    assert list(reader.runs(["0"])) == []
    assert list(reader.logged_models(["0"])) == []
    reader.connection.close()
    reader.connection.close()


UNKNOWN = "0123456789ab"
"""A revision of a later release."""


def migrate(path: Path, *statements: str, revision: str = UNKNOWN) -> str:
    """Make a database with one run, run `statements` on it, and return its address."""
    run = {"run_uuid": "1", "experiment_id": 0, "status": "FINISHED"}
    uri = make_database(path, experiments=[{"experiment_id": 0, "name": "e"}], runs=[run])
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)
        connection.execute("UPDATE alembic_version SET version_num = ?", [revision])
    return uri


def retype(column: str, type_: str) -> tuple[str, str]:
    """Return the statements that make a column anew, with a type."""
    table, _, name = column.partition(".")
    dropped = f'ALTER TABLE {table} DROP COLUMN "{name}"'
    return dropped, f'ALTER TABLE {table} ADD COLUMN "{name}" {type_}'


def notes_of(uri: str, **options: Any) -> list[tuple[str, str]]:
    """Return the notes of a pass that reads the run in the database."""
    source = MlflowSource(MlflowConfig.model_validate({"tracking_uri": uri, **options}))
    read = list(source.read(ReadRequest()))
    assert [one.run_id for one in records_of(reader_of(uri))["runs"]] == ["1"]
    return [note for page in read if isinstance(page, Finished) for note in page.notes]


@pytest.mark.parametrize(
    "statements",
    [
        (),
        ("ALTER TABLE runs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0",),
        ("CREATE TABLE reviews (name VARCHAR(256))",),
        retype("runs.user_id", "MEDIUMTEXT"),
        retype("runs.end_time", "BIGINT"),
    ],
    ids=["as it is", "a column more", "a table more", "a longer text", "a wider integer"],
)
@pytest.mark.parametrize("reader", ["auto", "database"])
def test_an_unknown_revision_with_all_that_is_read_is_read_with_one_note(
    statements: tuple[str, ...], reader: str, tmp_path: Path
) -> None:
    uri = migrate(tmp_path / "m.db", *statements)
    text = f"{uri}: tables of the unknown schema revision {UNKNOWN}, with all columns that are read"
    assert notes_of(uri, reader=reader) == [("schema_unknown", text)]
    assert [
        (finding.what, finding.detail)
        for finding in reader_of(uri).check()
        if finding.outcome == "warning" and "revision" in finding.detail
    ] == [("MLflow database", text.replace(f"{uri}:", f"{uri} is readable:"))]


def test_a_known_revision_has_no_note(tmp_path: Path) -> None:
    assert notes_of(migrate(tmp_path / "m.db", revision=NEWEST)) == []


@pytest.mark.parametrize("revision", [NEWEST, UNKNOWN])
@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (("ALTER TABLE runs DROP COLUMN end_time",), "no column runs.end_time"),
        (
            ("ALTER TABLE tags RENAME TO run_tags",),
            "no column tags.run_uuid, no column tags.key, no column tags.value",
        ),
        (("ALTER TABLE inputs DROP COLUMN step",), "no column inputs.step"),
        (
            ("DROP TABLE experiment_tags", "CREATE TABLE experiment_tags (experiment_id, key)"),
            "no column experiment_tags.value",
        ),
        (
            ("ALTER TABLE model_versions DROP COLUMN workspace",),
            "no column model_versions.workspace",
        ),
        (retype("runs.start_time", "DATETIME"), "runs.start_time is of type DATETIME, not integer"),
        (retype("latest_metrics.value", "TEXT"), "latest_metrics.value is of type TEXT, not real"),
        (retype("params.value", "BLOB"), "params.value is of type BLOB, not text"),
    ],
)
def test_a_database_without_what_is_read_or_with_another_type_is_refused_by_name(
    statements: tuple[str, ...], problem: str, revision: str, tmp_path: Path
) -> None:
    uri = migrate(tmp_path / "m.db", *statements, revision=revision)
    with pytest.raises(ProtocolMismatchError) as refused:
        opened(tracking_uri=uri)
    assert refused.value.message == (
        f"the MLflow database {uri} of schema revision {revision} cannot be read by SQL: {problem}"
    )
    assert "MLflow server" in (refused.value.hint or "")


def test_of_many_problems_the_first_are_named(tmp_path: Path) -> None:
    uri = migrate(tmp_path / "m.db", "DROP TABLE runs", "CREATE TABLE runs (run_uuid)")
    first = "no column runs.experiment_id, no column runs.name, no column runs.user_id "
    with pytest.raises(ProtocolMismatchError, match=f"SQL: {first}"):
        opened(tracking_uri=uri)


@pytest.mark.parametrize(
    ("column", "types"),
    [
        (("runs", "name"), "VARCHAR(250); character varying; character; nvarchar; longtext; enum"),
        (("runs", "start_time"), "BIGINT; integer; int; smallint; int unsigned; INTEGER"),
        (("latest_metrics", "value"), "FLOAT; double precision; double; real"),
        (("latest_metrics", "is_nan"), "BOOLEAN; boolean; tinyint"),
    ],
)
def test_types_whose_values_are_read_alike_are_accepted_and_no_others(
    column: tuple[str, str], types: str
) -> None:
    whole = dict.fromkeys(READ, "")

    def problems(type_: str) -> list[str]:
        return [problem for _, problem in Schema([UNKNOWN], {**whole, column: type_}).problems()]

    assert [type_ for type_ in types.split("; ") if problems(type_)] == []
    for other in ("timestamp without time zone", "interval", "numeric", "bytea", "jsonb", "uuid"):
        (problem,) = problems(other)
        assert f"{'.'.join(column)} is of type {other}" in problem


@pytest.mark.process  # the first import of MLflow runs `uname`
def test_the_recipe_can_have_a_known_schema_read_by_mlflow(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="what is left to MLflow is tried with it")
    from mlcat_ingest.sources.mlflow.read.client import ClientReader

    uri = make_database(tmp_path / "m.db")
    assert isinstance(opened(tracking_uri=uri, reader="client"), ClientReader)
    assert isinstance(opened(tracking_uri="http://h", reader="client"), ClientReader)


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        ({"tracking_uri": "sqlite:///m.db", "reader": "rest"}, "http or https address"),
        (
            {"tracking_uri": "http://h", "registry_uri": "sqlite:///m.db", "reader": "rest"},
            "http or https address",
        ),
        ({"tracking_uri": "http://h", "reader": "database"}, "SQLite, PostgreSQL or MySQL"),
        ({"tracking_uri": "mssql://h/db", "reader": "database"}, "SQLite, PostgreSQL or MySQL"),
        ({"reader": "sql"}, "'client'"),
    ],
)
def test_a_reader_that_cannot_be_is_a_mistake_of_the_recipe(
    config: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        MlflowConfig.model_validate(config)


def test_what_is_no_database_of_mlflow_is_reported(tmp_path: Path) -> None:
    (tmp_path / "junk.db").write_bytes(b"this is no database, only text" * 50)
    for name, statements in {
        "empty": (),
        "others": ("CREATE TABLE alembic_version (version_num)",),
        "broken_off": ("CREATE TABLE runs (a)", "CREATE TABLE alembic_version (version_num)"),
    }.items():
        with closing(sqlite3.connect(tmp_path / f"{name}.db")) as connection, connection:
            for statement in statements:
                connection.execute(statement)
    for name, error, sentence in (
        (
            "junk",
            ProtocolMismatchError,
            "the tables of MLflow: file is not a database",
        ),
        ("empty", ProtocolMismatchError, "the tables of MLflow: no such table: runs"),
        (
            "others",
            ProtocolMismatchError,
            "the tables of MLflow: no such table: runs",
        ),
        ("broken_off", ProtocolMismatchError, "has no schema revision"),
        ("typo", RecipeError, "does not exist"),
    ):
        path = tmp_path / f"{name}.db"
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(MlcatError, match=sentence) as reported:
            opened(tracking_uri=f"sqlite:///{path}")
        assert type(reported.value) is error
        assert (path.read_bytes() if path.exists() else None) == before


def with_revisions(path: Path, *revisions: str) -> str:
    uri = make_database(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM alembic_version")
        connection.executemany(
            "INSERT INTO alembic_version VALUES (?)", [[one] for one in revisions]
        )
    return uri


@pytest.mark.parametrize(
    "revisions", [("v3.2.0.a", NEWEST), (NEWEST, "29ce7909c52b", "zz"), (BEFORE_WORKSPACES, NEWEST)]
)
def test_other_programs_may_share_the_table_of_revisions(
    tmp_path: Path, revisions: tuple[str, ...]
) -> None:
    reader = opened(tracking_uri=with_revisions(tmp_path / "m.db", *revisions))
    assert isinstance(reader, DatabaseReader)
    assert list(reader.registered_models()) == []


@pytest.mark.process  # the first import of MLflow runs `uname`
def test_revisions_of_other_programs_alone_are_named(tmp_path: Path) -> None:
    uri = with_revisions(tmp_path / "m.db", "v3.2.0.a", "29ce7909c52b")
    (note,) = opened(tracking_uri=uri).connection.notes()
    assert "unknown schema revision 29ce7909c52b, v3.2.0.a," in note.detail
    with pytest.raises(ProtocolMismatchError, match=r"29ce7909c52b, v3\.2\.0\.a .*of its own"):
        check_store(uri)


def test_a_file_that_may_not_be_read_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = make_database(tmp_path / "m.db")
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(NotAuthorizedError, match=r"read the database .*m\.db"):
        opened(tracking_uri=uri)


@pytest.mark.parametrize(
    ("uri", "missing", "error", "sentence"),
    [
        ("postgresql://u:{}@h/db", "psycopg", MissingExtraError, r"mlcat-ingest\[postgres\]"),
        ("mysql://u:{}@h/db", "pymysql MySQLdb", RecipeError, r"pip install pymysql"),
        ("mysql+mysqldb://u:{}@h/db", "pymysql MySQLdb", RecipeError, r"pip install mysqldb"),
        ("postgresql+nodriver://u:{}@h/db", "", RecipeError, r"address of the database"),
        ("mysql+pymysql://u:{}@127.0.0.1:x/db", "", RecipeError, r"address of the database"),
        ("mysql+aiomysql://u:{}@h/db", "", RecipeError, r"No module named 'aiomysql'"),
    ],
)
def test_a_driver_that_is_missing_is_named(
    uri: str,
    missing: str,
    error: type[MlcatError],
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    absent = {*missing.split(), "psycopg2"} if missing else set()
    monkeypatch.setattr("mlcat_ingest.sql.engine.POSTGRESQL_DRIVER", "psycopg")
    monkeypatch.setattr(engine, "find_spec", lambda name: None if name in absent else object())
    with pytest.raises(error, match=sentence) as reported:
        opened(tracking_uri=uri.format(SECRET))
    assert SECRET not in str(reported.value)


@pytest.mark.parametrize(
    ("named", "installed", "chosen"),
    [
        ("postgres", "psycopg psycopg2", "postgresql+psycopg"),
        ("postgresql", "psycopg2", "postgresql+psycopg2"),
        ("postgresql+psycopg2", "psycopg psycopg2", "postgresql+psycopg2"),
        ("postgresql+psycopg2", "psycopg", "postgresql+psycopg"),
        ("postgresql+pg8000", "psycopg", "postgresql+pg8000"),
        ("mysql", "MySQLdb", "mysql+mysqldb"),
        ("mysql+pymysql", "pymysql MySQLdb", "mysql+pymysql"),
    ],
)
def test_a_driver_that_is_there_is_taken(
    named: str, installed: str, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = installed.split()
    monkeypatch.setattr(engine, "find_spec", lambda name: object() if name in there else None)
    drivers = {"psycopg": "psycopg", "psycopg2": "psycopg2"}
    monkeypatch.setattr(engine, "_POSTGRESQL", drivers)
    url = make_url(f"{named}://h/db")
    assert engine._with_driver(url).drivername == chosen


def test_beside_sqlalchemy_1_4_postgresql_has_one_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda _: object())
    monkeypatch.setattr(engine, "_POSTGRESQL", {"psycopg2": "psycopg2"})
    for named in ("postgresql", "postgresql+psycopg", "postgresql+psycopg2"):
        url = engine._with_driver(make_url(f"{named}://h/db"))
        assert url.drivername == "postgresql+psycopg2"


# --- a registry elsewhere -------------------------------------------------------------------------


def test_the_same_address_twice_is_one_database(tmp_path: Path) -> None:
    uri = make_database(tmp_path / "m.db")
    reader_of(uri, registry_uri=f"{uri}?timeout=3").connection.close()


@pytest.mark.process  # the first import of MLflow runs `uname`
def test_a_registry_elsewhere_is_read_by_mlflow(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="what is left to MLflow is tried with it")
    from mlcat_ingest.sources.mlflow.read.client import ClientReader

    uri = make_database(tmp_path / "m.db")
    other = make_database(tmp_path / "other.db")
    for tracking, registry in ((uri, other), (uri, "uc:http://h"), ("http://h", uri)):
        assert isinstance(opened(tracking_uri=tracking, registry_uri=registry), ClientReader)
    with pytest.raises(RecipeError, match="`reader: database` cannot read a model registry"):
        opened(tracking_uri=uri, registry_uri=other, reader="database")
