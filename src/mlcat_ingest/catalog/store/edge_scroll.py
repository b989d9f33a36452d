"""All edges, or those between certain entities, page after page."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, or_, select, tuple_

from mlcat_ingest.catalog.schema.tables import edge, entity
from mlcat_ingest.catalog.store.lineage import FROM_DESTINATION, OF_WHOLE_ENTITIES, TO_DESTINATION
from mlcat_ingest.catalog.store.reads import marked_removed

_LINEAGE: Final = sorted(FROM_DESTINATION | TO_DESTINATION)
_arrived = entity.alias("arrived")
_leaving = entity.alias("leaving")


class FoundEdge(NamedTuple):
    """An edge: the entity that it leaves, the relationship, the entity that it arrives at."""

    source: str
    source_type: str
    relationship: str
    destination: str


class EdgePosition(NamedTuple):
    """Where an edge stands in the order of a scroll."""

    destination: str
    relationship: str
    source_id: int


@dataclass(frozen=True, slots=True)
class Ends:
    """Which entities may stand at one end of an edge; None is any."""

    types: tuple[str, ...] | None = None
    urns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class EdgeWish:
    """Which edges are asked for; names and URNs are sorted, so that equal wishes look the same.

    Attributes:
        relationships: only these; None is any.
        sources: what they may leave.
        destinations: what they may arrive at.
        at_either_end: entities of which one has to be at one of the ends; None is any.
        lineage: only edges along which data flows.
        include_removed: edges of entities that are marked as removed as well.
    """

    relationships: tuple[str, ...] | None = None
    sources: Ends = field(default_factory=Ends)
    destinations: Ends = field(default_factory=Ends)
    at_either_end: tuple[str, ...] | None = None
    lineage: bool = False
    include_removed: bool = False


def scroll_edges(
    connection: Connection, wish: EdgeWish, after: EdgePosition | None, count: int
) -> tuple[list[FoundEdge], EdgePosition | None]:
    """Return the edges that come `after` a place, and the place of the last if there are more.

    An edge that several aspects make is there once.

    Cost: one SQL statement, which walks the edges in the order in which they are kept.
    """
    order = (edge.c.destination, edge.c.relationship, edge.c.source_id)
    query = (
        select(*order, entity.c.urn, entity.c.entity_type)
        .join(entity, entity.c.id == edge.c.source_id)
        .outerjoin(_arrived, _arrived.c.urn == edge.c.destination)
        .where(*_conditions(wish))
        .group_by(*order)
        .order_by(*order)
        .limit(count + 1)
    )
    if after is not None:
        query = query.where(tuple_(*order) > tuple_(*after))
    rows = connection.execute(query).all()
    page = rows[:count]
    found = [FoundEdge(row.urn, row.entity_type, row.relationship, row.destination) for row in page]
    more = len(rows) > len(page) and page
    return found, EdgePosition(*page[-1][:3]) if more else None


def _conditions(wish: EdgeWish) -> list[ColumnElement[bool]]:
    held: list[ColumnElement[bool]] = []
    if wish.relationships is not None:
        # The empty text keeps SQLite from taking a single relationship for a constant, which would
        # cost the order of the primary key, and so a sorting of all edges.
        held.append((edge.c.relationship + "").in_(wish.relationships))
    if wish.lineage:
        held.append(tuple_(entity.c.entity_type, edge.c.relationship).in_(_LINEAGE))
        held.append(OF_WHOLE_ENTITIES)
    held += _at(entity.c.urn, wish.sources)
    held += _at(edge.c.destination, wish.destinations)
    if wish.at_either_end is not None:
        # Both sides are indexed; a condition on the entity beside them would read every edge.
        left = select(_leaving.c.id).where(_leaving.c.urn.in_(wish.at_either_end))
        held.append(or_(edge.c.destination.in_(wish.at_either_end), edge.c.source_id.in_(left)))
    if not wish.include_removed:
        held += [~marked_removed(entity.c.id), ~marked_removed(_arrived.c.id)]
    return held


def _at(urn: Any, ends: Ends) -> list[ColumnElement[bool]]:
    held: list[ColumnElement[bool]] = []
    if ends.urns is not None:
        held.append(urn.in_(ends.urns))
    if ends.types is not None:
        held.append(or_(*(urn.startswith(f"urn:li:{name}:") for name in ends.types)))
    return held
