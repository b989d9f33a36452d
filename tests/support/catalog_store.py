"""A catalog store in a temporary file, and how many SQL statements a piece of work takes."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import event, func, or_, select
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement

from mlcat_ingest.catalog.schema.tables import entity, searched
from mlcat_ingest.catalog.schema.values import (
    BACKGROUND_TYPES,
    Direction,
    EdgeQuery,
    RelatedPage,
    Write,
)
from mlcat_ingest.catalog.store.reads import marked_removed
from mlcat_ingest.catalog.store.store import Store

MLFLOW = "urn:li:dataPlatform:mlflow"


def model(name: str) -> str:
    return f"urn:li:mlModel:({MLFLOW},{name},PROD)"


def group(name: str) -> str:
    return f"urn:li:mlModelGroup:({MLFLOW},{name},PROD)"


def table(name: str) -> str:
    return f"urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,{name})"


def feature(namespace: str, name: str) -> str:
    return f"urn:li:mlFeature:({namespace},{name})"


def open_store(path: Path) -> Store:
    """Open the catalog at `path`; a new one is the copy of one that this process made before."""
    if not path.exists():
        path.write_bytes(_new_store())
    return Store.open(path)


@cache
def _new_store() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "catalog.db"
        Store.open(path).close()
        return path.read_bytes()


def put(store: Store, urn: str, **aspects: Any) -> str:
    """Write `aspects` of one entity and return its URN."""
    store.write([Write(urn, name, value) for name, value in aspects.items()])
    return urn


def put_test(store: Store, name: str) -> str:
    """Write a metadata test of models and return its URN."""
    rules = {"property": "mlModelProperties.description", "operator": "exists"}
    text = json.dumps({"on": {"types": ["mlModel"]}, "rules": rules})
    info = {"name": name, "category": "ml", "definition": {"type": "JSON", "json": text}}
    return put(store, f"urn:li:test:{name.replace(' ', '-')}", testInfo=info)


def incoming(
    store: Store, urn: str, *relationships: str, start: int = 0, count: int = 100
) -> RelatedPage:
    query = EdgeQuery(relationships or None, Direction.INCOMING, start, count)
    return store.related_entities([urn], query)[urn]


def outgoing(store: Store, urn: str) -> RelatedPage:
    return store.related_entities([urn], EdgeQuery(None, Direction.OUTGOING))[urn]


def named(store: Store, text: str = "") -> tuple[str, ...]:
    """Return the entities with each word of `text` in URN or name, the newest first."""
    words = [
        or_(
            func.lower(entity.c.urn).contains(word.lower(), autoescape=True),
            searched.c.name.contains(word.lower(), autoescape=True),
        )
        for word in text.split()
    ]
    indexed = select(entity.c.urn).join(searched, searched.c.id == entity.c.id)
    query = indexed.where(*_seen(), *words).order_by(entity.c.id.desc())
    return store.read(lambda connection: tuple(connection.scalars(query)))


def counts(connection: Connection) -> dict[str, int]:
    """Return how many entities there are of each type, read from the entities themselves."""
    query = select(entity.c.entity_type, func.count()).where(*_seen())
    return {row[0]: row[1] for row in connection.execute(query.group_by(entity.c.entity_type))}


def _seen() -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return ~marked_removed(entity.c.id), entity.c.entity_type.not_in(BACKGROUND_TYPES)


@contextmanager
def statements(store: Store) -> Iterator[list[str]]:
    """Collect the SELECT statements that run inside the block."""
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if statement.lstrip().upper().startswith("SELECT"):
            seen.append(statement)

    engine = store._engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)
