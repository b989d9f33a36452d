"""Stored entities that a search of the catalog does not find: found out, and written again.

A DataHub server queues the changes of its search index after it has stored them. If it is killed in
between, or loses its queue, entities are stored and in no search until they are written again, with
equal values too.
"""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Final

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog, StoredEntity, numbers_in
from mlcat_ingest.client.rest.search import SEARCHABLE
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.core.resources import Closing, map_ahead
from mlcat_ingest.core.text import plural
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.proposal import Entity, custom_properties
from mlcat_ingest.metadata.registry import allows, key_aspect_name
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS, SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.applied import NOTHING, read_bases
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.provenance import custom_of, is_removed
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.write.conflicts import COPIED, PermittedReads, write_again
from mlcat_ingest.pipeline.write.delivery import MakeDelivery

log = logging.getLogger(__name__)

SHOWN: Final = 20
"""Entities that are named where a search does not find them."""

PAUSES_S: Final = (3.0, 3.0, 6.0, 12.0, 24.0)
"""Seconds between two searches of an index that may be behind: it moves in bursts."""

RECENT_S: Final = 300.0
"""Seconds after its write for which an entity counts as on its way into such an index."""


class UrnList:
    """A set of URNs in a temporary file that ends with the process; for one thread at a time."""

    def __init__(self) -> None:
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.executescript("CREATE TABLE urn (urn TEXT PRIMARY KEY, type TEXT); BEGIN;")

    def add(self, urns: Iterable[str]) -> None:
        """Add URNs; those that are there already stay as they are."""
        self._db.executemany(
            "INSERT OR IGNORE INTO urn VALUES (?, ?)", ((urn, entity_type_of(urn)) for urn in urns)
        )

    def discard(self, urns: Iterable[str]) -> None:
        """Drop those of `urns` that are there."""
        self._db.executemany("DELETE FROM urn WHERE urn = ?", [(urn,) for urn in urns])

    def __len__(self) -> int:
        (count,) = self._db.execute("SELECT count(*) FROM urn").fetchone()
        return int(count)

    def __iter__(self) -> Iterator[str]:
        """Yield them by type; nothing may be added or dropped meanwhile."""
        for (urn,) in self._db.execute("SELECT urn FROM urn ORDER BY type, urn"):
            yield urn

    def close(self) -> None:
        """Delete the file; safe to call twice."""
        self._db.close()


