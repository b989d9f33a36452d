"""Whether a catalog is whole: its file, and everything it keeps beside the aspects themselves."""

import json
import sqlite3
import time
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import requests
from sqlalchemy import MetaData, select
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.schema.tables import aspect, entity
from mlcat_ingest.catalog.schema.values import BACKGROUND_TYPES
from mlcat_ingest.catalog.search.index import refresh
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.reserved import ALIAS_LOG
from mlcat_ingest.sql.engine import open_engine

WAIT_S = 60


def assert_sound(database: Path) -> None:
    """Fail unless the file is whole, and every row points at one that is there."""
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        # It fails where the index has other words than the texts.
        connection.execute(
            "INSERT INTO search_fts (search_fts, rank) VALUES ('integrity-check', 1)"
        )


def assert_search_agrees(database: Path) -> None:
    """Fail unless making the search index anew from the aspects changes nothing of it."""
    engine = open_engine(database)
    tables = MetaData()
    with engine.connect() as connection, connection.begin() as undone:
        tables.reflect(connection, only=lambda name, _: name.startswith("search_"))
        before = _rows(connection, tables)
        ids = list(connection.scalars(select(entity.c.id)))
        assert {row[0] for row in before["search_entity"]} == set(ids)
        for sets, column in (
            ("search_profile", "profile_id"),
            ("search_figure_set", "figure_set_id"),
        ):
            counted = Counter(connection.scalars(select(tables.tables["search_entity"].c[column])))
            assert {row[0]: row[2] for row in before[sets]} == counted
        refresh(connection, ids)
        assert _rows(connection, tables) == before
        undone.rollback()
    engine.dispose()


def _rows(connection: Connection, tables: MetaData) -> dict[str, list[Any]]:
    return {
        name: sorted(map(tuple, connection.execute(select(table))), key=repr)
        for name, table in tables.tables.items()
        if not name.startswith("search_fts")
    }


def assert_edges_agree(url: str) -> None:
    """Fail unless the task that makes the edges anew from the aspects finds nothing to mend."""
    started = requests.post(f"{url}/operations?action=restoreIndices", timeout=WAIT_S).json()
    until = time.monotonic() + WAIT_S
    done: dict[str, Any] = {"completed": False}
    while not done["completed"]:
        assert time.monotonic() < until, "the task does not end"
        answer = requests.post(
            f"{url}/operations?action=getEsTaskStatus",
            json={"task": started["value"]},
            timeout=WAIT_S,
        )
        done = json.loads(answer.json()["value"])
    status = done["status"]
    assert "failure" not in done
    assert (status["updated"], status["created"], status["deleted"]) == (0, 0, 0)
    assert status["noops"] == status["total"]


def everything(store: Store) -> dict[str, dict[str, Any]]:
    """Return every aspect of every entity by URN, bases too; only what tells of runs is left out.

    When metadata tests were evaluated is no part of what they say, and what removed entities are
    said to fail is of no use to anybody. When a run saw an alias is a fact of the run.
    """
    reported: dict[str, dict[str, Any]] = {}
    query = select(entity.c.urn, entity.c.entity_type, aspect.c.aspect, aspect.c.value)
    rows = store.read(
        lambda connection: connection.execute(
            query.outerjoin(aspect, aspect.c.entity_id == entity.c.id)
        ).all()
    )
    for urn, kind, name, value in rows:
        if kind in BACKGROUND_TYPES or kind.startswith("dataHub"):
            continue
        aspects = reported.setdefault(urn, {})
        if name is not None:
            aspects[name] = _without_times(json.loads(value)) if name == "testResults" else value
            if ALIAS_LOG in value:
                aspects[name] = dumps(_without_times(json.loads(value))).decode()
    for aspects in reported.values():
        if json.loads(aspects.get("status", "{}")).get("removed"):
            aspects.pop("testResults", None)
    return reported


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        left = value.keys() - {"lastComputed", ALIAS_LOG}
        return {key: _without_times(one) for key, one in value.items() if key in left}
    return [_without_times(one) for one in value] if isinstance(value, list) else value
