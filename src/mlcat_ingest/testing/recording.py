"""A catalog in memory that keeps all that is read and written, for tests of sources and runs."""

import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby
from typing import Any, Final, Self

from mlcat_ingest.client.base import (
    Catalog,
    CatalogFacts,
    Searches,
    SourceEntities,
    StoredAspect,
    StoredEntity,
    stamp_of,
)
from mlcat_ingest.core.findings import Finding, RequestSide
from mlcat_ingest.errors import AspectChangedError, AspectRejectedError, SkippableError
from mlcat_ingest.metadata.aspects import ML_MODEL_PROPERTIES, STATUS
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, Aspect, Proposal
from mlcat_ingest.metadata.registry import key_aspect, key_aspect_name
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS, SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of

NO_RUN: Final = "no-run-id-provided"
"""The run that DataHub's server names for a writer without one."""

_TIMES: Final = count(1)


@dataclass
class RecordingCatalog(Catalog, Searches, RequestSide):
    """A catalog in memory: aspects with versions, conditional writes, searches by what is stored.

    It evaluates no metadata tests, and aspects are stored as they are sent, without validation.

    Attributes:
        stored: the latest aspects, by URN and name.
        before_write: called with the proposals of a request; an error that it raises ends it.
        before_read: called with the URNs of a request, likewise.
        refuse: URNs to refuse, or single aspects as (URN, aspect name).
        place: its address; None for a catalog that tells no versions, and keeps no state.
        reads: the URNs of each read request, in order.
        stamp_reads: the URNs of each request for stamps, in order.
        writes: the proposals of each write request, in order, refused ones too.
        closed: how often it was closed.
        complete: the word of the last `close` on whether the run was complete.
        batch_size: proposals in one write request at most.
        versions: the version of each aspect that changed since it was first written.
        history: all values of each aspect, oldest first; None keeps none.
    """

    stored: dict[str, dict[str, Aspect]] = field(default_factory=dict)
    before_write: Callable[[Sequence[Proposal]], None] = lambda _: None
    before_read: Callable[[Sequence[str]], None] = lambda _: None
    refuse: Collection[str | tuple[str, str]] = ()
    place: str | None = "memory"
    reads: list[list[str]] = field(default_factory=list)
    stamp_reads: list[list[str]] = field(default_factory=list)
    writes: list[list[Proposal]] = field(default_factory=list)
    closed: int = 0
    complete: bool | None = None
    batch_size: int = MAX_REQUEST_ITEMS
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    history: dict[tuple[str, str], list[Aspect]] | None = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    _written: dict[tuple[str, str], tuple[Aspect, Mapping[str, Any]]] = field(default_factory=dict)

    @property
    def facts(self) -> CatalogFacts:
        """It keeps what it has if it has a `place`."""
        return CatalogFacts(keeps=self.place is not None, batch_size=self.batch_size)

    @property
    def address(self) -> str:
        """Its `place`, empty for none."""
        return self.place or ""

    @property
    def search(self) -> Self:
        """Itself."""
        return self

    @property
    def traffic(self) -> Self:
        """Itself."""
        return self

    def requests_made(self) -> int:
        """Return how many requests read or wrote."""
        return len(self.reads) + len(self.stamp_reads) + len(self.writes)

    def open(self, *, read_only: bool = False) -> str:
        """Return a line for the user."""
        del read_only
        return "a catalog in memory"

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield that it can be used."""
        yield Finding("the catalog in memory", "ok", "written" if write else "")

    def close(self, *, complete: bool = True) -> None:
        """Count, and keep the word; what is stored can still be read."""
        self.complete = complete
        self.closed += 1

    # --- reads ---------------------------------------------------------------------------------

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return the stored `aspects` of each of `urns`; URNs that have none are left out."""
        if not urns:
            return {}  # as a client, which sends nothing
        self.before_read(urns)
        with self.lock:
            self.reads.append(list(urns))
            return self._read(urns, aspects)

    def read_stamps(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, Mapping[str, str | None]]:
        """Return the stamps of the stored `aspects`; those that a test put there have none."""
        self.before_read(urns)
        with self.lock:
            self.stamp_reads.append(list(urns))
            return {
                urn: {name: aspect.stamp for name, aspect in entity.items()}
                for urn, entity in self._read(urns, aspects).items()
            }

    def _read(self, urns: Sequence[str], aspects: Collection[str]) -> dict[str, StoredEntity]:
        return {
            urn: stored_aspects
            for urn in urns
            if urn in self.stored
            and (
                stored_aspects := {
                    name: self._aspect(urn, name, value)
                    for name, value in (key_aspect(urn), *self.stored[urn].items())
                    if name in aspects
                }
            )
        }

    def get_aspect(self, urn: str, aspect: str, version: int = 0) -> Aspect | None:
        """Return an aspect, 0 for its latest `version`; None where that is not kept."""
        with self.lock:
            values = (self.history or {}).get((urn, aspect), ())
            return values[version - 1] if 0 < len(values) >= version else None

    def _aspect(self, urn: str, name: str, value: Aspect) -> StoredAspect:
        version = self._reported_version(urn, name)
        written, metadata = self._written.get((urn, name), (None, None))
        # A test that changes `stored` itself makes no version.
        return StoredAspect(value, version, stamp_of(version, metadata if written is value else {}))

    def _reported_version(self, urn: str, aspect: str) -> str | None:
        return None if self.place is None else str(self._version(urn, aspect))

    def _version(self, urn: str, aspect: str) -> int:
        there = aspect in self.stored.get(urn, {})
        return self.versions.get((urn, aspect), 1) if there else -1

    # --- writes --------------------------------------------------------------------------------

    def put(self, urn: str, aspect: str, value: Aspect) -> None:
        """Store an aspect as another writer does: without a request, and under a new version."""
        with self.lock:
            self._put(urn, aspect, value, {"runId": NO_RUN, "lastObserved": next(_TIMES)})

    def _put(
        self, urn: str, aspect: str, value: Aspect, metadata: Mapping[str, Any] | None = None
    ) -> None:
        entity = self.stored.setdefault(urn, {})
        if aspect not in entity or entity[aspect] != value:
            self.versions[urn, aspect] = max(self._version(urn, aspect), 0) + 1
            if self.history is not None:
                self.history.setdefault((urn, aspect), []).append(value)
            metadata = self.system_metadata if metadata is None else metadata
            self._written[urn, aspect] = (value, metadata or {})
            entity[aspect] = value

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        """Store `proposals`, entity by entity, and return those refused."""
        self.before_write(proposals)
        refused: list[AspectRejectedError] = []
        with self.lock:
            self.writes.append(list(proposals))
            for urn, group in groupby(proposals, lambda proposal: proposal.entity_urn):
                entity = list(group)
                if any(map(self._has_moved, entity)):
                    words = "Expected version 1, actual version 2"
                    refused.extend(
                        _refusal(proposal, words, AspectChangedError) for proposal in entity
                    )
                elif (problem := self._problem(urn, entity)) is not None:
                    refused.extend(_refusal(proposal, problem) for proposal in entity)
                else:
                    self._store(urn, entity)
        return refused

    def _store(self, urn: str, entity: Sequence[Proposal]) -> None:
        key = key_aspect_name(entity_type_of(urn))
        for proposal in entity:
            if proposal.change_type == "DELETE":
                del self.stored[urn][proposal.aspect_name]
            elif urn not in self.stored or proposal.aspect_name != key:
                self._put(urn, proposal.aspect_name, proposal.aspect)

    def _has_moved(self, proposal: Proposal) -> bool:
        if self.place is None or not proposal.headers:
            return False
        stored = self._version(proposal.entity_urn, proposal.aspect_name)
        return proposal.headers[IF_VERSION_MATCH] != str(stored)

    def _problem(self, urn: str, entity: Sequence[Proposal]) -> str | None:
        try:
            for proposal in entity:
                proposal.wire()
        except SkippableError as error:
            return str(error)
        if urn in self.stored and any(one.change_type == "CREATE_ENTITY" for one in entity):
            return "Cannot perform CREATE_ENTITY if not exists since the entity key already exists."
        named = {urn, *((urn, proposal.aspect_name) for proposal in entity)}
        return None if named.isdisjoint(self.refuse) else "not liked"

    # --- searches ------------------------------------------------------------------------------

    def entities_of_source(
        self, entity_type: str, source: str | None, *, removed: bool = False
    ) -> SourceEntities:
        """Return the live, or `removed`, entities of a type that are of `source`; None: of any."""
        with self.lock:
            urns = [
                urn
                for urn, aspects in self.stored.items()
                if entity_type_of(urn) == entity_type
                and bool(aspects.get(STATUS, {}).get("removed")) is removed
                and any(
                    sources if source is None else source in sources.split(",")
                    for aspect in aspects.values()
                    if (sources := aspect.get("customProperties", {}).get(SOURCE_KEY, ""))
                )
            ]
        return SourceEntities(len(urns), iter([urns] if urns else []))

    def members(self, group: str) -> Iterator[list[str]]:
        """Yield the URNs of the models in a group, removed ones too."""
        with self.lock:
            urns = [
                urn
                for urn, aspects in self.stored.items()
                if group in aspects.get(ML_MODEL_PROPERTIES, {}).get("groups", ())
            ]
        yield from [urns] if urns else []

    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return for each text the URNs of the datasets that hold it."""
        with self.lock:
            datasets = [urn for urn in self.stored if entity_type_of(urn) == "dataset"]
        return [[urn for urn in datasets if text in urn] for text in texts]


def _refusal(
    proposal: Proposal, reason: str, kind: type[AspectRejectedError] = AspectRejectedError
) -> AspectRejectedError:
    return kind(urn=proposal.entity_urn, aspect=proposal.aspect_name, status=422, reason=reason)
