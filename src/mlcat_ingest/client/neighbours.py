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


class EntityReader:
    """Reads the entities of a batch with the first `fetch`, and their neighbours with the others.

    Attributes:
        entities: the aspects of the entities; one that the catalog does not have is left out.
    """

    def __init__(self, catalog: Reads, neighbours: NeighbourCache, extra: Sequence[str]) -> None:
        """Read the aspects `extra` of the entities too."""
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
        found = read_aspects(self._catalog, urns, wanted, with_key=True)
        self.entities = {
            urn: aspects
            for urn, aspects in found.items()
            if key_aspect_name(entity_type_of(urn)) in aspects
        }
        return self.entities


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
