"""Live entities of a partition that a pass did not list, as the catalog's search and state know.

A search alone proves nothing: the index of a DataHub server lags behind its writes, drops documents
with a text that is too long, and shows a token only what it may view.
"""

import logging
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from mlcat_ingest.client.base import CANNOT_ANSWER, StoredEntity
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS, SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.applied import read_bases
from mlcat_ingest.pipeline.merge.provenance import custom_properties, is_removed, stored_properties
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.read.feature_tables import PrimaryKeys
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.sources.base import Unlisted

log = logging.getLogger(__name__)

_BUCKETS: Final = 256


class ListedUrns:
    """The URNs that a pass listed: 8 bytes each, so that many fit into memory.

    Two URNs of one hash are taken for one: with a million, once in 36,000 passes, an entity that is
    gone stays until the next process looks.
    """

    def __init__(self, urns: Iterable[str]) -> None:
        """Take `urns`, each once or more; they are not held."""
        self._buckets = [array("q") for _ in range(_BUCKETS)]
        for urn in urns:
            self._bucket(number := hash(urn)).append(number)
        # Sorting makes objects of numbers, so it is done with a few at a time.
        self._buckets = [array("q", sorted(bucket)) for bucket in self._buckets]

    def _bucket(self, number: int) -> "array[int]":
        return self._buckets[number % _BUCKETS]

    def __contains__(self, urn: str) -> bool:
        """Return whether the pass listed `urn`."""
        number = hash(urn)
        bucket = self._bucket(number)
        at = bisect_left(bucket, number)
        return at < len(bucket) and bucket[at] == number


class UnlistedEntities:
    """Lists the live entities of one recipe in one catalog that a pass did not list."""

    def __init__(self, context: RunContext, writer: str, keys: PrimaryKeys) -> None:
        """Search the catalog for entities with a base of `writer`."""
        self._context = context
        self._writer = writer
        self._keys = keys

    def total(self, part: PartitionPass) -> int:
        """Return how many live entities of the partition there are, as far as is known.

        Cost: one request an entity type, and a statement.
        """
        try:
            listed = sum(
                self._context.sink.search.entities_of_source(entity_type, part.source).total
                for entity_type in self._types(part)
            )
        except CANNOT_ANSWER:
            listed = 0
        return max(listed, self._context.tracker.entities.record_count(part))

    def after_full(self, part: PartitionPass, waiting: Sequence[str]) -> Iterator[list[Unlisted]]:
        """Yield the entities of the partition in the catalog that a full pass did not list.

        Entities that are `waiting` to be removed are known already.

        Cost: one request an entity type where nothing is unlisted; else one for each 1,000 that
        the catalog holds and one for each batch unlisted.
        """
        known = self._context.tracker.entities
        listed = ListedUrns(chain(known.listed_urns(part), waiting))
        urns = chain(
            self._search(part),
            known.unlisted_urns(part),
            known.renamed_urns(part),
            known.absent_urns(part),
        )
        yield from self.read(part, (urn for urn in urns if urn not in listed))

    def _search(self, part: PartitionPass) -> Iterator[str]:
        try:
            for entity_type in self._types(part):
                listing = self._context.sink.search.entities_of_source(entity_type, part.source)
                for page in listing.pages:
                    yield from page
        except CANNOT_ANSWER as error:
            log.info(
                "the catalog cannot be searched, so only entities in the state count: %s", error
            )

    def _types(self, part: PartitionPass) -> list[str]:
        return [
            entity_type
            for entity_type in part.entity_types
            if entity_type not in self._keys.refused
        ]

    def read(self, part: PartitionPass, urns: Iterable[str]) -> Iterator[list[Unlisted]]:
        """Yield the live entities of `urns` that only this source has, with their properties."""
        left = iter(dict.fromkeys(urns))
        while batch := list(islice(left, MAX_REQUEST_ITEMS)):
            by_type: dict[str, list[str]] = {}
            for urn in batch:
                by_type.setdefault(entity_type_of(urn), []).append(urn)
            for entity_type, members in by_type.items():
                name = properties_aspect(entity_type)
                if name is None:
                    continue
                stored = self._context.sink.read_many(members, [name, STATUS])
                yield [
                    Unlisted(urn, properties)
                    for urn in members
                    if (properties := self._live_properties(part, urn, stored.get(urn, {})))
                ]

    def _live_properties(
        self, part: PartitionPass, urn: str, stored: StoredEntity
    ) -> Aspect | None:
        """Return the properties of a live entity of ours, None for any other."""
        properties = stored_properties(urn, stored)
        if properties is None or is_removed(stored):
            return None
        custom = custom_properties(properties)
        if custom.get(SOURCE_KEY) != part.source:
            return None  # another source has it too, or alone
        bases = read_bases(custom, self._writer)
        return properties if bases.ours is not None or not bases.others else None
