"""A catalog as a process that was killed, or an earlier commit, left it, opened by this version."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mlcat_ingest.catalog.store import store as store_module
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.errors import ProtocolMismatchError


def test_an_opening_that_fails_is_made_up_for_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("power is lost")

    monkeypatch.setattr(store_module, "_add_platforms", fail)
    with pytest.raises(RuntimeError):
        Store.open(tmp_path / "c.db")
    monkeypatch.undo()
    with closing(Store.open(tmp_path / "c.db")) as store:
        assert store.list_urns("dataPlatform").total > 60


def test_a_catalog_with_steps_of_no_version_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE mlcat_migration SET name = 'entities, aspects'")
    before = path.read_bytes()
    with pytest.raises(ProtocolMismatchError, match=r"catalog database .* of no version"):
        Store.open(path)
    assert path.read_bytes() == before


def test_a_catalog_from_before_the_indexes_of_the_time_gets_them(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    Store.open(path).close()
    indexes = "SELECT name FROM sqlite_master WHERE name LIKE '%_by_time'"
    with closing(sqlite3.connect(path)) as connection, connection:
        made = connection.execute(indexes).fetchall()
        assert len(made) == 3
        for (name,) in made:
            connection.execute(f"DROP INDEX {name}")
        connection.execute("DELETE FROM mlcat_migration WHERE name LIKE '% by time'")
    Store.open(path).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute(indexes).fetchall() == made
