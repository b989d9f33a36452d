"""How the database is treated: what it has to permit, what it is kept from, what is told."""

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url

from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    RetryableError,
    SourceUnavailableError,
)
from mlcat_ingest.sources.base import ReadRequest
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.checks import MlflowFeature
from mlcat_ingest.sources.mlflow.read.database import access
from mlcat_ingest.sources.mlflow.read.database.access import Database
from mlcat_ingest.sources.mlflow.read.database.schema import COLUMNS, READ, Schema
from mlcat_ingest.sources.mlflow.source import MlflowSource, open_reader
from mlcat_ingest.sql.readonly import open_readonly
from support.mlflow_databases import Store
from support.mlflow_readings import opened_reader, records_of
from support.mlflow_tables import reader_of
from support.ports import free_port

PASSWORD = "pass:w0rd/of@ours"

_MAKE_USER = {
    "postgresql": "CREATE ROLE {} LOGIN PASSWORD '{}'",
    "mysql": "CREATE USER {} IDENTIFIED BY '{}'",
}
_DROP_USER = {
    "postgresql": ("DROP OWNED BY {0}", "DROP ROLE {0}"),
    "mysql": ("DROP USER {0}",),
}
_CONNECTIONS = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity"
    " WHERE application_name = 'mlcat-ingest' AND datname = :name",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE user = :name",
}


def execute(database: str, *statements: str) -> None:
    """Run statements as the user that owns the database."""
    engine = create_engine(database, future=True)
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


def number(database: str, statement: str, **values: object) -> int:
    """Return the one number that a statement gives."""
    engine = create_engine(database, future=True)
    with engine.connect() as connection:
        found = connection.scalar(text(statement), values)
    engine.dispose()
    return int(found or 0)


@pytest.fixture
def served(store: Store) -> Store:
    """The stores on databases that have users and a server."""
    if store.kind == "sqlite":
        pytest.skip("SQLite has no users and no server")
    return store


@contextmanager
def reading_user(store: Store, *, but: str = "") -> Iterator[URL]:
    """Give the database's address for a user who may read MLflow's tables, all `but` one."""
    name = f"mlcat_{uuid.uuid4().hex[:10]}"
    tables = [table for table in tables_of(store.database) if table != but]
    grants = [f"GRANT SELECT ON {table} TO {name}" for table in tables]
    execute(store.database, _MAKE_USER[store.kind].format(name, PASSWORD), *grants)
    try:
        yield make_url(store.database).set(username=name, password=PASSWORD)
    finally:
        execute(store.database, *(each.format(name) for each in _DROP_USER[store.kind]))


def tables_of(database: str) -> list[str]:
    engine = create_engine(database, future=True)
    with engine.connect() as connection:
        schema = "current_schema()" if engine.name == "postgresql" else "database()"
        where = f"table_schema = {schema}"
        found = connection.scalars(
            text(f"SELECT table_name FROM information_schema.tables WHERE {where}")
        ).all()
    engine.dispose()
    return list(found)


def address(url: URL) -> str:
    return url.render_as_string(hide_password=False)


# --- permissions ----------------------------------------------------------------------------------


def test_select_on_the_tables_is_enough(served: Store) -> None:
    owner = reader_of(served.database)
    with reading_user(served) as url:
        reader = reader_of(address(url))
        assert records_of(reader) == records_of(owner)
        assert {finding.outcome for finding in reader.check()} == {"ok", "warning"}
        reader.connection.close()
    owner.connection.close()


def test_a_table_that_may_not_be_read_is_named(served: Store) -> None:
    with reading_user(served, but="params") as url:
        reader = reader_of(address(url))
        failed = [finding for finding in reader.check() if finding.outcome == "failed"]
        assert [finding.detail for finding in failed] == ["no permission to read params"]
        with pytest.raises(NotAuthorizedError, match=r"SELECT on MLflow's tables") as reported:
            records_of(reader)
        assert "params" in reported.value.message
        assert PASSWORD not in str(reported.value)
        reader.connection.close()


def test_who_is_not_let_in_is_reported_without_the_password(served: Store) -> None:
    with reading_user(served) as url:
        stranger = url.set(username=f"nobody_{url.username}")
        with pytest.raises(AuthenticationError, match=r"rejects the login") as reported:
            reader_of(address(stranger))
    assert PASSWORD not in str(reported.value)
    if served.kind == "mysql":
        with reading_user(served) as url, pytest.raises(AuthenticationError) as reported:
            reader_of(address(url.set(password="wr0ng-one")))
        assert "wr0ng-one" not in str(reported.value)


# --- errors ---------------------------------------------------------------------------------------


def test_a_server_that_is_down_may_answer_later(served: Store) -> None:
    url = make_url(served.database).set(port=free_port(), password=PASSWORD)
    with pytest.raises(SourceUnavailableError, match=r"does not answer: .*refused") as reported:
        reader_of(address(url))
    assert isinstance(reported.value, RetryableError)
    assert PASSWORD not in str(reported.value)


def test_a_database_that_is_not_there_is_a_mistake_of_the_recipe(served: Store) -> None:
    url = make_url(served.database).set(database="mlcat_no_such_database")
    with pytest.raises(RecipeError, match=r"does not exist"):
        reader_of(address(url))


def test_a_database_without_mlflow_is_reported(served: Store) -> None:
    others = {"postgresql": "postgres", "mysql": "information_schema"}
    url = make_url(served.database).set(database=others[served.kind])
    with pytest.raises(MlcatError, match=r"does not hold the tables of MLflow"):
        reader_of(address(url))


