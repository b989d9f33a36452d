"""Entities of one request, how they are loaded in batches, and the resolvers of plain fields.

graphql-core resolves depth first: all of one model before the next one begins. Loading per entity
would make a query over a thousand models a thousand statements. So entities that were found side
by side form a cohort, and the loader reads for all of it what one of them needs. The groups of all
models of a cohort form a cohort again, and so on: a query costs a few statements a level, not an
entity.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from graphql import (
    FieldNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLResolveInfo,
    InlineFragmentNode,
)

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.schema.values import AspectVersion, Direction, RelatedPage
from mlcat_ingest.catalog.store.graph import LineagePage, LineageQuery, lineage
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.registry import ENTITY_TYPES as _ALL
from mlcat_ingest.metadata.registry import EntityType
from mlcat_ingest.metadata.urn import entity_type_of, raw_parts

NEIGHBOURS: Final = 1_000
"""Most entities that are loaded at once: a query that is stopped has not read much in vain."""

EDGES_AT_ONCE: Final = 100_000
"""Most edges that are read at once."""


@dataclass(frozen=True, slots=True)
class Edges:
    """A query for a page of the edges of an entity."""

    relationships: frozenset[str]
    direction: Direction
    start: int
    count: int
    include_removed: bool = True


Pick = Callable[[Mapping[str, Any]], Iterable[str]]
"""Takes an aspect and gives the URNs of one of its fields."""

Aspects = Mapping[str, AspectVersion]
"""The stored aspects of one entity, by name."""

Members = Sequence[str] | Callable[[], Iterable[str]]

_NOTHING: Final[Aspects] = {}


class Loader:
    """The stored aspects that one request has read so far.

    Cost: one store call a `load`, none for what was read before.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._whole: dict[str, Aspects] = {}
        self._single: dict[str, dict[str, Aspects]] = {}
        self._exist: dict[str, bool] = {}

    def load_whole(self, urns: Collection[str]) -> None:
        """Load every aspect of those of `urns` that are not loaded yet."""
        if missing := [urn for urn in urns if urn not in self._whole]:
            self._whole.update(self._read(missing, None))

    def load_aspect(self, urns: Collection[str], aspect: str) -> None:
        """Load one aspect of those of `urns` that are not loaded yet."""
        if missing := [urn for urn in urns if not self.holds(urn, aspect)]:
            self._single.setdefault(aspect, {}).update(self._read(missing, {aspect}))

    def load_existence(self, urns: Collection[str]) -> None:
        """Find out which of `urns` exist, where that is not known yet."""
        if missing := [urn for urn in urns if urn not in self._exist]:
            self._read(missing, ())

    def holds(self, urn: str, aspect: str) -> bool:
        """Return whether `aspect` of `urn` was loaded, be it stored or not."""
        return urn in self._whole or urn in self._single.get(aspect, _NOTHING)

    def exists(self, urn: str) -> bool | None:
        """Return whether `urn` exists; None where nothing was loaded about it."""
        return self._exist.get(urn)

    def aspects(self, urn: str) -> Aspects:
        """Return all loaded aspects of `urn`, of which all were asked for before."""
        return self._whole.get(urn, _NOTHING)

    def aspect(self, urn: str, name: str) -> AspectVersion | None:
        """Return an aspect of `urn` if it is stored and was loaded."""
        aspects = self._whole.get(urn)
        if aspects is None:
            aspects = self._single.get(name, {}).get(urn, _NOTHING)
        return aspects.get(name)

    def _read(
        self, urns: Collection[str], aspects: Collection[str] | None
    ) -> Iterator[tuple[str, Aspects]]:
        """Read at once, and return what was found, one entry for each of `urns`."""
        stored = self.store.get_many(urns, aspects)
        self._exist.update((urn, urn in stored) for urn in urns)
        return ((urn, stored.get(urn, _NOTHING)) for urn in urns)


