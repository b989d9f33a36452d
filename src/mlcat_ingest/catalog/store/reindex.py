"""Edges and search index made anew from the aspects: what a reindexing task runs, in batches."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, select

from mlcat_ingest.catalog.schema.tables import aspect, entity
from mlcat_ingest.catalog.schema.virtual import key_edges
from mlcat_ingest.catalog.search.document import IndexedEntity
from mlcat_ingest.catalog.search.index import clear, refresh
from mlcat_ingest.catalog.search.version import set_current
from mlcat_ingest.catalog.store.rows import CHUNK, Edges, Key, held_edges, replace_edges
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.registry import edges, key_aspect_name


@dataclass(frozen=True, slots=True)
class ReindexScope:
    """Which entities are reindexed: one URN, those like an SQL pattern, or all of them."""

    urn: str | None = None
    urn_like: str | None = None


@dataclass(frozen=True, slots=True)
class Reindexed:
    """What one batch did: `last_id` is where the next begins, None where there is none.

    `aspects` of `entities` were read, `changed` of them had edges that differed, of which
    `created` were added and `deleted` removed.
    """

    last_id: int | None
    entities: int = 0
    aspects: int = 0
    changed: int = 0
    created: int = 0
    deleted: int = 0


def count_aspects(connection: Connection, scope: ReindexScope) -> int:
    """Return how many aspects reindexing `scope` will read."""
    query = (
        select(func.count())
        .select_from(aspect.join(entity, entity.c.id == aspect.c.entity_id))
        .where(*_conditions(scope))
    )
    return connection.scalar(query) or 0


def reindex_batch(connection: Connection, scope: ReindexScope, after_id: int) -> Reindexed:
    """Compare the edges of the next entities of `scope` with their aspects, and mend them.

    What the search index holds of them is put right as well.

    Cost: a handful of SQL statements; memory for the aspects of a thousand entities.
    """
    entities = connection.execute(
        select(entity.c.id, entity.c.urn, entity.c.entity_type, entity.c.created_ms)
        .where(entity.c.id > after_id, *_conditions(scope))
        .order_by(entity.c.id)
        .limit(CHUNK)
    ).all()
    if not entities:
        return Reindexed(None)
    ids = [row.id for row in entities]
    wanted: dict[Key, Edges] = {}
    sources = {row.id: IndexedEntity(row.urn, row.entity_type, row.created_ms) for row in entities}
    query = select(aspect.c.entity_id, aspect.c.aspect, aspect.c.value, aspect.c.modified_ms)
    for row in connection.execute(query.where(aspect.c.entity_id.in_(ids))):
        value = loads(row.value)
        wanted[row.entity_id, row.aspect] = tuple(edges(row.aspect, value))
        sources[row.entity_id].add(row.aspect, value, row.modified_ms)
    aspects = len(wanted)
    for row in entities:
        if ends := key_edges(row.urn, row.entity_type):
            wanted[row.id, key_aspect_name(row.entity_type)] = ends
    held = held_edges(connection, ids)
    differing = {
        key: wanted.get(key, ())
        for key in wanted.keys() | held.keys()
        if set(wanted.get(key, ())) != held[key]
    }
    created, deleted = replace_edges(connection, differing, held)
    refresh(connection, (), sources)
    return Reindexed(
        last_id=ids[-1],
        entities=len(ids),
        aspects=aspects,
        changed=len(differing),
        created=created,
        deleted=deleted,
    )


def rebuild(connection: Connection, progress: Callable[[int], None] = lambda _: None) -> int:
    """Make the search index from nothing, mend the edges, and return the number of entities.

    `progress` is told how many are done, now and then. All of it is one transaction.

    Cost: everything is read and indexed; memory for the aspects of a thousand entities.
    """
    clear(connection)
    entities = 0
    last_id: int | None = 0
    while last_id is not None:
        done = reindex_batch(connection, ReindexScope(), last_id)
        entities += done.entities
        last_id = done.last_id
        progress(entities)
    set_current(connection)
    return entities


def _conditions(scope: ReindexScope) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if scope.urn is not None:
        conditions.append(entity.c.urn == scope.urn)
    if scope.urn_like is not None:
        conditions.append(entity.c.urn.like(scope.urn_like))
    return conditions
