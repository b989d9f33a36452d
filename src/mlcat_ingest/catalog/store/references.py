"""References: which aspects name an entity, and taking that name out of them."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, Select, func, select, tuple_

from mlcat_ingest.catalog.schema.tables import aspect, edge, entity
from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR, Reference, References, Write
from mlcat_ingest.catalog.schema.virtual import KEYS_WITH_EDGES
from mlcat_ingest.catalog.store.batch import Batch
from mlcat_ingest.catalog.store.prepare import prepare
from mlcat_ingest.catalog.store.reference_fields import without
from mlcat_ingest.catalog.store.store import Store, now_ms
from mlcat_ingest.metadata.codec import loads

_AT_ONCE: Final = 500
"""Aspects that are changed in one transaction, so that other writers get their turn."""

_SHOWN: Final = 100
"""Most references that are listed; the rest is only counted."""


def find_references(connection: Connection, urn: str) -> References:
    """Return how many references there are to `urn`, and the first hundred of them.

    What the URN of another entity says (the platform of a feature table) is no reference: it
    cannot be taken away.
    """
    total = connection.scalar(select(func.count()).select_from(_edges(urn).subquery())) or 0
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
    transactions: when one of them fails, the same call goes on where it stopped.

    Cost: a dozen SQL statements for each 500 aspects.
    """
    found = store.read(lambda connection: find_references(connection, urn))
    after: tuple[int, str] | None = (0, "")
    while after is not None:
        place = after

        def remove(
            connection: Connection, place: tuple[int, str] = place
        ) -> tuple[int, str] | None:
            rows = _referring(connection, urn, place)
            items = [prepare(write) for write in _writes(rows, urn)]
            Batch(connection, actor, now_ms()).apply(items)
            return (rows[-1].entity_id, rows[-1].aspect) if len(rows) == _AT_ONCE else None

        after = store.change(remove)
    return found


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
        left = without(row.aspect, loads(row.value), urn)
        if left is None:
            yield Write(row.urn, row.aspect, change="DELETE")
        else:
            yield Write(row.urn, row.aspect, left)
