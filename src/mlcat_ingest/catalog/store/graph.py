"""The graph of edges: lineage, one hop at a time, and a scroll over all relationships.

Source: the annotations `isLineage` and `isUpstream` on relationships in DataHub's metadata model
1.7; a test holds the two tables against the SDK's copy of it.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
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
from mlcat_ingest.catalog.store.reads import marked_removed, page_of_each
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
class LineageQuery:
    """A direction and a page of lineage.

    `include_missing` includes entities that are marked as removed, or were never written.
    """

    upstream: bool
    start: int
    count: int
    include_missing: bool = False


@dataclass(frozen=True, slots=True)
class LineagePage:
    """A page of one entity's lineage edges.

    `total` counts all of them; `hidden` those that lead to missing entities and are in no page.
    """

    total: int = 0
    hidden: int = 0
    entities: tuple[RelatedEntity, ...] = ()


def lineage(
    connection: Connection, urns: Collection[str], query: LineageQuery
) -> dict[str, LineagePage]:
    """Return, for each of `urns`, a page of what it comes from or of what comes from it.

    The edges of its own aspects come first, then those of others, each by relationship and URN.

    Cost: one SQL statement for each thousand URNs.
    """
    related_entities: dict[str, list[RelatedEntity]] = {urn: [] for urn in urns}
    counts: dict[str, tuple[int, int]] = {}
    for chunk in chunks(urns):
        for row in connection.execute(_page(chunk, query)):
            counts[row.here] = (row.total, row.hidden)
            if not row.is_missing and query.start < row.at <= query.start + query.count:
                related_entities[row.here].append(RelatedEntity(row.there, row.relationship))
    return {
        urn: LineagePage(*counts.get(urn, (0, 0)), entities=tuple(entities))
        for urn, entities in related_entities.items()
    }


def _page(urns: list[str], query: LineageQuery) -> Select[Any]:
    edges = _edges(urns, upstream=query.upstream).subquery()
    absent = or_(_other.c.id.is_(None), marked_removed(_other.c.id))
    missing = false() if query.include_missing else absent
    is_missing = case((missing, 1), else_=0).label("is_missing")
    known = (
        select(edges, is_missing)
        .select_from(edges.outerjoin(_other, _other.c.urn == edges.c.there))
        .subquery()
    )
    order = (known.c.is_missing, known.c.side, known.c.relationship, known.c.there)
    hidden = func.sum(known.c.is_missing).over(partition_by=known.c.here).label("hidden")
    return page_of_each(select(known, hidden), known.c.here, order, query.start, query.count)


def _edges(urns: list[str], *, upstream: bool) -> Any:
    own, foreign = (
        (FROM_DESTINATION, TO_DESTINATION) if upstream else (TO_DESTINATION, FROM_DESTINATION)
    )
    kind = tuple_(entity.c.entity_type, edge.c.relationship)

    def side(here: Any, there: Any, kinds: Collection[tuple[str, str]], number: int) -> Select[Any]:
        columns = (here.label("here"), there.label("there"), edge.c.relationship)
        return (
            select(*columns, literal(number).label("side"))
            .select_from(edge.join(entity, entity.c.id == edge.c.source_id))
            .where(here.in_(urns), kind.in_(sorted(kinds)), OF_WHOLE_ENTITIES)
        )

    return union(
        side(entity.c.urn, edge.c.destination, own, 0),
        side(edge.c.destination, entity.c.urn, foreign, 1),
    )


_LINEAGE: Final = sorted(FROM_DESTINATION | TO_DESTINATION)
_arrived = entity.alias("arrived")
_leaving = entity.alias("leaving")


class DirectedEdge(NamedTuple):
    """An edge: the entity that it leaves, the relationship, the entity that it arrives at."""

    source: str
    source_type: str
    relationship: str
    destination: str


class EdgePosition(NamedTuple):
    """The position of an edge in the order of a scroll."""

    destination: str
    relationship: str
    source_id: int


@dataclass(frozen=True, slots=True)
class EdgeEndpoints:
    """The entities that may stand at an endpoint of an edge; None is any."""

    types: tuple[str, ...] | None = None
    urns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class EdgeQuery:
    """A query for edges; names and URNs are sorted, so that equal queries look the same.

    Attributes:
        relationships: only these; None is any.
        sources: what they may leave.
        destinations: what they may arrive at.
        at_either_end: entities of which one has to be at an endpoint; None is any.
        lineage: only edges along which data flows.
        include_removed: edges of entities that are marked as removed as well.
    """

    relationships: tuple[str, ...] | None = None
    sources: EdgeEndpoints = field(default_factory=EdgeEndpoints)
    destinations: EdgeEndpoints = field(default_factory=EdgeEndpoints)
    at_either_end: tuple[str, ...] | None = None
    lineage: bool = False
    include_removed: bool = False


def scroll_edges(
    connection: Connection, query: EdgeQuery, after: EdgePosition | None, count: int
) -> tuple[list[DirectedEdge], EdgePosition | None]:
    """Return the edges that come `after` a place, and the place of the last if there are more.

    An edge that several aspects make is there once.

    Cost: one SQL statement, which walks the edges in the order in which they are kept.
    """
    order = (edge.c.destination, edge.c.relationship, edge.c.source_id)
    statement = (
        select(*order, entity.c.urn, entity.c.entity_type)
        .join(entity, entity.c.id == edge.c.source_id)
        .outerjoin(_arrived, _arrived.c.urn == edge.c.destination)
        .where(*_conditions(query))
        .group_by(*order)
        .order_by(*order)
        .limit(count + 1)
    )
    if after is not None:
        statement = statement.where(tuple_(*order) > tuple_(*after))
    rows = connection.execute(statement).all()
    edges = [
        DirectedEdge(row.urn, row.entity_type, row.relationship, row.destination)
        for row in rows[:count]
    ]
    return edges, EdgePosition(*rows[count - 1][:3]) if edges and len(rows) > count else None


def _conditions(query: EdgeQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.relationships is not None:
        # The empty text keeps SQLite from taking a single relationship for a constant, which would
        # cost the order of the primary key, and so a sorting of all edges.
        conditions.append((edge.c.relationship + "").in_(query.relationships))
    if query.lineage:
        conditions.append(tuple_(entity.c.entity_type, edge.c.relationship).in_(_LINEAGE))
        conditions.append(OF_WHOLE_ENTITIES)
    conditions += _endpoint_conditions(entity.c.urn, query.sources)
    conditions += _endpoint_conditions(edge.c.destination, query.destinations)
    if query.at_either_end is not None:
        # Both sides are indexed; a condition on the entity beside them would read every edge.
        urns = query.at_either_end
        sources = select(_leaving.c.id).where(_leaving.c.urn.in_(urns))
        conditions.append(or_(edge.c.destination.in_(urns), edge.c.source_id.in_(sources)))
    if not query.include_removed:
        conditions += [~marked_removed(entity.c.id), ~marked_removed(_arrived.c.id)]
    return conditions


def _endpoint_conditions(urn: Any, endpoints: EdgeEndpoints) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if endpoints.urns is not None:
        conditions.append(urn.in_(endpoints.urns))
    if endpoints.types is not None:
        conditions.append(or_(*(urn.startswith(f"urn:li:{name}:") for name in endpoints.types)))
    return conditions
