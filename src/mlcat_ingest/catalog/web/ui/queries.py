"""What the pages ask of the tables themselves: lists without what is removed."""

from collections.abc import Collection

from sqlalchemy import ColumnElement, Connection, func, select

from mlcat_ingest.catalog.schema.search_tables import searched
from mlcat_ingest.catalog.schema.tables import edge, entity
from mlcat_ingest.catalog.schema.values import UrnPage
from mlcat_ingest.catalog.store.reads import marked_removed
from mlcat_ingest.catalog.store.rows import chunks


def _present() -> ColumnElement[bool]:
    """Hold for entities that are not marked as removed."""
    return ~marked_removed(entity.c.id)


def pointing_at(
    connection: Connection,
    urn: str,
    relationships: Collection[str] | None,
    start: int,
    count: int,
) -> UrnPage:
    """Return a page of the entities with such an edge (None: any) to `urn`, the newest first."""
    sources = (
        select(entity.c.id, entity.c.urn, searched.c.created_ms)
        .join(edge, edge.c.source_id == entity.c.id)
        .outerjoin(searched, searched.c.id == entity.c.id)
        .where(edge.c.destination == urn, _present())
        .distinct()
    )
    if relationships is not None:
        sources = sources.where(edge.c.relationship.in_(sorted(relationships)))
    total = connection.scalar(select(func.count()).select_from(sources.subquery())) or 0
    newest_first = sources.order_by(searched.c.created_ms.desc(), entity.c.id.desc())
    rows = connection.execute(newest_first.offset(start).limit(count))
    return UrnPage(total, tuple(row.urn for row in rows))


def sizes(connection: Connection, urns: Collection[str], relationship: str) -> dict[str, int]:
    """Return how many entities have such an edge to each of `urns`, if any have."""
    found: dict[str, int] = {}
    for some in chunks(urns):
        query = (
            select(edge.c.destination, func.count(edge.c.source_id.distinct()))
            .join(entity, entity.c.id == edge.c.source_id)
            .where(edge.c.destination.in_(some), edge.c.relationship == relationship, _present())
            .group_by(edge.c.destination)
        )
        found.update({row[0]: row[1] for row in connection.execute(query)})
    return found
