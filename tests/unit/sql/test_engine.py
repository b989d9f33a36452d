import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import pytest

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.sql.database import Engine, SqliteEngine
from mlcat_ingest.sql.engine import POSTGRESQL_DRIVER, TextEngine, database_url, open_engine


def test_a_path_and_a_url_name_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "a b%20c?.db"
    assert database_url(path).database == str(path)
    assert database_url(f"sqlite:///{tmp_path}/x.db").database == f"{tmp_path}/x.db"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_is_opened_through_the_driver_of_its_extra(scheme: str) -> None:
    assert database_url(f"{scheme}://u@h/db").drivername == f"postgresql+{POSTGRESQL_DRIVER}"


@pytest.mark.parametrize(
    ("driver", "cure"),
    [("psycopg", r"mlcat-ingest\[postgres\]"), ("psycopg2", "pip install psycopg2-binary")],
)
def test_a_driver_that_is_missing_is_reported_with_what_brings_it(
    driver: str, cure: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlcat_ingest.sql.engine.POSTGRESQL_DRIVER", driver)
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(RecipeError, match=cure):
        open_engine("postgresql+psycopg://h/db")
    with pytest.raises(RecipeError, match="cannot use the database"):
        open_engine("mysql+nodriver_of_this_name://h/db")


@pytest.mark.parametrize(("durable", "synchronous"), [(True, 2), (False, 1)])
def test_sqlite_is_opened_to_be_durable_and_strict(
    tmp_path: Path, synchronous: int, *, durable: bool
) -> None:
    path = str(tmp_path / "x.db")
    engine = TextEngine(path, open_engine(path)) if durable else SqliteEngine(path, path)
    with engine.transaction() as connection:
        found = {
            name: connection.scalar(f"PRAGMA {name}")
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        }
    engine.dispose()
    assert found == {
        "journal_mode": "wal",
        "synchronous": synchronous,
        "busy_timeout": 5000,
        "foreign_keys": 1,
    }


@pytest.fixture(params=["the standard library", "SQLAlchemy"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    path = str(tmp_path / "x.db")
    by_library = request.param == "the standard library"
    engine = SqliteEngine(path, path) if by_library else TextEngine(path, open_engine(path))
    yield engine
    engine.dispose()


def test_a_write_transaction_holds_the_lock_from_its_first_moment(engine: Engine) -> None:
    with engine.transaction(write=True) as connection:
        connection.execute("CREATE TABLE t (a)")
    with engine.transaction(write=True), closing(engine.autocommit()) as other:
        other.execute("PRAGMA busy_timeout=0")
        with pytest.raises(Exception, match="locked"):
            other.execute("BEGIN IMMEDIATE")


def test_a_reader_sees_one_moment_and_lists_are_values(engine: Engine) -> None:
    with engine.transaction(write=True) as connection:
        connection.execute("CREATE TABLE t (a, b)")
        connection.execute_many("INSERT INTO t VALUES (?, ?)", ((n, f"{n}?") for n in range(1_200)))
    with engine.transaction() as reader:
        assert reader.scalar("SELECT count(*) FROM t") == 1_200
        with engine.transaction(write=True) as connection:
            deleted = connection.execute(
                "DELETE FROM t WHERE a IN ? AND a < ? AND b IN ?", [1, 2, 9], 5, ["1?", "2?", "x"]
            )
            assert deleted.rowcount == 2
        rows = reader.scalars("SELECT a FROM t ORDER BY a", stream=True)
        assert list(islice(rows, 3)) == [0, 1, 2]
        assert list(rows)[-1] == 1_199
    with engine.transaction() as reader:
        assert list(reader.scalars("SELECT a FROM t WHERE a < ?", 5)) == [0, 3, 4]
        assert reader.scalar("SELECT a FROM t WHERE a = ?", 1) is None


def test_an_engine_that_is_disposed_closes_what_is_in_use_when_it_comes_back(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "x.db")
    engine = SqliteEngine(path, path)
    with engine.transaction() as connection:
        engine.dispose()
        assert connection.scalar("SELECT 1") == 1
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.scalar("SELECT 1")


def test_an_error_takes_the_whole_transaction_back(engine: Engine) -> None:
    def break_off() -> None:
        with engine.transaction(write=True) as connection:
            connection.execute("CREATE TABLE t (a)")
            raise RecipeError("no")

    with pytest.raises(RecipeError, match="no"):
        break_off()
    with engine.transaction() as connection:
        assert connection.scalar("SELECT count(*) FROM sqlite_master") == 0


@pytest.mark.parametrize("where", ["://", "nonsense://x", "nodialect+nodriver:///x"])
def test_an_address_that_cannot_be_used_is_reported_without_its_password(where: str) -> None:
    with pytest.raises(RecipeError, match="database"):
        open_engine(where)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(RecipeError) as caught:
        open_engine("nonsense://user:verysecret@host/db")
    assert "verysecret" not in str(caught.value)