class Cohort:
    """Entities that were found side by side and are loaded together."""

    __slots__ = ("_children", "_lineage", "_members", "_places", "_related", "_requested", "loader")

    def __init__(self, loader: Loader, members: Members) -> None:
        """Make a cohort of `members`, URNs or a function that finds them when they are needed."""
        self.loader = loader
        self._members = members
        self._places: dict[str, int] | None = None
        self._requested: set[str] = set()
        self._children: dict[tuple[str, str], Cohort] = {}
        self._related: dict[Edges, dict[str, RelatedPage]] = {}
        self._lineage: dict[LineageQuery, dict[str, LineagePage]] = {}

    def child(self, aspect: str, field: str, pick: Pick) -> "Cohort":
        """Return the cohort of what `field` of `aspect` refers to, in all members together."""
        key = (aspect, field)
        if key not in self._children:
            self._children[key] = Cohort(self.loader, lambda: self._referenced_urns(aspect, pick))
        return self._children[key]

    def members(self) -> Sequence[str]:
        """Return the URNs of the cohort, each once."""
        if callable(self._members):
            self._members = list(dict.fromkeys(self._members()))
        return self._members

    def _referenced_urns(self, aspect: str, pick: Pick) -> Iterable[str]:
        for urn in self.members():
            if (stored := self.aspect(urn, aspect)) is not None:
                yield from pick(stored.value)

    def _neighbours(self, urn: str, at_once: int = NEIGHBOURS) -> Sequence[str]:
        """Return the stretch of the cohort, `at_once` long, that `urn` is in."""
        members = self.members()
        if len(members) <= at_once:
            return members
        if self._places is None:
            self._places = {member: place for place, member in enumerate(members)}
        start = self._places[urn] // at_once * at_once
        return members[start : start + at_once]

    def aspect(self, urn: str, aspect: str) -> AspectVersion | None:
        """Return `aspect` of one of the members, loading it for its neighbours if need be.

        The first aspect that is asked for is loaded alone, which is all that most queries want of
        long lists; with the second one everything is.
        """
        loader = self.loader
        if not loader.holds(urn, aspect):
            neighbours = self._neighbours(urn)
            self._requested.add(aspect)
            if len(self._requested) == 1 and len(neighbours) > 1:
                loader.load_aspect(neighbours, aspect)
            else:
                loader.load_whole(neighbours)
        return loader.aspect(urn, aspect)

    def aspects(self, urn: str) -> Aspects:
        """Return all aspects of one of the members, loading its neighbours if need be."""
        self.loader.load_whole(self._neighbours(urn))
        return self.loader.aspects(urn)

    def exists(self, urn: str) -> bool:
        """Return whether one of the members exists, finding out for its neighbours if need be."""
        if self.loader.exists(urn) is None:
            self.loader.load_existence(self._neighbours(urn))
        return self.loader.exists(urn) is True

    def related_page(self, urn: str, edges: Edges) -> RelatedPage:
        """Return a page of the edges of one of the members, and read its neighbours' with it."""
        pages = self._related.setdefault(edges, {})
        if urn not in pages:
            pages.update(
                self.loader.store.related_entities(
                    self._neighbours(urn, _at_once(edges.count)),
                    edges.relationships,
                    edges.direction,
                    edges.start,
                    edges.count,
                    include_removed=edges.include_removed,
                )
            )
        return pages[urn]

    def lineage_page(self, urn: str, query: LineageQuery) -> LineagePage:
        """Return a page of the lineage of one of the members, and read its neighbours' with it."""
        pages = self._lineage.setdefault(query, {})
        if urn not in pages:
            neighbours = self._neighbours(urn, _at_once(query.count))
            store = self.loader.store
            pages.update(store.read(lambda connection: lineage(connection, neighbours, query)))
        return pages[urn]


