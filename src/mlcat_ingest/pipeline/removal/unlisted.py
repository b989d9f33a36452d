"""Entities of a partition that a pass did not list, as the catalog's search and state know.

They are live, or groups that were removed before what people put on them was copied.

A search alone proves nothing: the index of a DataHub server lags behind its writes, drops documents
with a text that is too long, and shows a token only what it may view.
"""

import logging
from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog, StoredEntity, numbers_in
from mlcat_ingest.client.rest.capabilities import NEW_TYPES
from mlcat_ingest.client.rest.search import SEARCHABLE
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import StateUnavailableError
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.identity import Writer, other_writer_note
from mlcat_ingest.metadata.proposal import Aspect, custom_properties
from mlcat_ingest.metadata.reserved import COPIED_TO, MAX_REQUEST_ITEMS, SOURCE_KEY
from mlcat_ingest.metadata.urn import by_entity_type, entity_type_of
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.applied import (
    NOTHING,
    applied_key,
    fingerprint,
    fingerprints_in,
    read_bases,
    writer_id_of,
)
from mlcat_ingest.pipeline.merge.provenance import is_removed, stored_properties
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.read.feature_tables import PrimaryKeys
from mlcat_ingest.pipeline.removal.rename import new_name
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.sources.base import NamedGroup, Unlisted

log = logging.getLogger(__name__)

_UNKNOWN_MS: Final = 2**63
"""What is not known to be older may have been written just now."""

_BUCKETS: Final = 256
_GROUP: Final = "mlModelGroup"
_CREATED: Final = "created"


class _ListedUrns:
    """The URNs that a pass listed: 8 bytes each, so that many fit into memory.

    Two URNs of one hash are taken for one: with a million, once in 36,000 passes, an entity that is
    gone stays until the next process looks.
    """

    def __init__(self, urns: Iterable[str] = ()) -> None:
        """Take `urns`, each once or more; they are not held."""
        self._buckets = [array("q") for _ in range(_BUCKETS)]
        for _ in self.taking(urns):
            pass

    def taking(self, urns: Iterable[str]) -> Iterator[str]:
        """Yield `urns`; once all are yielded, they are among those listed."""
        for urn in urns:
            self._buckets[(number := hash(urn)) % _BUCKETS].append(number)
            yield urn
        # Sorting makes objects of numbers, so it is done with a few at a time.
        self._buckets = [array("q", sorted(bucket)) for bucket in self._buckets]

    def __contains__(self, urn: object) -> bool:
        """Return whether the pass listed `urn`."""
        number = hash(urn)
        bucket = self._buckets[number % _BUCKETS]
        at = bisect_left(bucket, number)
        return at < len(bucket) and bucket[at] == number


def silent_writers(sink: Catalog, writer: Writer, since_ms: int) -> set[str]:
    """Return the ids of other writers of this name that have not written since `since_ms`.

    Raises:
        ProtocolMismatchError: the catalog cannot be searched.

    Cost: one request for each 1,000 entities that any recipe wrote, and one for each batch read.
    """
    written_ms: dict[str, int] = {}
    for entity_type in SEARCHABLE:
        name = properties_aspect(entity_type)
        for page in sink.search.entities_of_source(entity_type, None).pages:
            for stored in sink.read_many(page, [name]).values():
                custom = custom_properties(stored[name].value)
                base_id = writer_id_of(custom.get(applied_key(writer.name)))
                if base_id and not writer.is_own(base_id):
                    _, at_ms = numbers_in(stored[name].stamp)
                    written_ms[base_id] = max(at_ms or _UNKNOWN_MS, written_ms.get(base_id, 0))
    for base_id, at_ms in written_ms.items():
        done = "taken over" if at_ms < since_ms else "not taken over, for it wrote since"
        log.warning("writer id %s of %r: %s", base_id, writer.name, done)
    return {base_id for base_id, at_ms in written_ms.items() if at_ms < since_ms}


def _is_from(urn: str, custom: Mapping[str, object], source: str) -> bool:
    """Return whether an entity is of one source alone, as it says, or as the state knows."""
    known = entity_type_of(urn) in NEW_TYPES and SOURCE_KEY not in custom
    return known or custom.get(SOURCE_KEY) == source


