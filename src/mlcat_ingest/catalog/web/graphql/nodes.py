"""Entities of one request, the records inside their aspects, and how they are loaded in batches.

graphql-core resolves depth first: all of one model before the next one begins. Loading per entity
would make a query over a thousand models a thousand statements. So entities that were found side
by side form a cohort, and the loader reads for all of it what one of them needs. The groups of all
models of a cohort form a cohort again, and so on: a query costs a few statements a level, not an
entity.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

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
    """Return the entity `urn`, one of `cohort`, or None where it is no URN."""
    try:
        return Node(urn, kind_of(entity_type_of(urn)), cohort)
    except InvalidUrnError:
        return None
