"""A source and a sink without I/O: what a test puts in is read, what is written can be asked."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Self

from mlcat_ingest.client.base import (
    Catalog,
    Evaluation,
    Searches,
    SourceEntities,
    StoredAspect,
    StoredEntity,
    TestOutcome,
)
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import AspectChangedError, AspectRejectedError, SkippableError
from mlcat_ingest.metadata.proposal import Aspect, Entity, Proposal
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.sources.base import Finished, Page, ReadRequest, RecordVersion, Source


def model_urn(name: str) -> str:
    return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{name},PROD)"


def group_urn(name: str) -> str:
    return f"urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,{name},PROD)"


def _key(urn: str) -> str:
    return key_aspect_name(entity_type_of(urn))


@dataclass(frozen=True, slots=True)
class FakeRecord:
    """Any value as a record."""

    value: Any
    record_version: RecordVersion | None = None


@dataclass
class FakeSource(Source[FakeRecord]):
    """Yields `pages`; each value is mapped by `mapping` (values are entities by default)."""

    pages: Iterable[Sequence[object]] = ()
    mapping: Callable[[object], Iterable[Entity]] | None = None
    error: BaseException | None = None
    closed: int = 0
    requests: int = 0

    def read(self, request: ReadRequest) -> Iterator[Page[FakeRecord] | Finished]:
        del request
        for page in self.pages:
            self.requests += 1
            yield Page([FakeRecord(value) for value in page])
        if self.error is not None:
            raise self.error

    def map(self, record: FakeRecord) -> Iterable[Entity]:
        if self.mapping is not None:
            return self.mapping(record.value)
        assert isinstance(record.value, Entity)
        return [record.value]

    def requests_made(self) -> int:
        return self.requests

    def check(self) -> Iterator[Finding]:
        yield Finding("the fake source", "ok")

    def close(self) -> None:
        self.closed += 1


def _refusal(
    proposal: Proposal, reason: str, kind: type[AspectRejectedError] = AspectRejectedError
) -> AspectRejectedError:
    return kind(urn=proposal.entity_urn, aspect=proposal.aspect_name, status=422, reason=reason)


@dataclass
class FakeSink(Catalog, Searches):
    """Holds aspects in a dict, as a catalog would; hooks let a test refuse, fail or wait.

    Without a `place` it tells no versions, checks none, and no state is kept of it. `refuse` names
    URNs, or aspects of one as (URN, aspect); searches find nothing that
    is `not_indexed`.
    """

    stored: dict[str, dict[str, Aspect]] = field(default_factory=dict)
    before_write: Callable[[Sequence[Proposal]], None] = lambda _: None
    before_read: Callable[[Sequence[str]], None] = lambda _: None
    refuse: Collection[str | tuple[str, str]] = ()
    failing_tests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_evaluated: str | None = None
    reads: list[list[str]] = field(default_factory=list)
    searches: list[list[str]] = field(default_factory=list)
    writes: list[list[Proposal]] = field(default_factory=list)
    evaluations: list[list[str]] = field(default_factory=list)
    search_error: Exception | None = None
    not_indexed: Collection[str] = ()
    closed: int = 0
    complete: bool | None = None
    place: str | None = None
    batch_size: int = 200
    checks_versions: bool = True
    tells_versions: bool = True
    versions: dict[tuple[str, str], int] = field(default_factory=dict)
    history: dict[tuple[str, str], list[Aspect]] | None = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def keeps(self) -> bool:
        return self.place is not None

    @property
    def address(self) -> str:
        return self.place or ""

    @property
    def search(self) -> Self:
        return self

    @property
    def evaluator(self) -> Self:
        return self

    def open(self, *, read_only: bool = False) -> str:
        del read_only
        return "a fake catalog"

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        self.before_read(urns)
        with self.lock:
            self.reads.append(list(urns))
            return {
                urn: found
                for urn in urns
                if urn in self.stored
                and (
                    found := {
                        name: StoredAspect(value, self._reported_version(urn, name))
                        for name, value in ((_key(urn), {}), *self.stored[urn].items())
                        if name in aspects
                    }
                )
            }

    def get_aspect(self, urn: str, aspect: str, version: int = 0) -> Aspect | None:
        with self.lock:
            return None if self.history is None else self.history[urn, aspect][version - 1]

    def entities_of_source(self, entity_type: str, source: str | None) -> SourceEntities:
        if self.search_error is not None:
            raise self.search_error
        with self.lock:
            found = [
                urn
                for urn, aspects in self.stored.items()
                if entity_type_of(urn) == entity_type
                and urn not in self.not_indexed
                and not aspects.get("status", {}).get("removed")
                and any(
                    sources if source is None else source in sources.split(",")
                    for aspect in aspects.values()
                    if (sources := aspect.get("customProperties", {}).get("mlcat.source", ""))
                )
            ]
        return SourceEntities(len(found), iter([found] if found else []))

    def members(self, group: str) -> Iterator[list[str]]:
        if self.search_error is not None:
            raise self.search_error
        with self.lock:
            found = [
                urn
                for urn, aspects in self.stored.items()
                if group in aspects.get("mlModelProperties", {}).get("groups", ())
            ]
        yield from [found] if found else []

    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        with self.lock:
            self.searches.append(list(texts))
            datasets = [urn for urn in self.stored if entity_type_of(urn) == "dataset"]
        return [[urn for urn in datasets if text in urn] for text in texts]

    def _version(self, urn: str, aspect: str) -> int:
        there = aspect in self.stored.get(urn, {})
        return self.versions.get((urn, aspect), 1) if there else -1

    def _reported_version(self, urn: str, aspect: str) -> str | None:
        reported = self.place is not None and self.tells_versions
        return str(self._version(urn, aspect)) if reported else None

    def put(self, urn: str, aspect: str, value: Aspect) -> None:
        """Write as somebody else does."""
        with self.lock:
            self._put(urn, aspect, value)

    def _put(self, urn: str, aspect: str, value: Aspect) -> None:
        entity = self.stored.setdefault(urn, {})
        if aspect not in entity or entity[aspect] != value:
            self.versions[urn, aspect] = max(self._version(urn, aspect), 0) + 1
            if self.history is not None:
                self.history.setdefault((urn, aspect), []).append(value)
        entity[aspect] = value

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        self.before_write(proposals)
        with self.lock:
            self.writes.append(list(proposals))
            if any(map(self._has_moved, proposals)):
                words = "Expected version 1, actual version 2"
                return [_refusal(one, words, AspectChangedError) for one in proposals]
            refused: list[AspectRejectedError] = []
            for urn, some in groupby(proposals, lambda one: one.entity_urn):
                entity = list(some)
                problem = self._problem(urn, entity)
                if problem is not None:
                    refused.extend(_refusal(one, problem) for one in entity)
                    continue
                for one in entity:
                    if one.change_type == "DELETE":
                        del self.stored[urn][one.aspect_name]
                    else:
                        self._put(urn, one.aspect_name, one.aspect)
        return refused

    def _has_moved(self, proposal: Proposal) -> bool:
        if self.place is None or not self.checks_versions or not proposal.headers:
            return False
        stored = self._version(proposal.entity_urn, proposal.aspect_name)
        return proposal.headers["If-Version-Match"] != str(stored)

    def _problem(self, urn: str, entity: Sequence[Proposal]) -> str | None:
        try:
            for one in entity:
                one.wire()
        except SkippableError as error:
            return str(error)
        named = {urn, *((urn, one.aspect_name) for one in entity)}
        return None if named.isdisjoint(self.refuse) else "not liked"

    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        del should_push, test_urns
        with self.lock:
            self.evaluations.append(list(urns))
        if self.not_evaluated is not None:
            return Evaluation(not_evaluated=self.not_evaluated)
        return Evaluation(
            {
                urn: TestOutcome(
                    passing=("urn:li:test:named",), failing=self.failing_tests.get(urn, ())
                )
                for urn in urns
            }
        )

    @property
    def requests_made(self) -> int:
        return len(self.reads) + len(self.writes) + len(self.evaluations)

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        yield Finding("the fake catalog", "ok", "written" if write else "")

    def close(self, *, complete: bool = True) -> None:
        self.complete = complete
        self.closed += 1