def _at_once(count: int) -> int:
    """Return for how many entities a page of `count` edges may be read in one go."""
    return min(NEIGHBOURS, max(1, EDGES_AT_ONCE // max(count, 1)))


KINDS: Final = {name: kind for name, kind in _ALL.items() if kind.enum != "OTHER"}
"""Entity types that have a name in GraphQL."""

ENTITY_TYPES: Final = {kind.enum: name for name, kind in KINDS.items()}
"""Value of EntityType to entity type; OTHER and RESTRICTED mean none."""

SOUGHT: Final = frozenset(name for name, kind in KINDS.items() if kind.sought)
"""The entity types of a search that names none."""


def kind_of(entity_type: str) -> EntityType:
    """Return the form of an entity type; one that has no name in GraphQL is an OTHER."""
    return KINDS.get(entity_type) or EntityType(entity_type)


class Node:
    """An entity, by its URN; it need not exist."""

    __slots__ = ("_parts", "cohort", "kind", "urn")

    def __init__(self, urn: str, kind: EntityType, cohort: Cohort) -> None:
        self.urn = urn
        self.kind = kind
        self.cohort = cohort
        self._parts: tuple[str, ...] | None = None

    def part(self, index: int) -> str:
        """Return a part of the URN verbatim; the last one where there are fewer."""
        if self._parts is None:
            try:
                self._parts = raw_parts(self.urn)
            except InvalidUrnError:
                self._parts = (self.urn,)
        return self._parts[min(index, len(self._parts) - 1)]

    def aspect(self, name: str | None) -> Mapping[str, Any] | None:
        """Return a stored aspect's value, or None; None names no aspect."""
        stored = self.cohort.aspect(self.urn, name) if name else None
        return None if stored is None else stored.value

    def record(self, name: str | None) -> "Record | None":
        """Return a stored aspect as a record, or None."""
        value = self.aspect(name)
        return None if value is None else Record(self, value)

    def references(self, aspect: str, field: str, pick: Pick, urns: Iterable[str]) -> "list[Node]":
        """Return the entities `urns`, which are those that `field` of this entity refers to."""
        cohort = self.cohort.child(aspect, field, pick)
        return [node for urn in urns if (node := node_of(urn, cohort)) is not None]


class Record:
    """A JSON object inside an aspect of `node`; its fields are read by their own names."""

    __slots__ = ("node", "value")

    def __init__(self, node: Node, value: Mapping[str, Any]) -> None:
        self.node = node
        self.value = value


def node_of(urn: str, cohort: Cohort) -> Node | None:
    """Return the entity `urn`, one of `cohort`; None where it is no URN, or of no type here."""
    try:
        kind = KINDS.get(entity_type_of(urn))
    except InvalidUrnError:
        return None
    return None if kind is None else Node(urn, kind, cohort)


Resolver = Callable[..., Any]
"""Takes the parent value, the resolve info and the field's arguments; returns the field's value."""

Fields = Mapping[str, Resolver]
"""The resolvers of one object type, by field."""


class StopQuery(BaseException):
    """Ends a query that exceeds a limit; no `Exception`, which would fail one field only."""


class Context:
    """The store, the loader and the time left of one GraphQL request."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.store = store
        self.limits = limits
        self.loader = Loader(store)
        self._deadline = time.monotonic() + limits.query_seconds

    def check_time(self) -> None:
        """Go on if there is time left.

        Raises:
            StopQuery: the query has run too long.
        """
        if time.monotonic() > self._deadline:
            raise StopQuery(f"the query took longer than {self.limits.query_seconds:g} s")


def context_of(info: GraphQLResolveInfo) -> Context:
    """Return the context of the request that `info` belongs to."""
    context = info.context
    if not isinstance(context, Context):
        raise TypeError(f"the context is a {type(context).__name__}")
    return context


def bad_request(message: str) -> GraphQLError:
    """Return the error for an argument that cannot be used; the field it was given to is null."""
    return GraphQLError(message, extensions={"code": 400, "type": "BAD_REQUEST"})


def parts_of(urn: str) -> tuple[str, ...]:
    """Return the parts of a URN that a client gave.

    Raises:
        GraphQLError: it is no URN.
    """
    try:
        return raw_parts(urn)
    except InvalidUrnError as error:
        raise bad_request(str(error)) from error


def page_of(inputs: Mapping[str, Any], default_count: int, limits: Limits) -> tuple[int, int]:
    """Return `start` and `count` of an input; a count above the page limit is cut to it."""
    start = inputs.get("start")
    count = inputs.get("count")
    start = 0 if start is None else start
    count = default_count if count is None else count
    if start < 0 or count < 0:
        raise bad_request("start and count cannot be negative")
    return start, min(count, limits.page_size)


def nodes_in(info: GraphQLResolveInfo, urns: Iterable[str]) -> dict[str, Node]:
    """Return the entities `urns`, one cohort, by URN, without those that `node_of` has none of."""
    distinct = list(dict.fromkeys(urns))
    cohort = Cohort(context_of(info).loader, distinct)
    return {urn: node for urn in distinct if (node := node_of(urn, cohort)) is not None}


def selected_fields(info: GraphQLResolveInfo) -> Iterator[str]:
    """Yield the names of all fields that are selected below the one that is being resolved."""
    pending = [node.selection_set for node in info.field_nodes]
    while pending:
        selected = pending.pop()
        for selection in selected.selections if selected else ():
            if isinstance(selection, FragmentSpreadNode):
                pending.append(info.fragments[selection.name.value].selection_set)
            elif isinstance(selection, FieldNode | InlineFragmentNode):
                pending.append(selection.selection_set)
            if isinstance(selection, FieldNode):
                yield selection.name.value


def plain(source: Any, info: GraphQLResolveInfo, **_arguments: Any) -> Any:
    """Return the field of a record by its own name; objects inside become records."""
    name = info.field_name
    if isinstance(source, dict):
        return source.get(name)
    return _inside(source, name)


def stored_as(name: str) -> Resolver:
    """Return the resolver of a field of a record that is stored under another name."""
    return lambda record, _info: _inside(record, name)


def _inside(record: Record, name: str) -> Any:
    value = record.value.get(name)
    if isinstance(value, dict):
        return Record(record.node, value)
    if isinstance(value, list):
        return [Record(record.node, item) if isinstance(item, dict) else item for item in value]
    return value


def texts(items: Any) -> list[str]:
    """Return the texts in `items`, which is usually a list of URNs."""
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []


def objects(items: Any) -> list[dict[str, Any]]:
    """Return the JSON objects in `items`, which is usually a list of records."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def pick_field(field: str) -> Pick:
    """Return what picks the URNs of `field`, which holds one or a list of them."""

    def pick(value: Mapping[str, Any]) -> list[str]:
        urns = value.get(field)
        return texts(urns if isinstance(urns, list) else [urns])

    return pick


def _pick_from_lists(lists: Iterable[str], field: str) -> Pick:
    """Return what picks the URNs that `field` of each record in any of the `lists` holds."""
    names = tuple(lists)

    def pick(value: Mapping[str, Any]) -> list[str]:
        return texts([item.get(field) for name in names for item in objects(value.get(name))])

    return pick


def aspect(name: str) -> Resolver:
    """Return the resolver of a whole aspect as a record."""
    return lambda node, _info: node.record(name)


def record_entity(name: str, field: str) -> Resolver:
    """Return the resolver of the entity that `field` of an aspect names, the first of a list."""
    pick = pick_field(field)

    def resolve(record: Record, _info: GraphQLResolveInfo) -> Node | None:
        nodes = record.node.references(name, field, pick, list(pick(record.value))[:1])
        return nodes[0] if nodes else None

    return resolve


def aspect_entity(name: str, field: str) -> Resolver:
    """Return the resolver, for an entity, of what `record_entity` gives for one of its aspects."""
    named = record_entity(name, field)

    def resolve(node: Node, info: GraphQLResolveInfo) -> Any:
        record = node.record(name)
        return None if record is None else named(record, info)

    return resolve


def entry_entity(name: str, field: str, *lists: str) -> Resolver:
    """Return the resolver of the entity that `field` of an entry of a list of an aspect names."""
    pick = _pick_from_lists(lists, field)

    def resolve(record: Record, _info: GraphQLResolveInfo) -> Node | None:
        urn = record.value.get(field)
        if not isinstance(urn, str):
            return None
        nodes = record.node.references(name, field, pick, [urn])
        return nodes[0] if nodes else None

    return resolve


def record_list(field: str) -> Resolver:
    """Return the resolver of a list of records; where it is unset, an empty one."""
    return lambda record, _info: [
        Record(record.node, item) for item in objects(record.value.get(field))
    ]


def associated_urn(record: Record, _info: GraphQLResolveInfo) -> str:
    """Return the URN of the entity that the record is part of."""
    return record.node.urn


def part(index: int) -> Resolver:
    """Return the resolver that gives a part of the URN verbatim."""
    return lambda node, _info: node.part(index)
