"""A source and a sink without I/O: what a test puts in is read, what is written can be asked."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from mlcat_ingest.client.base import Evaluation, SourceEntities, TestOutcome
from mlcat_ingest.core.findings import Finding, RequestSide
from mlcat_ingest.metadata.passport import Kept, ReadsKept
from mlcat_ingest.metadata.proposal import Aspect, Entity, Proposal
from mlcat_ingest.sources.base import Finished, Page, ReadRequest, RecordVersion, Source
from mlcat_ingest.testing.recording import RecordingCatalog


def model_urn(name: str) -> str:
    return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{name},PROD)"


def group_urn(name: str) -> str:
    return f"urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,{name},PROD)"


def once(work: Callable[[], object], *, at: int) -> Callable[[object], None]:
    """Return a hook that does `work` before the write, or the read, of that number."""
    calls = iter(range(1, 1000))

    def hook(_: object) -> None:
        if next(calls) == at:
            work()

    return hook


@dataclass(frozen=True, slots=True)
class FakeRecord:
    """Any value as a record."""

    value: Any
    record_version: RecordVersion | None = None


@dataclass
class FakeSource(Source[FakeRecord], RequestSide):
    """Yields `pages`; each value is mapped by `mapping` (values are entities by default)."""

    pages: Iterable[Sequence[object]] = ()
    mapping: Callable[[object], Iterable[Entity]] | None = None
    error: BaseException | None = None
    closed: int = 0
    requests: int = 0

    def __post_init__(self) -> None:
        self.traffic = self

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


@dataclass
class FakeSink(RecordingCatalog):
    """A recording catalog that evaluates tests, and lacks what a test says that it lacks.

    By default it tells no versions, checks none, and no state is kept of it. Searches find nothing
    that is `not_indexed`. A patch is applied to what is stored.
    """

    place: str | None = None
    failing_tests: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    not_evaluated: str | None = None
    searches: list[list[str]] = field(default_factory=list)
    evaluations: list[list[str]] = field(default_factory=list)
    search_error: Exception | None = None
    not_indexed: Collection[str] = ()
    checks_versions: bool = True
    tells_versions: bool = True
    _before: dict[tuple[str, str], list[tuple[Aspect, Mapping[str, Any]]]] = field(
        default_factory=dict
    )

    @property
    def evaluator(self) -> Self:
        return self

    def removed(self) -> set[str]:
        """Return the entities that are marked as removed."""
        return {urn for urn, one in self.stored.items() if one.get("status", {}).get("removed")}

    def live(self, *words: str) -> set[str]:
        """Return the others, those that have these words in their URNs."""
        here = self.stored.keys() - self.removed()
        return {urn for urn in here if all(word in urn for word in words)}

    def requests_made(self) -> int:
        return super().requests_made() + len(self.evaluations)

    def entities_of_source(
        self, entity_type: str, source: str | None, *, removed: bool = False
    ) -> SourceEntities:
        self._search()
        found = super().entities_of_source(entity_type, source, removed=removed)
        urns = [urn for page in found.pages for urn in page if urn not in self.not_indexed]
        return SourceEntities(len(urns), iter([urns] if urns else []))

    def members(self, group: str) -> Iterator[list[str]]:
        self._search()
        return super().members(group)

    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        self.searches.append(list(texts))
        return super().datasets_like(texts)

    def roll_back(self, urn: str, aspect: str) -> None:
        """Bring back what an aspect was before its last write, as DataHub's rollback of a run."""
        before = self._before[urn, aspect].pop()
        self.stored[urn][aspect], self._written[urn, aspect] = before[0], before
        self.versions[urn, aspect] -= 1

    def roll_back_run(self, run_id: str) -> None:
        """Do the same to each aspect that a run wrote last; what the run created goes."""
        for (urn, aspect), (_, metadata) in list(self._written.items()):
            if metadata.get("runId") != run_id:
                continue
            if self._before.get((urn, aspect)):
                self.roll_back(urn, aspect)
            else:
                del self.stored[urn][aspect], self.versions[urn, aspect], self._written[urn, aspect]

    def _store(self, urn: str, entity: Sequence[Proposal]) -> None:
        super()._store(urn, [self._patched(one) for one in entity])

    def _patched(self, one: Proposal) -> Proposal:
        """Return a proposal with the whole of the aspect that a patch makes of what is stored."""
        if not one.patch:
            return one
        aspect = dict(self.stored.get(one.entity_urn, {}).get(one.aspect_name, {}))
        for operation in one.patch:
            name = str(operation["path"]).removeprefix("/")
            if operation["op"] == "remove":
                del aspect[name]
            else:
                aspect[name] = operation["value"]
        return replace(one, aspect=aspect)

    def _put(
        self, urn: str, aspect: str, value: Aspect, metadata: Mapping[str, Any] | None = None
    ) -> None:
        if (urn, aspect) in self._written:
            self._before.setdefault((urn, aspect), []).append(self._written[urn, aspect])
        super()._put(urn, aspect, value, metadata)

    def _search(self) -> None:
        if self.search_error is not None:
            raise self.search_error

    def _reported_version(self, urn: str, aspect: str) -> str | None:
        return super()._reported_version(urn, aspect) if self.tells_versions else None

    def _has_moved(self, proposal: Proposal) -> bool:
        return self.checks_versions and super()._has_moved(proposal)

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


def kept_in(entities: Mapping[str, Kept]) -> ReadsKept:
    """Return what reads the kept versions of one of these entities, and of no other."""
    return lambda urn, _: entities.get(urn, {})