def in_chunks(urns: Iterable[str]) -> Iterator[Sequence[str]]:
    """Yield `urns`, which come by type, in chunks of one type."""
    for _, urns_of_type in groupby(urns, entity_type_of):
        yield from chunks(urns_of_type, MAX_REQUEST_ITEMS)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The stored entities that a search of the catalog lists, `found` of `stored`.

    Of the others, `recent` ones were written a moment ago, and the index may be behind. `lacking`
    names the first of the rest. `problem` says why the catalog was not searched.
    """

    stored: int = 0
    found: int = 0
    recent: int = 0
    lacking: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def not_searchable(self) -> int | None:
        """How many are stored and will not be found, None where that is not known."""
        return None if self.problem is not None else self.stored - self.found - self.recent


class LiveEntities(Closing):
    """The stored entities that are live, as they were read by name; safe for several threads."""

    def __init__(self) -> None:
        self.urns = UrnList()
        self._lock = threading.Lock()
        self._places: set[tuple[str, str]] = set()

    def add(self, stored: Mapping[str, StoredEntity], source: str | None = None) -> None:
        """Add those of the entities read that are live, and are of `source` or name theirs."""
        live: list[str] = []
        for urn, entity in stored.items():
            named = source or custom_of(urn, entity).get(SOURCE_KEY)
            entity_type = entity_type_of(urn)
            if isinstance(named, str) and entity_type in SEARCHABLE and not is_removed(entity):
                live.append(urn)
                self._places.add((entity_type, named.partition(",")[0]))
        with self._lock:
            self.urns.add(live)

    def search(self, catalog: Catalog, pause: Callable[[float], object]) -> SearchResult:
        """Keep those that a search does not list, and return how many that are.

        An index that may be behind is searched for a minute, and what was written recently counts
        as on its way.

        Cost: a request for each 1,000 of a type that the catalog lists, and as many for each
        further search.
        """
        stored, recent = len(self.urns), 0
        is_current = catalog.facts.index == "current"
        try:
            self._discard_found(catalog)
            for pause_s in () if is_current else PAUSES_S:
                if not len(self.urns):
                    break
                pause(pause_s)
                self._discard_found(catalog)
        except CANNOT_ANSWER as error:
            return SearchResult(stored, problem=f"the catalog cannot be searched: {error}")
        found = stored - len(self.urns)
        for urns in [] if is_current else [*self._recent(catalog)]:
            recent += len(urns)
            self.urns.discard(urns)
        return SearchResult(stored, found, recent, tuple(islice(self.urns, SHOWN)))

    def _discard_found(self, catalog: Catalog) -> None:
        for entity_type, source in sorted(self._places) if len(self.urns) else ():
            for page in catalog.search.entities_of_source(entity_type, source).pages:
                self.urns.discard(page)

    def _recent(self, catalog: Catalog) -> Iterator[Sequence[str]]:
        for urns in in_chunks(self.urns):
            name = properties_aspect(entity_type_of(urns[0]))
            stamps = catalog.read_stamps(urns, [name])
            yield [urn for urn, of_urn in stamps.items() if _is_recent(of_urn.get(name))]

    def close(self) -> None:
        """Delete the list; safe to call twice."""
        self.urns.close()


class IndexRepair:
    """Writes again what a full pass listed, is stored, and no search finds."""

    def __init__(self, context: RunContext, make_delivery: MakeDelivery) -> None:
        """Read from the catalog, and write with a delivery of its own."""
        self._context = context
        self._delivery = make_delivery(context, _merge_nothing)

    def repair(self, unfound: Iterable[str], source: str) -> None:
        """Write those of `unfound` again that are stored and live, if a search lacks them for good.

        They are of `source`, so that the read of them, which after a first ingest is of all that
        it wrote, leaves their properties out: a seventeenth of the CPU of such a run. What was
        created recently is on its way into an index that may be behind; no run waits for it.

        Cost: where there are none, nothing; else a read of keys for each batch of them, as many at
        once as there are connections, the searches of `LiveEntities.search`, and a read and a write
        for each batch that is written.
        """
        sink = self._context.sink
        is_current = sink.facts.index == "current"
        with closing(UrnList()) as urns, LiveEntities() as live:
            urns.add(unfound)
            reads = PermittedReads(sink, self._context.state)

            def settled(chunk: Sequence[str]) -> Mapping[str, StoredEntity]:
                key = key_aspect_name(entity_type_of(chunk[0]))
                stored, _ = reads.read([Entity(urn, {}) for urn in chunk], (key, STATUS))
                return {
                    urn: one
                    for urn, one in stored.items()
                    if is_current or key not in one or not _is_recent(one[key].stamp)
                }

            for part in map_ahead(settled, in_chunks(urns), sink.facts.connections):
                live.add(part, source)
            if not len(live.urns):
                return
            result = live.search(sink, self._context.cancellation.pause)
            if result.problem is not None or not result.not_searchable:
                log.info("%s", result.problem or "the search index of the catalog is behind")
                return
            count = plural(result.not_searchable, "entity", "entities")
            detail = f"{count} stored and not found by a search, such as {result.lacking[0]}"
            self._context.ledger.note("written_again", detail)
            for chunk in in_chunks(live.urns):
                self._write(chunk)

    def _write(self, urns: Sequence[str]) -> None:
        entity_type = entity_type_of(urns[0])
        main_aspect = properties_aspect(entity_type)
        names = {main_aspect, STATUS, *(name for name in COPIED if allows(entity_type, name))}
        for stored in self._context.sink.read_many(urns, [main_aspect]).values():
            names |= read_bases(custom_properties(stored[main_aspect].value), None).joined.keys()
        rewrites = [
            write_again(_merge_nothing(Entity(urn, {}), stored))
            for urn, stored in self._context.sink.read_many(urns, names).items()
            if not is_removed(stored)
        ]
        # They were listed in this pass, and so count already.
        refused = [one for one in self._delivery.deliver(rewrites) if one.refusals]
        self._context.ledger.report(refused)


def _is_recent(stamp: str | None) -> bool:
    return numbers_in(stamp)[1] > (time.time() - RECENT_S) * 1000


def _merge_nothing(entity: Entity, stored: StoredEntity | None) -> MergedEntity:
    return MergedEntity(entity, stored or NOTHING, "unchanged")