class UnlistedEntities:
    """Lists the entities of one recipe in one catalog that a pass did not list.

    `shared` are those among them that carry another writer's base, too.
    """

    def __init__(self, context: RunContext, keys: PrimaryKeys) -> None:
        """Search the catalog for entities with a base of the writer."""
        self._context = context
        self._keys = keys
        self._found: dict[PartitionPass, _ListedUrns] = {}
        self.shared: set[str] = set()

    def total(self, part: PartitionPass) -> int:
        """Return how many live entities of the partition there are, as far as is known.

        Cost: one request an entity type, and a statement.
        """
        listed = self.count(part.key.source, self._types(part))
        return max(listed, self._context.state.entities.record_count(part))

    def count(self, source: str, entity_types: Sequence[str]) -> int:
        """Return how many live entities of a source there are, as far as the catalog knows."""
        search = self._context.sink.search
        try:
            return sum(search.entities_of_source(one, source).total for one in entity_types)
        except CANNOT_ANSWER:
            return 0

    def of_group(self, group: NamedGroup) -> Iterator[list[Unlisted]]:
        """Yield those of a group and its members that the catalog holds and a pass did not list.

        Cost: one request for each 1,000 members, and one for each batch unlisted.
        """
        members: list[str] = []
        try:
            for page in self._context.sink.search.members(group.urn):
                members += page
        except CANNOT_ANSWER as error:
            log.info("the members of %s cannot be listed: %s", group.urn, error)
        urns = (urn for urn in (*members, group.urn) if urn not in group.listed)
        yield from self._read(group.source, urns, group.listed)

    def after(
        self, part: PartitionPass, waiting: Sequence[str], *, new_groups: bool
    ) -> Iterator[list[Unlisted]]:
        """Yield the entities of the partition that the catalog holds and a pass did not list.

        A pass over changes knows only those whose records it read under another URN. Where there
        are `new_groups`, removed groups may be earlier names of these.
        Entities that are `waiting` to be removed are known already.

        Cost: one request an entity type, and one for removed groups, where nothing is unlisted;
        else one for each 1,000 that the catalog holds and one for each batch unlisted.
        """
        known = self._context.state.entities
        if not part.is_complete:
            removed = self._removed_groups(part) if new_groups else ()
            yield from self._read(part.key.source, chain(part.renamed, removed))
            return
        listed = _ListedUrns(chain(known.urns(part), waiting))
        self._found[part] = _ListedUrns()
        urns = chain(
            self._found[part].taking(self._search(part, self._types(part))),
            self._removed_groups(part),
            known.urns(part, listed=False),
            part.renamed,
            known.absent_urns(part),
            # A run that ended before it removed the former name of a group, or a tool of a server.
            chain(*map(known.with_base, NEW_TYPES.union([_GROUP]).intersection(part.entity_types))),
            # Stored perhaps, and in no search, nor in a record.
            known.earlier,
        )
        yield from self._read(part.key.source, (urn for urn in urns if urn not in listed), listed)

    def unfound(self, part: PartitionPass) -> Iterator[str]:
        """Yield the entities that a complete pass listed, and the search did not find.

        There are none without a state that knows what was listed, or if the search failed.
        """
        if (found := self._found.get(part)) is not None:
            types = frozenset(self._types(part))
            with suppress(StateUnavailableError):
                for urn in self._context.state.entities.urns(part, clean=True):
                    if urn not in found and entity_type_of(urn) in types:
                        yield urn

    def _removed_groups(self, part: PartitionPass) -> Iterator[str]:
        if _GROUP in part.entity_types:
            yield from self._search(part, [_GROUP], removed=True)

    def _search(
        self, part: PartitionPass, entity_types: Iterable[str], *, removed: bool = False
    ) -> Iterator[str]:
        try:
            search = self._context.sink.search
            for entity_type in entity_types:
                listing = search.entities_of_source(entity_type, part.key.source, removed=removed)
                for page in listing.pages:
                    yield from page
        except CANNOT_ANSWER as error:
            # What a search that broke off would have found, nobody knows.
            self._found.pop(part, None)
            log.info(
                "the catalog cannot be searched, so only entities in the state count: %s", error
            )

    def _types(self, part: PartitionPass) -> list[str]:
        return [
            entity_type
            for entity_type in part.entity_types
            if entity_type in SEARCHABLE and entity_type not in self._keys.refused
        ]

    def _read(
        self, source: str, urns: Iterable[str], listed: Container[str] = ()
    ) -> Iterator[list[Unlisted]]:
        """Yield the live entities of `urns` that only this source has, and the removed groups.

        With a group that was copied comes the one that it was copied to.
        """
        left, seen = dict.fromkeys(urns), set[str]()
        while left:
            seen.update(left)
            copies: dict[str, None] = {}
            for entity_type, members in by_entity_type(left).items():
                name = properties_aspect(entity_type)
                if not name:
                    continue
                for batch in chunks(members, MAX_REQUEST_ITEMS):
                    stored = self._context.sink.read_many(batch, [name, STATUS])
                    entities = {urn: stored[urn] for urn in batch if urn in stored}
                    copies.update(
                        (copy, None)
                        for urn, entity in entities.items()
                        if (copy := new_name(urn, entity)) is not None
                    )
                    yield list(self._unlisted(source, entities))
            left = {urn: None for urn in copies if urn not in seen and urn not in listed}

    def _unlisted(self, source: str, entities: Mapping[str, StoredEntity]) -> Iterator[Unlisted]:
        for urn, stored in entities.items():
            properties = stored_properties(urn, stored) or NOTHING
            custom = custom_properties(properties)
            if is_removed(stored):
                is_ours = source in str(custom.get(SOURCE_KEY)).split(",")
                if is_ours and entity_type_of(urn) == _GROUP and not custom.get(COPIED_TO):
                    yield Unlisted(urn, properties, removed=True)
            # Not one that another source has, too.
            elif _is_from(urn, custom, source) and self._is_own(urn, custom):
                yield Unlisted(urn, self._as_written(urn, properties))

    def _as_written(self, urn: str, properties: Aspect) -> Aspect:
        """Return properties without a creation that others wrote: it says nothing of the object."""
        bases = read_bases(custom_properties(properties), self._context.state.writer)
        base = (bases.ours or NOTHING).get(properties_aspect(entity_type_of(urn)), NOTHING)
        written = fingerprints_in(base.get(_CREATED, ""))
        if fingerprint(properties.get(_CREATED)) in written:
            return properties
        return {field: value for field, value in properties.items() if field != _CREATED}

    def _is_own(self, urn: str, custom: Mapping[str, object]) -> bool:
        """Return whether this state has listed an entity: its id is there, or it has the base."""
        state = self._context.state
        bases = read_bases(custom, state.writer)
        if bases.is_shared:
            self.shared.add(urn)
        if state.writer.may_remove(bases.id) or state.entities.base(urn):
            return True
        if not state.writer.is_own(bases.id):
            note = other_writer_note(state.writer, bases.id)
            self._context.ledger.note(note.kind, note.detail)
        return False
