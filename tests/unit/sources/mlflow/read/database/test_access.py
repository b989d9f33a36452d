"""How a database is held: one moment where that hurts nobody, no writer kept waiting, no secret."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.sources.mlflow.read.database import access
from mlcat_ingest.sources.mlflow.read.database.access import Database
from mlcat_ingest.sql.readonly import DatabaseOwner, failure, open_readonly
from support.mlflow_tables import make_database, reader_of

MLFLOW = DatabaseOwner("MLflow", "MLflow database")
SECRET = "hunter2"
RUNS_THERE = [{"run_uuid": f"{n}", "experiment_id": 0, "start_time": n} for n in range(4)]


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(access, "IDS_A_BLOCK", 1)
    make_database(tmp_path / "m.db", runs=RUNS_THERE)
    return tmp_path / "m.db"


def write(path: Path) -> None:
    """Add a run as MLflow would, without patience: a lock that is held is an error."""
    with closing(sqlite3.connect(path, timeout=0)) as connection, connection:
        connection.execute(
            "INSERT INTO runs (run_uuid, experiment_id, start_time) VALUES ('9', 0, 9)"
        )


def test_a_reading_keeps_no_writer_waiting(path: Path) -> None:
    reader = reader_of(f"sqlite:///{path}")
    reader.server_id()
    found = []
    for page in reader.runs(["0"]):
        found += [run.run_id for run in page]
        if len(found) == 2:
            write(path)
    assert found == ["0", "1", "2", "3", "9"]
    reader.connection.close()


def test_a_reading_in_wal_mode_is_of_one_moment(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    reader = reader_of(f"sqlite:///{path}")
    pages = reader.runs(["0"])
    next(pages)
    write(path)
    assert [run.run_id for page in pages for run in page] == ["1", "2", "3"]
    reader.connection.close()
    # The next reading is of another moment.
    assert sum(len(page) for page in reader.runs(["0"])) == 5
    reader.connection.close()


def test_an_error_inside_a_page_lets_go_of_the_file(path: Path) -> None:
    database = Database(f"sqlite:///{path}", timeout_s=1)

    def fails_after_reading() -> None:
        with database.page() as read:
            read("SELECT run_uuid FROM runs")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails_after_reading()
    write(path)
    database.close()


def test_nothing_can_be_written(path: Path) -> None:
    engine = open_readonly(f"sqlite:///{path}", timeout_s=1)
    with engine.transaction() as connection, pytest.raises(sqlite3.Error, match="readonly"):
        connection.execute("DELETE FROM runs")
    engine.dispose()


@pytest.mark.parametrize("form", ["sqlite:///{}", "sqlite:///file:{}?mode=rwc&uri=true"])
def test_a_file_of_any_name_is_opened_in_either_form(form: str, tmp_path: Path) -> None:
    name = "ü b&c.db" if "file:" in form else "ü b&c#d;e.db"
    make_database(tmp_path / name)
    database = Database(form.format(tmp_path / name), timeout_s=1)
    assert database.revisions() == ["dc11669786a5"]
    database.close()


def test_a_writer_that_never_ends_is_reported(path: Path) -> None:
    database = Database(f"sqlite:///{path}", timeout_s=0.05)
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(SourceUnavailableError, match=r"too long.*`timeout_s`"):
            database.revisions()
    assert database.revisions() == ["dc11669786a5"]
    database.close()


def test_tables_that_may_not_be_read_are_named(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = reader_of(f"sqlite:///{path}")
    assert {finding.outcome for finding in reader.check()} == {"ok", "warning"}
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE params")
    (first, second) = reader.check()
    assert (first.outcome, second.outcome) == ("ok", "failed")
    assert "no such table: params" in second.detail
    monkeypatch.setattr(Database, "unreadable", lambda *_: ["params"])
    (_, second) = reader.check()
    assert (second.detail, second.hint) == (
        "no permission to read params",
        "grant the user SELECT on it",
    )
    reader.connection.close()


def test_only_a_missing_permission_makes_a_table_unreadable(path: Path) -> None:
    database = Database(f"sqlite:///{path}", timeout_s=1)
    assert database.unreadable(["runs", "params"]) == []
    database.close()


class DriverError(Exception):
    """What a driver raises."""


def report_of(sentence: object, *more: object, login: str = f"u:{SECRET}") -> MlcatError:
    error = DBAPIError("SELECT hidden", None, DriverError(sentence, *more))
    return failure(MLFLOW, f"postgresql://{login}@h/db", error)


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ('FATAL:  password authentication failed for user "u"', AuthenticationError),
        ("fe_sendauth: no password supplied", AuthenticationError),
        ('FATAL:  role "u" does not exist', AuthenticationError),
        ('FATAL:  role "u" is not permitted to log in', AuthenticationError),
        ('FATAL:  no pg_hba.conf entry for host "h"', AuthenticationError),
        ("Access denied for user 'u'@'h' (using password: YES)", AuthenticationError),
        ("Access denied for user 'u'@'h'", AuthenticationError),
        ("Access denied for user 'u'@'h' to database 'db'", NotAuthorizedError),
        ("Unknown table 'runs' in information_schema", ProtocolMismatchError),
        ("SELECT command denied to user 'u'@'h' for table 'runs'", NotAuthorizedError),
        ("permission denied for table runs", NotAuthorizedError),
        ("unable to open database file", NotAuthorizedError),
        ('FATAL:  database "db" does not exist', RecipeError),
        ("Unknown database 'db'", RecipeError),
        ('relation "alembic_version" does not exist', ProtocolMismatchError),
        ("Table 'db.alembic_version' doesn't exist", ProtocolMismatchError),
        ("Unknown column 'runs.a' in 'field list'", ProtocolMismatchError),
        ("canceling statement due to statement timeout", SourceUnavailableError),
        ("connection refused", SourceUnavailableError),
        ("server closed the connection unexpectedly", SourceUnavailableError),
    ],
)
def test_what_a_driver_says_becomes_an_error_with_its_cure(
    sentence: str, kind: type[MlcatError]
) -> None:
    error = report_of(sentence)
    assert type(error) is kind
    assert "postgresql://h/db" in error.message
    assert error.hint


def test_words_of_a_driver_are_short_and_without_secrets() -> None:
    assert "SELECT hidden" not in str(report_of("x"))
    assert "1045" not in str(report_of(1045, "Access denied (using password: YES)"))
    assert "\n" not in str(report_of("a\nb"))
    assert len(str(report_of("x" * 10_000))) < 600
    assert SECRET not in str(report_of(f"cannot use '{SECRET}'"))
    assert SECRET not in str(report_of(f"cannot use postgresql://u:{SECRET}@h", login="u"))
    assert "DriverError" in str(report_of(7))
    assert "SQLAlchemyError" in str(failure(MLFLOW, "x", SQLAlchemyError("SELECT")))


def test_a_statement_counts_once(path: Path) -> None:
    database = Database(f"sqlite:///{path}", timeout_s=1)
    with database.page() as read:
        assert list(read("SELECT 1")) == [(1,)]
    assert database.statements == 1
    database.close()


def test_a_file_that_breaks_off_in_the_middle_is_an_error_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "m.db"
    params = [{"run_uuid": "0", "key": f"k{n}", "value": "x" * 500} for n in range(1_000)]
    make_database(path, runs=RUNS_THERE, params=params)
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xff" * (path.stat().st_size // 4))
    reader = reader_of(f"sqlite:///{path}")
    with pytest.raises(SourceUnavailableError, match=r"is damaged: .*malformed"):
        list(reader.runs(["0"]))
    reader.connection.close()
