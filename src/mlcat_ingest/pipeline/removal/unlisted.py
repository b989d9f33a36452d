"""Which live entities of a part a pass did not come upon, as the catalog's search and state know.

A search alone proves nothing: the index of a DataHub server lags behind its writes, drops documents
with a text that is too long, and shows a token only what it may view.
"""

import logging
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog, StoredEntity
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS, SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge import properties_aspect
from mlcat_ingest.pipeline.merge.base import read_bases
from mlcat_ingest.pipeline.merge.sources import custom_properties
from mlcat_ingest.pipeline.read.primary_keys import PrimaryKeys
from mlcat_ingest.pipeline.state.memory import PartitionPass
from mlcat_ingest.pipeline.state.tracker import Tracker
from mlcat_ingest.sources.base import Unlisted

log = logging.getLogger(__name__)

_DRAWERS: Final = 256


class Listed:
    """The entities that a pass came upon: 8 bytes each, so that many fit into memory.

    Two URNs of one hash are taken for one: with a million, once in 36,000 passes, an entity that is
    gone stays until the next process looks.
    """

    def __init__(self, urns: Iterable[str]) -> None:
        """Take `urns`, each once or more; they are not held."""
        self._drawers = [array("q") for _ in range(_DRAWERS)]
        for urn in urns:
            self._drawer(number := hash(urn)).append(number)
        # Sorting makes objects of numbers, so it is done with a few at a time.
        self._drawers = [array("q", sorted(drawer)) for drawer in self._drawers]

    def _drawer(self, number: int) -> "array[int]":
        return self._drawers[number % _DRAWERS]

    def __contains__(self, urn: str) -> bool:
        """Return whether the pass came upon `urn`."""
        wanted = hash(urn)
        drawer = self._drawer(wanted)
        at = bisect_left(drawer, wanted)
        return at < len(drawer) and drawer[at] == wanted


class Candidates:
    """Finds what is to be asked after, of one recipe in one catalog."""

    def __init__(self, sink: Catalog, tracker: Tracker, writer: str, keys: PrimaryKeys) -> None:
        """Contact nothing yet."""
        self._sink = sink
        self._tracker = tracker
        self._writer = writer
        self._keys = keys

    def total(self, part: PartitionPass) -> int:
        """Return how many live entities of the part there are, as far as is known.

        Cost: one request an entity type, and a statement.
        """
        try:
            found = sum(
                self._sink.search.owned(each, part.source).total for each in self._types(part)
            )
        except CANNOT_ANSWER:
            found = 0
        return max(found, self._tracker.records(part))

    def after_full(self, part: PartitionPass, waiting: Sequence[str]) -> Iterator[list[Unlisted]]:
        """Yield what the catalog holds of the part and a full pass did not list.

        What is `waiting` to be removed is known already.

        Cost: one request an entity type where nothing is unlisted; else one for each 1,000 that
        the catalog holds and one for each batch unlisted.
        """
        listed = Listed(chain(self._tracker.listed(part), waiting))
        known = chain(
            self._tracker.unlisted(part), self._tracker.renamed(part), self._tracker.absent(part)
        )
        urns = chain(self._found(part), known)
        yield from self.read(part, (urn for urn in urns if urn not in listed))

    def _found(self, part: PartitionPass) -> Iterator[str]:
        try:
            for entity_type in self._types(part):
                for page in self._sink.search.owned(entity_type, part.source).pages:
                    yield from page
        except CANNOT_ANSWER as error:
            log.info("the catalog cannot be searched, so state has to do: %s", error)

    def _types(self, part: PartitionPass) -> list[str]:
        return [one for one in part.entity_types if one not in self._keys.refused]

    def read(self, part: PartitionPass, urns: Iterable[str]) -> Iterator[list[Unlisted]]:
        """Yield those of `urns` that are live, and nobody else's, with what stands on them."""
        left = iter(dict.fromkeys(urns))
        while some := list(islice(left, MAX_REQUEST_ITEMS)):
            by_type: dict[str, list[str]] = {}
            for urn in some:
                by_type.setdefault(entity_type_of(urn), []).append(urn)
            for entity_type, members in by_type.items():
                home = properties_aspect(entity_type)
                if home is None:
                    continue
                stored = self._sink.read_many(members, [home, STATUS])
                yield [
                    Unlisted(urn, stored[urn][home].value)
                    for urn in members
                    if home in stored.get(urn, ()) and self._is_ours(part, stored[urn], home)
                ]

    def _is_ours(self, part: PartitionPass, stored: StoredEntity, home: str) -> bool:
        status = stored.get(STATUS)
        if status is not None and status.value.get("removed"):
            return False
        properties = custom_properties(stored[home].value)
        if properties.get(SOURCE_KEY) != part.source:
            return False  # another source has it too, or alone
        bases = read_bases(properties, self._writer)
        return bases.ours is not None or not bases.others
