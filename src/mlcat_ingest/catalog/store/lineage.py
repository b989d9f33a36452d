"""Lineage: which edges data flows along, and one hop of the graph that they make.

Source: the annotations `isLineage` and `isUpstream` on relationships in DataHub's metadata model
1.7; a test holds the two tables against the SDK's copy of it.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import (
    Connection,
    Select,
    and_,
    case,
    false,
    func,
    literal,
    or_,
    select,
    tuple_,
    union,
)

from mlcat_ingest.catalog.schema.tables import edge, entity
from mlcat_ingest.catalog.schema.values import RelatedEntity
from mlcat_ingest.catalog.store.reads import marked_removed
from mlcat_ingest.catalog.store.rows import chunks
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.shapes import edge_markers


def _edges_of(way: Literal["upstream", "downstream"]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (entity_type, marker.relationship)
        for spec in ASPECTS.values()
        if spec.type is not None
        for marker in edge_markers(spec.type)
        if marker.lineage == way
        for entity_type in spec.entity_types
    )


# Relationships of aspects that have no typed form here.
_UNTYPED: Final = {
    ("chart", "Consumes"),
    ("chart", "ConsumesMetric"),
    ("dashboard", "Consumes"),
    ("dashboard", "ConsumesMetric"),
    ("dashboard", "Contains"),
    ("dashboard", "DashboardContainsDashboard"),
    ("dataset", "ConsumesMetric"),
}

FROM_DESTINATION: Final = _edges_of("upstream") | _UNTYPED
"""Entity type and relationship of edges whose source comes from their destination."""

TO_DESTINATION: Final = _edges_of("downstream")
"""Entity type and relationship of edges whose destination comes from their source."""

OF_WHOLE_ENTITIES: Final = ~edge.c.destination.startswith("urn:li:schemaField:")
"""The condition on an edge that is not one to a field: those say how fields are made, not data."""

_other = entity.alias("other")


@dataclass(frozen=True, slots=True)
class LineageWish:
    """Which way to look, and which page; `ghosts` are removed and unwritten entities."""

    upstream: bool
    start: int
    count: int
    ghosts: bool = False


@dataclass(frozen=True, slots=True)
class LineagePage:
    """A page of one entity's lineage edges.

    `total` counts all of them; `hidden` those of them that lead to ghosts and are in no page.
    """

    total: int = 0
    hidden: int = 0
    entities: tuple[RelatedEntity, ...] = ()


def lineage(
    connection: Connection, urns: Collection[str], wish: LineageWish
) -> dict[str, LineagePage]:
    """Return, for each of `urns`, a page of what it comes from or of what comes from it.

    The edges of its own aspects come first, then those of others, each by relationship and URN.

    Cost: one SQL statement for each thousand URNs.
    """
    ends: dict[str, list[RelatedEntity]] = {urn: [] for urn in urns}
    counts: dict[str, tuple[int, int]] = {}
    for some in chunks(urns):
        for row in connection.execute(_page(some, wish)):
            counts[row.here] = (row.total, row.hidden)
            if not row.is_ghost and wish.start < row.at <= wish.start + wish.count:
                ends[row.here].append(RelatedEntity(row.there, row.relationship))
    return {
        urn: LineagePage(*counts.get(urn, (0, 0)), entities=tuple(found))
        for urn, found in ends.items()
    }


def _page(urns: list[str], wish: LineageWish) -> Select[Any]:
    edges = _edges(urns, upstream=wish.upstream).subquery()
    ghost = false() if wish.ghosts else or_(_other.c.id.is_(None), marked_removed(_other.c.id))
    is_ghost = case((ghost, 1), else_=0).label("is_ghost")
    known = (
        select(edges, is_ghost)
        .select_from(edges.outerjoin(_other, _other.c.urn == edges.c.there))
        .subquery()
    )
    order = (known.c.is_ghost, known.c.side, known.c.relationship, known.c.there)
    numbered = select(
        known,
        func.row_number().over(partition_by=known.c.here, order_by=order).label("at"),
        func.count().over(partition_by=known.c.here).label("total"),
        func.sum(known.c.is_ghost).over(partition_by=known.c.here).label("hidden"),
    ).subquery()
    wanted = and_(numbered.c.at > wish.start, numbered.c.at <= wish.start + wish.count)
    # The first row is always fetched: it carries the totals of a page beyond the end.
    return select(numbered).where(or_(wanted, numbered.c.at == 1)).order_by("here", "at")


def _edges(urns: list[str], *, upstream: bool) -> Any:
    own, foreign = (
        (FROM_DESTINATION, TO_DESTINATION) if upstream else (TO_DESTINATION, FROM_DESTINATION)
    )
    end = edge.join(entity, entity.c.id == edge.c.source_id)
    kind = tuple_(entity.c.entity_type, edge.c.relationship)
    return union(
        select(
            entity.c.urn.label("here"),
            edge.c.destination.label("there"),
            edge.c.relationship,
            literal(0).label("side"),
        )
        .select_from(end)
        .where(entity.c.urn.in_(urns), kind.in_(sorted(own)), OF_WHOLE_ENTITIES),
        select(
            edge.c.destination.label("here"),
            entity.c.urn.label("there"),
            edge.c.relationship,
            literal(1).label("side"),
        )
        .select_from(end)
        .where(edge.c.destination.in_(urns), kind.in_(sorted(foreign)), OF_WHOLE_ENTITIES),
    )
