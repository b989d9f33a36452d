import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from mlcat_ingest.errors import MissingExtraError, RecipeError
from mlcat_ingest.sql.engine import database_url, open_engine, write_transaction


def test_a_path_and_a_url_name_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "a b%20c?.db"
    assert database_url(path).database == str(path)
    assert database_url(f"sqlite:///{tmp_path}/x.db").database == f"{tmp_path}/x.db"


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_postgresql_is_opened_through_the_driver_of_its_extra(scheme: str) -> None:
    assert database_url(f"{scheme}://u@h/db").drivername == "postgresql+psycopg"


def test_a_driver_that_is_missing_is_reported_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtraError, match=r"mlcat-ingest\[postgres\]"):
        open_engine("postgresql://h/db")
    with pytest.raises(RecipeError, match="cannot use the database"):
        open_engine("mysql+nodriver_of_this_name://h/db")


@pytest.mark.parametrize(("durable", "synchronous"), [(True, 2), (False, 1)])
def test_sqlite_is_opened_to_be_durable_and_strict(
    tmp_path: Path, synchronous: int, *, durable: bool
) -> None:
    engine = open_engine(tmp_path / "x.db", durable=durable)
    with engine.connect() as connection:
        found = {
            name: connection.scalar(text(f"PRAGMA {name}"))
            for name in ("journal_mode", "synchronous", "busy_timeout", "foreign_keys")
        }
    engine.dispose()
    assert found == {
        "journal_mode": "wal",
        "synchronous": synchronous,
        "busy_timeout": 5000,
        "foreign_keys": 1,
    }


def test_a_write_transaction_holds_the_lock_from_its_first_moment(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "x.db")
    with write_transaction(engine) as connection:
        connection.execute(text("CREATE TABLE t (a)"))
    with write_transaction(engine), engine.connect() as other:
        other.exec_driver_sql("ROLLBACK")
        other.exec_driver_sql("PRAGMA busy_timeout=0")
        with pytest.raises(Exception, match="locked"):
            other.exec_driver_sql("BEGIN IMMEDIATE")
        other.exec_driver_sql("BEGIN")
    engine.dispose()


def test_an_error_takes_the_whole_transaction_back(tmp_path: Path) -> None:
    engine = open_engine(tmp_path / "x.db")

    def break_off() -> None:
        with write_transaction(engine) as connection:
            connection.execute(text("CREATE TABLE t (a)"))
            raise RecipeError("no")

    with pytest.raises(RecipeError, match="no"):
        break_off()
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM sqlite_master")) == 0
    engine.dispose()


@pytest.mark.parametrize("where", ["://", "nonsense://x", "nodialect+nodriver:///x"])
def test_an_address_that_cannot_be_used_is_reported_without_its_password(where: str) -> None:
    with pytest.raises(RecipeError, match="database"):
        open_engine(where)


def test_a_password_is_not_shown() -> None:
    with pytest.raises(RecipeError) as caught:
        open_engine("nonsense://user:verysecret@host/db")
    assert "verysecret" not in str(caught.value)