@pytest.mark.parametrize(
    ("change", "undo", "problem"),
    [
        (
            "ALTER TABLE experiment_tags RENAME COLUMN value TO content",
            "ALTER TABLE experiment_tags RENAME COLUMN content TO value",
            "no column experiment_tags.value",
        ),
        (
            "ALTER TABLE input_tags RENAME TO tags_of_inputs",
            "ALTER TABLE tags_of_inputs RENAME TO input_tags",
            "no column input_tags.input_uuid, no column input_tags.name, .*",
        ),
    ],
)
def test_what_a_later_migration_took_away_is_named(
    store: Store, change: str, undo: str, problem: str
) -> None:
    execute(store.database, change)
    try:
        with pytest.raises(ProtocolMismatchError, match=rf"cannot be read by SQL: {problem}( |$)"):
            reader_of(store.database)
    finally:
        execute(store.database, undo)
    reader_of(store.database).connection.close()


def test_every_column_of_a_real_database_has_a_type_that_is_read(store: Store) -> None:
    database = Database(store.database, timeout_s=10)
    schema = database.schema
    assert schema.features == {MlflowFeature.LOGGED_MODELS, MlflowFeature.WORKSPACES}
    assert [column for column in READ if not schema.columns[column]] == []
    database.close()


def test_a_column_that_holds_times_is_none_of_whole_numbers(served: Store) -> None:
    database = Database(served.database, timeout_s=10)
    execute(served.database, "CREATE TABLE of_times (start_time TIMESTAMP)")
    try:
        with database.page() as read:
            ((_, _, type_),) = read(COLUMNS[read.dialect], ["of_times"])
    finally:
        database.close()
        execute(served.database, "DROP TABLE of_times")
    columns = {**database.schema.columns, ("runs", "start_time"): type_}
    ((_, problem),) = Schema([], columns).problems()
    assert problem == f"runs.start_time is of type {type_}, not integer"
    database.close()


def test_a_migration_that_holds_the_tables_is_not_waited_for_for_ever(store: Store) -> None:
    if store.kind != "postgresql":
        pytest.skip("only PostgreSQL locks a table against readers that easily")
    engine = create_engine(store.database, future=True)
    with engine.begin() as connection:
        connection.execute(text("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(SourceUnavailableError, match=r"`timeout_s`"):
            reader_of(store.database, timeout_s=0.3)
    engine.dispose()


# --- manners --------------------------------------------------------------------------------------


def test_the_database_cannot_be_written(store: Store) -> None:
    engine = open_readonly(store.database, timeout_s=10)
    refused = pytest.raises(engine.errors, match=r"(?i)read[- ]?only")
    with engine.transaction() as connection, refused:
        connection.execute("DELETE FROM tags")
    engine.dispose()


def test_a_stream_has_every_row(store: Store) -> None:
    database = Database(store.database, timeout_s=10)
    every = "SELECT run_uuid FROM runs ORDER BY run_uuid"
    with database.page() as read:
        whole = list(read(every))
        streamed = [tuple(row) for row in read(every, stream=True)]
    database.close()
    assert len(whole) > 1
    assert streamed == whole


@pytest.fixture
def late(store: Store) -> Iterator[str]:
    """A statement that adds a run as MLflow does; the run is gone in the end."""
    run_id = uuid.uuid4().hex
    yield (
        "INSERT INTO runs (run_uuid, experiment_id, start_time, status, lifecycle_stage)"
        f" VALUES ('{run_id}', 1, 2000000000000, 'RUNNING', 'active')"
    )
    execute(store.database, f"DELETE FROM runs WHERE run_uuid = '{run_id}'")


def test_a_reading_is_of_one_moment_and_holds_up_no_writer(
    store: Store, late: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "IDS_A_BLOCK", 2)
    reader = reader_of(store.database)
    ids = [one.experiment_id for page in reader.experiments() for one in page]
    pages = reader.runs(ids)
    before = len(next(pages))
    execute(store.database, late)
    before += sum(len(page) for page in pages)
    reader.connection.close()
    after = sum(len(page) for page in reader.runs(ids))
    reader.connection.close()
    # SQLite is read in many moments: in one, MLflow could not write.
    assert after - before == (0 if store.kind == "sqlite" else 1)


def test_the_connection_ends_with_the_reading(served: Store) -> None:
    with reading_user(served) as url:
        source = MlflowSource(MlflowConfig(tracking_uri=address(url)))
        name = url.username if served.kind == "mysql" else url.database
        pages = source.read(ReadRequest())
        next(pages)
        assert number(served.database, _CONNECTIONS[served.kind], name=name) == 1
        for _ in pages:
            pass
        assert connections_left(served, name) == 0
        source.close()


def connections_left(store: Store, name: str | None) -> int:
    """Return how many connections of ours the server still has; ending takes it a moment."""
    until = time.monotonic() + 10
    while (left := number(store.database, _CONNECTIONS[store.kind], name=name)) > 0:
        if time.monotonic() > until:
            return left
        time.sleep(0.05)
    return 0


def test_the_clock_is_that_of_the_moment_that_is_read(store: Store) -> None:
    with opened_reader(open_reader(MlflowConfig(tracking_uri=store.database))) as reader:
        first = reader.connection.clock_ms()
        assert abs(first - time.time() * 1000) < 60_000
        time.sleep(0.01)
        assert (reader.connection.clock_ms() > first) == (store.kind == "sqlite")
