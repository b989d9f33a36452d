"""The graph of edges: lineage, one hop at a time or over several; the aspects that name an entity.

Source: the annotations `isLineage` and `isUpstream` on relationships in DataHub's metadata model
1.7; a test holds the two tables against the SDK's copy of it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from sqlalchemy import case, false, func, literal, or_, select, tuple_, union
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import FromClause, Select

from mlcat_ingest.catalog.schema.tables import aspect, edge, entity
from mlcat_ingest.catalog.schema.values import (
    UNKNOWN_ACTOR,
    RelatedEntity,
    RelatedPage,
    Write,
)
from mlcat_ingest.catalog.schema.virtual import KEYS_WITH_EDGES
from mlcat_ingest.catalog.store.batch import Batch
from mlcat_ingest.catalog.store.prepare import prepare
from mlcat_ingest.catalog.store.reads import count_rows, marked_removed, page_of_each
from mlcat_ingest.catalog.store.rows import distinct_chunks
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.declaration import (
    Edge,
    Items,
    RecordType,
    Type,
    declared_edges,
    record_named,
)
from mlcat_ingest.metadata.registry import ASPECTS, record_of
from mlcat_ingest.metadata.urn import entity_type_of


def _edges_of(way: Literal["upstream", "downstream"]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (entity_type, edge.relationship)
        for spec in ASPECTS.values()
        for edge in declared_edges(record_named(spec.record))
        if edge.lineage == way
        for entity_type in spec.entity_types
    )


FROM_DESTINATION: Final = _edges_of("upstream")
"""Entity type and relationship of edges whose source comes from their destination."""

TO_DESTINATION: Final = _edges_of("downstream")
"""Entity type and relationship of edges whose destination comes from their source."""


_other = entity.alias("other")
_first = edge.alias("first")
_source = entity.alias("source")

EdgeKinds = frozenset[tuple[str, str]]
"""Entity types and relationships."""


@dataclass(frozen=True, slots=True)
class LineageQuery:
    """A direction and a page of lineage.

    `include_missing` includes entities that are marked as removed, or were never written.
    `from_destination` and `to_destination` are the kinds of edges that are followed. With
    `arriving` at most that many edges to an entity are read, and the total counts no others.
    """

    upstream: bool
    start: int
    count: int
    include_missing: bool = False
    from_destination: EdgeKinds = FROM_DESTINATION
    to_destination: EdgeKinds = TO_DESTINATION
    arriving: int | None = None


@dataclass(slots=True)
class Reach:
    """The entities that were reached, nearest first, each with the one before it.

    It is `partial` where there were more than `most`.
    """

    origin: str
    most: int
    degrees: dict[str, int] = field(default_factory=dict)
    before: dict[str, str] = field(default_factory=dict)
    partial: bool = False

    def add(self, urn: str, before: str, degree: int) -> bool:
        """Note that `urn` was reached, and return whether that is news."""
        if urn in self.degrees or urn == self.origin:
            return False
        if len(self.degrees) >= self.most:
            self.partial = True
            return False
        self.degrees[urn] = degree
        self.before[urn] = before
        return True

    def path(self, urn: str) -> list[str]:
        """Return the way from the origin to `urn`, both ends counted."""
        way = [urn]
        while way[-1] != self.origin:
            way.append(self.before[way[-1]])
        return way[::-1]


Neighbours = Callable[[Sequence[str]], Iterable[tuple[str, str]]]
"""Returns the next hop of some entities: pairs of one of them and another."""


def walk(
    reach: Reach, neighbours: Neighbours, hops: int, at_once: int, followed: int | None = None
) -> None:
    """Follow `neighbours` from the origin, hop by hop, until enough was reached.

    They are asked about `at_once` entities; of one hop the first `followed` lead on, or all.
    """
    frontier = [reach.origin]
    for degree in range(1, hops + 1):
        reached: list[str] = []
        for start in range(0, len(frontier), at_once):
            batch = frontier[start : start + at_once]
            reached += [urn for before, urn in neighbours(batch) if reach.add(urn, before, degree)]
            if reach.partial:
                return
        frontier = reached if followed is None else reached[: max(followed, 0)]
        if not frontier:
            return


def lineage(
    connection: Connection, urns: Collection[str], query: LineageQuery
) -> dict[str, RelatedPage]:
    """Return, for each of `urns`, a page of what it comes from or of what comes from it.

    The edges of its own aspects come first, then those of others, each by relationship and URN.

    Cost: one SQL statement for each thousand URNs.
    """
    related_entities: dict[str, list[RelatedEntity]] = {urn: [] for urn in urns}
    counts: dict[str, tuple[int, int]] = {}
    for chunk in distinct_chunks(urns):
        for row in connection.execute(_page(chunk, query)):
            counts[row.here] = (row.total, row.hidden)
            if not row.is_missing and query.start < row.at <= query.start + query.count:
                related_entities[row.here].append(RelatedEntity(row.there, row.relationship))
    return {
        urn: RelatedPage(total, tuple(entities), hidden)
        for urn, entities in related_entities.items()
        for total, hidden in [counts.get(urn, (0, 0))]
    }


def _page(urns: list[str], query: LineageQuery) -> Select[Any]:
    edges = _edges(urns, query).subquery()
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


def _edges(urns: list[str], query: LineageQuery) -> Any:
    own, foreign = query.from_destination, query.to_destination
    if not query.upstream:
        own, foreign = foreign, own
    leaving = (
        _of_kinds(select(entity.c.urn.label("here"), edge.c.destination.label("there")), own)
        .add_columns(edge.c.relationship, literal(0).label("side"))
        .where(entity.c.urn.in_(urns))
    )
    arriving = _of_kinds(
        select(edge.c.destination.label("here"), entity.c.urn.label("there")), foreign
    ).add_columns(edge.c.relationship, literal(1).label("side"))
    if query.arriving is None:
        return union(leaving, arriving.where(edge.c.destination.in_(urns)))
    # The few edges of each entity are found in the index, however many arrive there.
    given = func.json_each(dumps(urns).decode()).table_valued("value", name="given")
    names = sorted({relationship for _, relationship in foreign})
    first = (
        _of_kinds(select(_first.c.source_id), foreign, _first, _source)
        .where(_first.c.destination == given.c.value, _first.c.relationship.in_(names))
        .limit(query.arriving)
        .correlate(given)
    )
    return union(
        leaving,
        arriving.where(
            edge.c.destination == given.c.value,
            edge.c.relationship.in_(names),
            edge.c.source_id.in_(first),
        ),
    )


def _of_kinds(
    columns: Select[Any], kinds: EdgeKinds, edges: FromClause = edge, sources: FromClause = entity
) -> Select[Any]:
    kind = tuple_(sources.c.entity_type, edges.c.relationship)
    to_whole_entity = ~edges.c.destination.startswith("urn:li:schemaField:")
    return columns.select_from(edges.join(sources, sources.c.id == edges.c.source_id)).where(
        kind.in_(sorted(kinds)), to_whole_entity
    )


_AT_ONCE: Final = 500
"""Aspects that are changed in one transaction, so that other writers get their turn."""

_SHOWN: Final = 100
"""Most references that are listed; the rest is only counted."""


class References(NamedTuple):
    """How many references there are, and the first: each its entity, relationship and aspect."""

    total: int
    first: Sequence[tuple[str, str, str]]


def find_references(connection: Connection, urn: str) -> References:
    """Return how many references there are to `urn`, and the first hundred of them.

    A part of the URN of another entity (the platform of a feature table) is no reference: it
    cannot be taken away.
    """
    total = count_rows(connection, _edges_naming(urn).subquery())
    first = _edges_naming(urn).order_by(edge.c.source_id, edge.c.aspect, edge.c.relationship)
    rows = connection.execute(first.limit(_SHOWN))
    return References(total, [(row.urn, row.relationship, row.aspect) for row in rows])


def _edges_naming(urn: str) -> Select[Any]:
    return (
        select(entity.c.urn, edge.c.relationship, edge.c.aspect, edge.c.source_id)
        .join(entity, entity.c.id == edge.c.source_id)
        .where(edge.c.destination == urn, edge.c.aspect.not_in(sorted(KEYS_WITH_EDGES)))
    )


def delete_references(store: Store, urn: str) -> References:
    """Take `urn` out of every aspect that refers to it; return what was found.

    The changed aspects get a new version each, so what they were before can be read; an aspect
    that makes no sense without the reference is deleted. Many references take several
    transactions: after a failure, the same call continues where it stopped.

    Cost: a dozen SQL statements for each 500 aspects.
    """
    references = store.read(find_references, urn)
    after: tuple[int, str] | None = (0, "")
    while after is not None:
        after = store.change(_delete_batch, urn, after)
    return references


def _delete_batch(
    connection: Connection, urn: str, after: tuple[int, str]
) -> tuple[int, str] | None:
    edges = _edges_naming(urn).subquery()
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
    rows = connection.execute(query).all()
    writes = []
    for row in rows:
        left = without_reference(row.aspect, loads(row.value), urn)
        deletion = Write(row.urn, row.aspect, change="DELETE")
        writes.append(prepare(deletion if left is None else Write(row.urn, row.aspect, left)))
    Batch(connection, UNKNOWN_ACTOR).apply(writes)
    return (rows[-1].entity_id, rows[-1].aspect) if len(rows) == _AT_ONCE else None


_GONE: Final = object()


def without_reference(aspect: str, value: Mapping[str, Any], urn: str) -> dict[str, Any] | None:
    """Return an aspect with every reference to `urn` taken out.

    References are the fields that the aspect's declaration marks as such; the actor of an entry is
    none. An entry of a list that requires the reference is removed with it, and in the end the
    whole aspect, which None means.
    """
    record = record_of(aspect)
    if record is None:
        return dict(value)
    left = _record(record, value, urn, None)
    return None if left is _GONE else left


def _record(record: RecordType, value: Mapping[str, Any], urn: str, outer: Edge | None) -> Any:
    """Return a record without `urn`, or `_GONE`; `outer` says which of its fields is the edge."""
    left = dict(value)
    for part in record.fields.values():
        if part.name not in left:
            continue
        is_end = outer is not None and outer.at == part.name
        is_edge = is_end or (part.edge is not None and part.edge.at is None)
        refers = is_edge or (part.urns is not None and entity_type_of(urn) in part.urns)
        kept = _value(part.type, part.edge, left[part.name], urn, refers=refers)
        if kept is not _GONE:
            left[part.name] = kept
        elif part.required or is_end:
            return _GONE
        else:
            del left[part.name]
    return left


def _value(type_: Type, edge: Edge | None, value: Any, urn: str, *, refers: bool) -> Any:
    if isinstance(value, str):
        return _GONE if refers and value == urn else value
    if isinstance(value, list) and isinstance(type_, Items):
        cleaned = (_value(type_.of, edge, entry, urn, refers=refers) for entry in value)
        return [kept for kept in cleaned if kept is not _GONE]
    if isinstance(value, dict) and isinstance(type_, RecordType):
        return _record(type_, value, urn, edge)
    return value
