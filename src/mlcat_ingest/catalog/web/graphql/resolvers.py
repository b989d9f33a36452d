"""Entities of one request, how they are loaded in batches, and the resolvers of plain fields.

graphql-core resolves depth first: all of one model before the next one begins. Loading per entity
would make a query over a thousand models a thousand statements. So entities that were found side
by side form a cohort, and the loader reads for all of it what one of them needs. The groups of all
models of a cohort form a cohort again, and so on: a query costs a few statements a level, not an
entity.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from graphql import (
    FieldNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLResolveInfo,
    GraphQLUnionType,
    InlineFragmentNode,
    get_named_type,
    is_list_type,
)

from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.schema.values import AspectVersion, EdgeQuery, RelatedPage
from mlcat_ingest.catalog.store.graph import LineageQuery, lineage
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.registry import ENTITY_TYPES as _ALL
from mlcat_ingest.metadata.registry import EntityType
from mlcat_ingest.metadata.urn import entity_type_of, raw_parts

NEIGHBOURS: Final = 1_000
"""Most entities that are loaded at once: a query that is stopped has not read much in vain."""

EDGES_AT_ONCE: Final = 100_000
"""Most edges that are read at once."""


Place = tuple[str, ...]
"""The name of an aspect, and those of the fields that lead to a value in it, through lists too."""

Aspects = Mapping[str, AspectVersion]
"""The stored aspects of one entity, by name."""

Members = Sequence[str] | Callable[[], Iterable[str]]

_NOTHING: Final[Aspects] = {}


_EXISTENCE: Final = ""
"""The name of no aspect, of which is loaded whether the entities exist."""


class Loader:
    """The stored aspects that one request has read so far.

    Cost: one store call a `load`, none for what was read before.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._loaded: dict[str | None, dict[str, Aspects]] = {None: {}}
        self._exist: dict[str, bool] = {}

    def load(self, urns: Collection[str], aspect: str | None) -> None:
        """Load an aspect, or with None every one, of those of `urns` of which it is not loaded."""
        if missing := [urn for urn in urns if not self.holds(urn, aspect)]:
            stored = self.store.get_many(missing, None if aspect is None else {aspect})
            self._exist.update((urn, urn in stored) for urn in missing)
            found = {urn: stored.get(urn, _NOTHING) for urn in missing}
            self._loaded.setdefault(aspect, {}).update(found)

    def holds(self, urn: str, aspect: str | None) -> bool:
        """Return whether `aspect` of `urn` was loaded, be it stored or not."""
        if aspect == _EXISTENCE:
            return urn in self._exist
        return urn in self._loaded[None] or urn in self._loaded.get(aspect, _NOTHING)

    def exists(self, urn: str) -> bool:
        """Return whether `urn` exists, of which something was loaded before."""
        return self._exist[urn]

    def aspects(self, urn: str) -> Aspects:
        """Return all loaded aspects of `urn`, of which all were asked for before."""
        return self._loaded[None].get(urn, _NOTHING)

    def aspect(self, urn: str, name: str) -> AspectVersion | None:
        """Return an aspect of `urn` if it is stored and was loaded."""
        whole = self._loaded[None]
        return (whole if urn in whole else self._loaded.get(name, {})).get(urn, _NOTHING).get(name)


