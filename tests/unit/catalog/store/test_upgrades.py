"""A catalog of the first versions, opened by this one."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mlcat_ingest.catalog.schema import tables
from mlcat_ingest.catalog.schema.values import Direction
from mlcat_ingest.catalog.store import store as store_module
from mlcat_ingest.catalog.store.reads import Span, read_events
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.sql.database import migrate
from mlcat_ingest.sql.engine import TextEngine, open_engine
from support.catalog_store import model, table

RUN = "urn:li:dataProcessInstance:r"
EVENT = "dataProcessInstanceRunEvent"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    path = tmp_path / "c.db"
    before = [step.name for step in tables.MIGRATIONS].index("timeseries, and which run wrote what")
    engine = TextEngine(str(path), open_engine(path))
    migrate(engine, "catalog", tables.MIGRATIONS[:before])
    engine.dispose()
    return path


def fill(path: Path) -> None:
    entities = [
        (1, model("m"), "mlModel"),
        (2, table("t"), "mlFeatureTable"),
        (3, RUN, RUN.split(":")[2]),
    ]
    started = '{"timestampMillis":1,"status":"STARTED"}'
    complete = '{"timestampMillis":2,"status":"COMPLETE"}'
    rows = [
        ("aspect", 1, "mlModelProperties", 2, '{"name":"b"}', '{"runId":"r2"}'),
        ("aspect_history", 1, "mlModelProperties", 1, '{"name":"a"}', '{"runId":"r1"}'),
        ("aspect", 1, "status", 1, '{"removed":false}', '{"runId":"no-run-id-provided"}'),
        ("aspect", 1, "ownership", 1, '{"owners":[]}', '{"runId":5}'),
        ("aspect", 2, "mlFeatureTableProperties", 1, "{}", None),
        ("aspect", 3, EVENT, 3, complete, '{"runId":"r2"}'),
        ("aspect_history", 3, EVENT, 2, '{"status":"COMPLETE"}', None),
        ("aspect_history", 3, EVENT, 1, started, None),
    ]
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.executemany("INSERT INTO entity VALUES (?, ?, ?, NULL, 1, 'a')", entities)
        for name, *values in rows:
            connection.execute(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, 1, 'a', 1, 'a')", values)


def test_an_older_catalog_learns_its_events_and_edges(old: Path) -> None:
    fill(old)
    with closing(Store.open(old)) as store:
        events = store.read(lambda c: read_events(c, RUN, Span(EVENT), 10))
        assert [one.timestamp_ms for one in events] == [2, 1]
        assert list(store.get_many([RUN])[RUN]) == ["dataProcessInstanceKey"]
        feast = "urn:li:dataPlatform:feast"
        assert (
            store.related_entities([feast], ["SourcePlatform"], Direction.INCOMING)[feast].total
            == 1
        )
        assert store.exists([feast]) == {feast}


def test_an_empty_older_catalog_is_opened_too(old: Path) -> None:
    Store.open(old).close()


def test_a_step_that_fails_leaves_the_catalog_as_it_was(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(old)

    def fail(*_: object) -> None:
        raise RuntimeError("power is lost")

    monkeypatch.setattr(store_module, "add_platforms", fail)
    with pytest.raises(RuntimeError):
        Store.open(old)
    monkeypatch.undo()
    with closing(Store.open(old)) as store:
        assert store.list_urns("dataPlatform").total > 60
