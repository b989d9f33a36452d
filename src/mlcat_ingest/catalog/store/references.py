"""References: finding the aspects that name an entity, and taking that name out of them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, get_args, get_origin

from sqlalchemy import select, tuple_
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import Select

from mlcat_ingest.catalog.schema.tables import aspect, edge, entity
from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR, Reference, References, Write
from mlcat_ingest.catalog.schema.virtual import KEYS_WITH_EDGES
from mlcat_ingest.catalog.store.batch import Batch
from mlcat_ingest.catalog.store.prepare import prepare
from mlcat_ingest.catalog.store.reads import count_rows
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.aspects.declaration import Edge, UrnOf
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.shapes import bare, fields
from mlcat_ingest.metadata.urn import entity_type_of

_AT_ONCE: Final = 500
"""Aspects that are changed in one transaction, so that other writers get their turn."""

_SHOWN: Final = 100
"""Most references that are listed; the rest is only counted."""


def find_references(connection: Connection, urn: str) -> References:
    """Return how many references there are to `urn`, and the first hundred of them.

    A part of the URN of another entity (the platform of a feature table) is no reference: it
    cannot be taken away.
    """
    total = count_rows(connection, _edges(urn).subquery())
    first = _edges(urn).order_by(edge.c.source_id, edge.c.aspect, edge.c.relationship)
    return References(
        total,
        tuple(
            Reference(row.urn, row.relationship, row.aspect)
            for row in connection.execute(first.limit(_SHOWN))
        ),
    )


def _edges(urn: str) -> Select[Any]:
    return (
        select(entity.c.urn, edge.c.relationship, edge.c.aspect, edge.c.source_id)
        .join(entity, entity.c.id == edge.c.source_id)
        .where(edge.c.destination == urn, edge.c.aspect.not_in(sorted(KEYS_WITH_EDGES)))
    )


def delete_references(store: Store, urn: str, actor: str = UNKNOWN_ACTOR) -> References:
    """Take `urn` out of every aspect that refers to it; return what was found.

    The changed aspects get a new version each, so what they were before can be read; an aspect
    that makes no sense without the reference is deleted. Many references take several
    transactions: after a failure, the same call continues where it stopped.

    Cost: a dozen SQL statements for each 500 aspects.
    """
    references = store.read(lambda connection: find_references(connection, urn))
    after: tuple[int, str] | None = (0, "")
    while after is not None:
        after = store.change(partial(_delete_batch, urn=urn, after=after, actor=actor))
    return references


def _delete_batch(
    connection: Connection, urn: str, after: tuple[int, str], actor: str
) -> tuple[int, str] | None:
    rows = _referring(connection, urn, after)
    Batch(connection, actor).apply([prepare(write) for write in _writes(rows, urn)])
    return (rows[-1].entity_id, rows[-1].aspect) if len(rows) == _AT_ONCE else None


def _referring(connection: Connection, urn: str, after: tuple[int, str]) -> Sequence[Any]:
    edges = _edges(urn).subquery()
    key = tuple_(aspect.c.entity_id, aspect.c.aspect)
    query = (
        select(edges.c.urn, aspect.c.entity_id, aspect.c.aspect, aspect.c.value)
        .join(
            aspect, (aspect.c.entity_id == edges.c.source_id) & (aspect.c.aspect == edges.c.aspect)
        )
        .where(key > after)
        .distinct()
        .order_by(aspect.c.entity_id, aspect.c.aspect)
        .limit(_AT_ONCE)
    )
    return connection.execute(query).all()


def _writes(rows: Sequence[Any], urn: str) -> Iterator[Write]:
    for row in rows:
        left = without_reference(row.aspect, loads(row.value), urn)
        if left is None:
            yield Write(row.urn, row.aspect, change="DELETE")
        else:
            yield Write(row.urn, row.aspect, left)


_GONE: Final = object()


def without_reference(aspect: str, value: Mapping[str, Any], urn: str) -> dict[str, Any] | None:
    """Return an aspect with every reference to `urn` taken out.

    References are the fields that the aspect's declaration marks as such; the actor of an entry is
    none. An entry of a list that requires the reference is removed with it, and in the end the
    whole aspect, which None means.
    """
    spec = ASPECTS.get(aspect)
    if spec is None or spec.type is None:
        return dict(value)
    left = _record(spec.type, value, urn, None)
    return None if left is _GONE else left


def _record(record: Any, value: Mapping[str, Any], urn: str, at: Edge | None) -> Any:
    """Return a record without `urn`, or `_GONE`; `at` says which of its fields is the edge."""
    left = dict(value)
    for field in fields(record).values():
        if field.name not in left:
            continue
        is_end = at is not None and at.at == field.name
        markers = (*field.markers, at) if is_end else field.markers
        kept = _value(field.hint, markers, left[field.name], urn)
        if kept is not _GONE:
            left[field.name] = kept
        elif field.required or is_end:
            return _GONE
        else:
            del left[field.name]
    return left


def _value(hint: Any, markers: tuple[object, ...], value: Any, urn: str) -> Any:
    if isinstance(value, str):
        return _GONE if value == urn and any(_refers(mark, urn) for mark in markers) else value
    if isinstance(value, list) and get_origin(hint) is list:
        item, of_item = bare(get_args(hint)[0])
        cleaned = (_value(item, (*of_item, *markers), entry, urn) for entry in value)
        return [kept for kept in cleaned if kept is not _GONE]
    if isinstance(value, dict) and hasattr(hint, "__required_keys__"):
        at = next((mark for mark in markers if isinstance(mark, Edge) and mark.at), None)
        return _record(hint, value, urn, at)
    return value


def _refers(marker: object, urn: str) -> bool:
    if isinstance(marker, Edge):
        return True
    return isinstance(marker, UrnOf) and entity_type_of(urn) in marker.kinds
