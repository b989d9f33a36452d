"""Edges and search index made anew from the aspects: what a reindexing task runs, in batches."""

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement

from mlcat_ingest.catalog.schema.tables import aspect, entity
from mlcat_ingest.catalog.schema.virtual import key_edges
from mlcat_ingest.catalog.search.document import IndexedEntity
from mlcat_ingest.catalog.search.index import clear, refresh, set_current
from mlcat_ingest.catalog.store.reads import ASPECTS_OF_ENTITIES, count_rows
from mlcat_ingest.catalog.store.rows import CHUNK, Edges, Key, held_edges, replace_edges
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.registry import edges, key_aspect_name


@dataclass(frozen=True, slots=True)
class ReindexScope:
    """The entities to reindex: one URN, those like an SQL pattern, or all of them."""

    urn: str | None = None
    urn_like: str | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions on the table of entities."""
        conditions = [] if self.urn is None else [entity.c.urn == self.urn]
        return conditions + ([] if self.urn_like is None else [entity.c.urn.like(self.urn_like)])


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """The result of one batch of a task; `place` is where the next begins, None after the last.

    Of reindexing `updated` counts the aspects with other edges than stored, `noops` those without,
    `created` and `deleted` the edges, and `entities` those of the batch. Of truncating `deleted`
    counts the events.
    """

    place: int | None
    entities: int = 0
    updated: int = 0
    created: int = 0
    deleted: int = 0
    noops: int = 0


def count_aspects(connection: Connection, scope: ReindexScope) -> int:
    """Return how many aspects reindexing `scope` will read."""
    return count_rows(connection, ASPECTS_OF_ENTITIES, *scope.conditions())


def reindex_batch(
    connection: Connection, scope: ReindexScope, after_id: int
) -> BatchProgress | None:
    """Compare the edges of the next entities of `scope` with their aspects, and mend them.

    Their documents in the search index are written anew as well. None is returned where no entity
    was left.

    Cost: a handful of SQL statements; memory for the aspects of a thousand entities.
    """
    entities = connection.execute(
        select(entity.c.id, entity.c.urn, entity.c.entity_type, entity.c.created_ms)
        .where(entity.c.id > after_id, *scope.conditions())
        .order_by(entity.c.id)
        .limit(CHUNK)
    ).all()
    if not entities:
        return None
    ids = [row.id for row in entities]
    wanted: dict[Key, Edges] = {}
    sources = {row.id: IndexedEntity(row.urn, row.entity_type, row.created_ms) for row in entities}
    query = select(aspect.c.entity_id, aspect.c.aspect, aspect.c.value, aspect.c.modified_ms)
    for row in connection.execute(query.where(aspect.c.entity_id.in_(ids))):
        value = loads(row.value)
        wanted[row.entity_id, row.aspect] = edges(row.aspect, value)
        sources[row.entity_id].add(row.aspect, value, row.modified_ms)
    aspects = len(wanted)
    for row in entities:
        if targets := key_edges(row.urn, row.entity_type):
            wanted[row.id, key_aspect_name(row.entity_type)] = targets
    stored = held_edges(connection, ids)
    differing = {
        key: wanted.get(key, ())
        for key in wanted.keys() | stored.keys()
        if set(wanted.get(key, ())) != stored[key]
    }
    created, deleted = replace_edges(connection, differing, stored)
    refresh(connection, (), sources)
    return BatchProgress(
        place=ids[-1],
        entities=len(ids),
        updated=len(differing),
        created=created,
        deleted=deleted,
        noops=max(0, aspects - len(differing)),
    )


def rebuild(connection: Connection, progress: Callable[[int], None] = lambda _: None) -> int:
    """Make the search index from nothing, mend the edges, and return the number of entities.

    `progress` is called with the number done after each batch. All of it is one transaction.

    Cost: everything is read and indexed; memory for the aspects of a thousand entities.
    """
    clear(connection)
    entities = place = 0
    while (done := reindex_batch(connection, ReindexScope(), place)) is not None:
        entities += done.entities
        place = done.place or 0
        progress(entities)
    set_current(connection)
    return entities