class Cohort:
    """Entities that were found side by side and are loaded together."""

    __slots__ = ("_children", "_members", "_pages", "_places", "_requested", "loader")

    def __init__(self, loader: Loader, members: Members) -> None:
        """Make a cohort of `members`, URNs or a function that finds them when they are needed."""
        self.loader = loader
        self._members = members
        self._places: dict[str, int] | None = None
        self._requested: set[str] = set()
        self._children: dict[Place, Cohort] = {}
        self._pages: dict[EdgeQuery | LineageQuery, dict[str, RelatedPage]] = {}

    def child(self, place: Place) -> "Cohort":
        """Return the cohort of what all members together refer to at a place."""
        if place not in self._children:
            self._children[place] = Cohort(self.loader, lambda: self._referenced_urns(place))
        return self._children[place]

    def members(self) -> Sequence[str]:
        """Return the URNs of the cohort, each once."""
        if callable(self._members):
            self._members = list(dict.fromkeys(self._members()))
        return self._members

    def _referenced_urns(self, place: Place) -> Iterable[str]:
        for urn in self.members():
            if (stored := self.aspect(urn, place[0])) is not None:
                yield from _texts_at(stored.value, place[1:])

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
            is_alone = len(self._requested) == 1 and len(neighbours) > 1
            loader.load(neighbours, aspect if is_alone else None)
        return loader.aspect(urn, aspect)

    def aspects(self, urn: str) -> Aspects:
        """Return all aspects of one of the members, loading its neighbours if need be."""
        self.loader.load(self._neighbours(urn), None)
        return self.loader.aspects(urn)

    def exists(self, urn: str) -> bool:
        """Return whether one of the members exists, finding out for its neighbours if need be."""
        if not self.loader.holds(urn, _EXISTENCE):
            self.loader.load(self._neighbours(urn), _EXISTENCE)
        return self.loader.exists(urn)

    def page(self, urn: str, query: EdgeQuery | LineageQuery) -> RelatedPage:
        """Return a page of the edges of one of the members, and read its neighbours' with it."""
        pages = self._pages.setdefault(query, {})
        if urn not in pages:
            at_once = min(NEIGHBOURS, max(1, EDGES_AT_ONCE // max(query.count, 1)))
            store, urns = self.loader.store, self._neighbours(urn, at_once)
            if isinstance(query, LineageQuery):
                pages.update(store.read(lineage, urns, query))
            else:
                pages.update(store.related_entities(urns, query))
        return pages[urn]


def _texts_at(value: object, path: Sequence[str]) -> Iterator[str]:
    """Yield the texts at `path` in a value; of a list those in each entry."""
    if isinstance(value, list):
        for item in value:
            yield from _texts_at(item, path)
    elif path and isinstance(value, dict):
        yield from _texts_at(value.get(path[0]), path[1:])
    elif not path and isinstance(value, str):
        yield value


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
        """Return a stored aspect as a record, or None; an empty name is that of the properties."""
        name = self.kind.properties if name == "" else name
        value = self.aspect(name)
        return Record(self, value, (name,)) if name and value is not None else None


class Record:
    """A JSON object at a place in an aspect of `node`; its fields are read by their own names.

    One that is not stored has no place.
    """

    __slots__ = ("node", "place", "value")

    def __init__(self, node: Node, value: Mapping[str, Any], place: Place = ()) -> None:
        self.node = node
        self.value = value
        self.place = place

    def record(self, name: str) -> "Record | None":
        """Return the object in a field as a record, or None."""
        value = self.value.get(name)
        return Record(self.node, value, (*self.place, name)) if isinstance(value, dict) else None

    def records(self, name: str) -> "list[Record]":
        """Return the objects of a list as records; where it is unset there are none."""
        place = (*self.place, name)
        return [Record(self.node, item, place) for item in objects(self.value.get(name))]

    def entities(self, name: str) -> list[Node]:
        """Return the entities whose URNs a field holds, one or a list, in stored order.

        They are a cohort with those that the same field of the node's neighbours refers to.
        """
        value = self.value.get(name)
        cohort = self.node.cohort.child((*self.place, name))
        urns = texts(value if isinstance(value, list) else [value])
        return [node for urn in urns if (node := node_of(urn, cohort)) is not None]


def node_of(urn: str, cohort: Cohort) -> Node | None:
    """Return the entity `urn`, one of `cohort`; None where it is no URN, or of no type here."""
    try:
        kind = KINDS.get(entity_type_of(urn))
    except InvalidUrnError:
        return None
    return None if kind is None else Node(urn, kind, cohort)


Resolver = Callable[..., Any]
"""Takes the parent value, the resolve info and the field's arguments; returns the field's value."""

Fields = Mapping[str, Resolver | str | int]
"""The fields of one object type: their resolvers, or where they are stored.

That is the name of another field of the record, or the path to it in dots, which begins with the
aspect if it leads from an entity: `.title` is in its properties. A number is a part of the URN.
"""


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
    context: Context = info.context
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


def stored_at(path: str, wanted: GraphQLOutputType) -> Resolver:
    """Return the resolver of what is stored at `path`, the URNs of entities if they are `wanted`.

    What other resolvers made has it by that name.
    """
    *steps, last = path.split(".")
    read = _reader(wanted)

    def resolve(source: Any, _info: GraphQLResolveInfo) -> Any:
        if isinstance(source, dict):
            return source.get(last)
        for step in steps:
            source = source and source.record(step)
        return source and read(source, last)

    return resolve


def _reader(wanted: GraphQLOutputType) -> Callable[[Any, str], Any]:
    """Return what reads a field of a record, or an aspect of an entity, as a type says."""
    nullable = wanted.of_type if isinstance(wanted, GraphQLNonNull) else wanted
    named, is_list = get_named_type(wanted), is_list_type(nullable)
    unset: list[Node] | None = None if nullable is wanted else []
    if is_entity(named) and is_list:
        return lambda one, name: (
            one.entities(name) if isinstance(one.value.get(name), list) else unset
        )
    if is_entity(named):
        return lambda one, name: next(iter(one.entities(name)), None)
    if isinstance(named, GraphQLObjectType):
        return Record.records if is_list else lambda one, name: one.record(name)
    return _inside


def is_entity(named: GraphQLNamedType) -> bool:
    """Return whether values of a type are entities."""
    if isinstance(named, GraphQLUnionType):
        return all(map(is_entity, named.types))
    if isinstance(named, GraphQLObjectType):
        return any(interface.name == "Entity" for interface in named.interfaces)
    return isinstance(named, GraphQLInterfaceType) and named.name == "Entity"


def _inside(record: Record, name: str) -> Any:
    value = record.value.get(name)
    if isinstance(value, dict):
        return record.record(name)
    if isinstance(value, list):
        node, place = record.node, (*record.place, name)
        return [Record(node, item, place) if isinstance(item, dict) else item for item in value]
    return value


def texts(items: Any) -> list[str]:
    """Return the texts in `items`, which is usually a list of URNs."""
    return [item for item in items if isinstance(item, str)] if isinstance(items, list) else []


def objects(items: Any) -> list[dict[str, Any]]:
    """Return the JSON objects in `items`, which is usually a list of records."""
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def associated_urn(record: Record, _info: GraphQLResolveInfo) -> str:
    """Return the URN of the entity that the record is part of."""
    return record.node.urn
