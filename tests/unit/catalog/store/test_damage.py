"""A damaged or empty file of the catalog: said at the start, or by the request that meets it."""

import logging
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.server.lock import log_new_file
from mlcat_ingest.catalog.store import store as stores
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.errors import RecipeError
from support.asgi import call
from support.catalog_store import model, open_store

PAGE = 4096


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "c.db"
    with closing(open_store(path)) as store:
        value = {"description": "x" * 300}
        store.write(
            [Write(model(f"m{number}"), "mlModelProperties", value) for number in range(300)]
        )
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def random_bytes(data: bytearray) -> None:
    chosen = random.Random(3)
    for _ in range(300):
        data[chosen.randrange(PAGE, len(data))] = chosen.randrange(256)


def cut(data: bytearray) -> None:
    del data[len(data) // PAGE // 2 * PAGE :]


def no_database(data: bytearray) -> None:
    data[:] = b"this is a text, and quite a long one, and it is not a database at all\n" * 100


def damage(path: Path, how: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    how(data)
    path.write_bytes(data)


@pytest.mark.parametrize("how", [random_bytes, cut, no_database])
def test_a_damaged_catalog_does_not_start(database: Path, how: Callable[[bytearray], None]) -> None:
    damage(database, how)
    with pytest.raises(
        RecipeError, match=r"(?s)cannot open the database .*c\.db: .*restore a backup"
    ):
        Store.open(database)


@pytest.mark.parametrize("seed", range(3))
def test_damage_that_a_request_meets_is_named_and_logged_once(
    database: Path, seed: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def pages(data: bytearray) -> None:
        # All but those that every start reads.
        for number in random.Random(seed).sample(range(60, len(data) // PAGE), 40):
            data[number * PAGE : number * PAGE + 100] = b"\xff" * 100

    damage(database, pages)
    monkeypatch.setattr(stores, "_CHECK_S", -1)
    monkeypatch.setattr(stores, "_CHECK_EVERY", 1)
    with closing(Store.open(database)) as store:
        app = create_app(store)
        found = {call(app, "GET", f"/entitiesV2/{model(f'm{n}')}").text for n in range(300)}
        body = b'{"query": "{ mlModel(urn: \\"%s\\") { properties { description } } }"}'
        found |= {
            call(app, "POST", "/api/graphql", body % model(f"m{n}").encode()).text
            for n in range(300)
        }
        app.state.tasks.close()
    failed = [text for text in found if "message" in text]
    assert failed
    assert all("the catalog's database is damaged: " in text for text in failed), failed
    assert all("restore a backup" in text for text in failed)
    assert len([one for one in caplog.records if one.levelno >= logging.ERROR]) == 1


def test_where_a_new_catalog_is_made_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "mlcat_ingest")
    path = tmp_path / "c.db"
    log_new_file(path)
    path.touch()
    log_new_file(str(path))
    open_store(path).close()
    log_new_file(path)
    new, empty = caplog.records
    assert (new.levelname, new.message) == ("INFO", f"a new catalog is created in {path}")
    assert empty.levelname == "WARNING"
    assert f"{path} is an empty file; a new, empty catalog is created" in empty.message
