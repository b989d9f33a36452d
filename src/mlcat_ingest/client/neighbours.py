"""Reading entities and their neighbours for the evaluation of metadata tests.

An aspect that the catalog will not give is None in place of its value; see `FetchAspects`.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mlcat_ingest.client.base import CANNOT_ANSWER, Reads, StoredAspect
from mlcat_ingest.errors import CatalogRequestError, CatalogUnavailableError, InvalidUrnError
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.registry import DECLARED, allows, key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of

CACHED_ASPECTS: Final = 2_000
"""Aspects of neighbours that are kept, those that were not found among them."""
WRITTEN_ENTRIES: Final = 20_000
"""Entries of entities that are kept until these are evaluated: those of two batches of writes."""


@dataclass(frozen=True, slots=True)
class ReadAspect:
    """An aspect that was read, and its version; when it was stored is not known."""

    value: Aspect
    version: str | None = None
    created_ms: int = 0
    modified_ms: int = 0
    system_metadata: Mapping[str, Any] = field(default_factory=dict)


Aspects = dict[str, dict[str, ReadAspect | None]]
"""Aspects by URN and name; None for one that cannot be read."""


class NeighbourCache:
    """Reads aspects of neighbours and keeps the last ones. Safe to use from several threads."""

    def __init__(self, catalog: Reads, size: int = CACHED_ASPECTS) -> None:
        """Read from `catalog`, and keep `size` aspects."""
        self._catalog = catalog
        self._size = size
        self._lock = threading.Lock()
        # An aspect that the entity does not have is kept as an empty mapping.
        self._kept: OrderedDict[tuple[str, str], Mapping[str, ReadAspect | None]] = OrderedDict()

    def read(self, urns: Collection[str], names: Collection[str]) -> Aspects:
        """Return the aspects `names` of `urns`; one that an entity does not have is left out.

        Cost: one request for 200 entities of a type that lack one in the cache.
        """
        found: Aspects = {urn: {} for urn in urns}
        lacking: dict[str, None] = {}
        with self._lock:
            for urn in urns:
                for name in names:
                    kept = self._kept.get((urn, name))
                    if kept is None:
                        lacking[urn] = None
                    else:
                        found[urn].update(kept)
                        self._kept.move_to_end((urn, name))
        if lacking:
            fresh = read_aspects(self._catalog, lacking, names)
            with self._lock:
                for urn in lacking:
                    found[urn] = fresh.get(urn, {})
                    self._keep(urn, names, found[urn])
        return found

    def _keep(
        self, urn: str, names: Iterable[str], aspects: Mapping[str, ReadAspect | None]
    ) -> None:
        for name in names:
            self._kept[urn, name] = {name: aspects[name]} if name in aspects else {}
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)

    def forget(self, urns: Collection[str]) -> None:
        """Forget entities, which were written a moment ago."""
        gone = frozenset(urns)
        with self._lock:
            for key in [key for key in self._kept if key[0] in gone]:
                del self._kept[key]


WrittenEntity = Mapping[str, Aspect | None]
"""The aspects of an entity that are known from its last write; None for one that it lacks."""


class WrittenEntities:
    """Keeps entities from their write to their evaluation. Safe to use from several threads.

    Those beyond `WRITTEN_ENTRIES` entries in lists and maps are not kept, and so are read.
    """

    def __init__(self) -> None:
        """Keep nothing yet."""
        self._lock = threading.Lock()
        self._kept: dict[str, WrittenEntity] = {}
        self._entries = 0

    def put(self, urn: str, aspects: WrittenEntity) -> None:
        """Keep an entity as it was written last, if there is room."""
        entries = _entries_of(aspects)
        self.take([urn])
        with self._lock:
            if self._entries + entries <= WRITTEN_ENTRIES:
                self._entries += entries
                self._kept[urn] = aspects

    def take(self, urns: Iterable[str]) -> dict[str, WrittenEntity]:
        """Return those of `urns` that are kept, and keep them no longer."""
        with self._lock:
            taken = {urn: self._kept.pop(urn) for urn in set(urns) & self._kept.keys()}
            self._entries -= sum(map(_entries_of, taken.values()))
        return taken


def _entries_of(aspects: WrittenEntity) -> int:
    values = [value for one in aspects.values() if one for value in one.values()]
    return len(values) + sum(len(value) for value in values if isinstance(value, list | dict))


class EntityReader:
    """Reads the entities of a batch with the first `fetch`, and their neighbours with the others.

    If all of them were just written, only aspects that are not known from that are read.

    Attributes:
        entities: the aspects of the entities; one that the catalog does not have is left out.
    """

    def __init__(
        self,
        catalog: Reads,
        neighbours: NeighbourCache,
        extra: Sequence[str],
        written: Mapping[str, WrittenEntity],
    ) -> None:
        """Read the aspects `extra` of the entities too; `written` is known of them."""
        self._written = written
        self._catalog = catalog
        self._neighbours = neighbours
        self._extra = extra
        self._fetched = False
        self.entities: Aspects = {}

    def fetch(self, urns: Collection[str], names: Collection[str] | None) -> Aspects:
        """Return the aspects `names` of `urns`; see `FetchAspects`."""
        if self._fetched:
            return self._neighbours.read(urns, names or ())
        self._fetched = True
        wanted = {*(names or ()), *self._extra}
        if self._written.keys() >= set(urns):
            self.entities = self._read_unknown(urns, wanted)
            return self.entities
        found = read_aspects(self._catalog, urns, wanted, with_key=True)
        self.entities = {
            urn: aspects
            for urn, aspects in found.items()
            if key_aspect_name(entity_type_of(urn)) in aspects
        }
        return self.entities

    def _read_unknown(self, urns: Collection[str], wanted: Collection[str]) -> Aspects:
        unknown: dict[str, set[str]] = {}
        found: Aspects = {}
        for urn in urns:
            written = self._written[urn]
            found[urn] = {name: ReadAspect(one) for name, one in written.items() if one is not None}
            unknown.setdefault(entity_type_of(urn), set()).update(wanted - written.keys())
        for entity_type, names in unknown.items():
            some = [urn for urn in urns if entity_type_of(urn) == entity_type]
            for urn, aspects in read_aspects(self._catalog, some, names).items():
                found[urn].update(aspects)
        return found


def read_aspects(
    catalog: Reads, urns: Iterable[str], names: Collection[str], *, with_key: bool = False
) -> Aspects:
    """Return the aspects `names` of `urns`, by URN; aspects that an entity does not have are not.

    `with_key` reads the aspect that every entity has, too.

    Cost: one request for 200 entities of a type; a second one for aspects of other models than
    DataHub's; more where one is refused.
    """
    by_type: dict[str, list[str]] = {}
    for urn in urns:
        try:
            by_type.setdefault(entity_type_of(urn), []).append(urn)
        except InvalidUrnError:
            continue  # nothing is stored under it
    found: Aspects = {}
    for entity_type, some in by_type.items():
        known = {name for name in names if name in DECLARED and allows(entity_type, name)}
        if with_key:
            known.add(key_aspect_name(entity_type))
        custom = {name for name in names if name not in DECLARED}
        for asked in filter(None, (sorted(known), sorted(custom))):
            for urn, aspects in _read(catalog, some, asked).items():
                found.setdefault(urn, {}).update(aspects)
    return found


def _read(catalog: Reads, urns: Sequence[str], names: Sequence[str]) -> Aspects:
    """Read aspects in one call, refused ones in smaller calls, until what is at fault is alone."""
    try:
        stored = catalog.read_many(urns, names)
    except (*CANNOT_ANSWER, CatalogUnavailableError) as error:
        if isinstance(error, CatalogUnavailableError) and any(name in DECLARED for name in names):
            raise
        calls: list[tuple[Sequence[str], Sequence[str]]]
        if len(names) > 1:
            calls = [(urns, [name]) for name in names]
        elif len(urns) > 1 and isinstance(error, CatalogRequestError):
            middle = len(urns) // 2
            calls = [(urns[:middle], names), (urns[middle:], names)]
        else:
            return {urn: dict.fromkeys(names) for urn in urns}
        found: Aspects = {}
        for some, few in calls:
            for urn, aspects in _read(catalog, some, few).items():
                found.setdefault(urn, {}).update(aspects)
        return found
    return {urn: _read_aspects(aspects) for urn, aspects in stored.items()}


def _read_aspects(aspects: Mapping[str, StoredAspect]) -> dict[str, ReadAspect | None]:
    return {name: ReadAspect(one.value, one.version) for name, one in aspects.items()}
