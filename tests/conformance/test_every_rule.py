"""The conformance suite finds a source, or a catalog, that breaks a rule, whichever it is."""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, ClassVar

import pytest

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import AspectRejectedError
from mlcat_ingest.metadata.proposal import Entity, Proposal
from mlcat_ingest.metadata.registry import KEY_ASPECTS
from mlcat_ingest.sources.base import (
    Capability,
    Changes,
    ComingTable,
    Finished,
    Missing,
    Page,
    ReadRequest,
    RecordVersion,
    Runs,
    Shards,
    Source,
    Unlisted,
)
from mlcat_ingest.testing.conformance import (
    ConformanceError,
    Rule,
    check_catalog,
    check_source,
)
from mlcat_ingest.testing.recording import RecordingCatalog
from support.fakes import model_urn
from support.model_registry import (
    PARTITION,
    GroupRecord,
    ModelRecord,
    Registry,
    RegistrySource,
    TableSource,
    filled,
)

SECRET = "hunter2"
Item = Page[ModelRecord | GroupRecord] | Finished


ARGUMENTS = {
    Rule.INCREMENTAL: "change",
    Rule.DIGEST: "change",
    Rule.REMOVAL: "remove",
    Rule.ERRORS: "make_unreachable",
    Rule.SECRETS: "secrets",
}
"""The argument without which a rule is not tried."""


def broken_rules(
    kind: Callable[[Registry], Source[Any]], *arguments: str, **more: Any
) -> Mapping[Rule, tuple[str, str]]:
    """Return record and observation of each rule that the suite says a source breaks."""
    registry = filled()

    def change() -> None:
        registry.put("churn", "a", "changed")
        registry.put("new", "e", "added")

    given: dict[str, Any] = {
        "change": change,
        "remove": lambda: registry.models.pop("b"),
        "make_unreachable": lambda: kind(replace(filled(), answers=False)),
        "secrets": [SECRET],
    }
    try:
        check_source(lambda: kind(registry), **{name: given[name] for name in arguments}, **more)
    except ConformanceError as error:
        return {one.rule: (one.record, one.observation) for one in error.violations}
    return {}


def test_the_error_has_a_line_for_each_rule() -> None:
    registry = filled()
    with pytest.raises(ConformanceError) as raised:
        check_source(lambda: Eager(registry))
    lazy, cancellation = raised.value.violations
    assert str(raised.value).splitlines() == ["the source breaks:", str(lazy), str(cancellation)]
    assert str(lazy) == (
        f"LAZY: {Rule.LAZY.value}: the source: requests made before the first page: 3"
    )


def test_a_source_that_declares_everything_conforms() -> None:
    unmappable = [ModelRecord("churn", "x", "")]
    assert broken_rules(RegistrySource, *ARGUMENTS.values(), unmappable=unmappable) == {}


def test_a_feature_store_conforms() -> None:
    check_source(TableSource)


class Eager(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Item]:
        return iter(list(super().read(request)))


class Collecting(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Item]:
        yield from list(super().read(request))


class Chatty(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Any]:
        yield "a text"
        yield from super().read(request)


class Endless(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Item]:
        return (one for one in super().read(request) if not isinstance(one, Finished))


class MembersFirst(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Item]:
        items = list(super().read(request))
        yield from [one for one in items[::-1] if isinstance(one, Page)]
        yield from [one for one in items if isinstance(one, Finished)]


class Exhausted(RegistrySource):
    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.left = 5

    def _models(self) -> list[ModelRecord]:
        self.left -= 1
        return super()._models() if self.left > 0 else []


@dataclass(frozen=True)
class Nameless(ModelRecord):
    @property
    def record_version(self) -> RecordVersion | None:
        return RecordVersion("model", "the same")


class SameIds(RegistrySource):
    def _models(self) -> list[ModelRecord]:
        return [Nameless(one.group, one.name, one.text) for one in super()._models()]


class Counting(RegistrySource):
    calls = 0

    def map(self, record: ModelRecord | GroupRecord) -> Iterable[Entity]:
        self.calls += 1
        if isinstance(record, ModelRecord):
            record = replace(record, text=f"{record.text} {self.calls}")
        return super().map(record)


@dataclass(frozen=True)
class TaggedRecord(ModelRecord):
    tags: list[str] = field(default_factory=list)


class Mutating(RegistrySource):
    def _models(self) -> list[ModelRecord]:
        return [TaggedRecord(one.group, one.name, one.text) for one in super()._models()]

    def map(self, record: ModelRecord | GroupRecord) -> Iterable[Entity]:
        if isinstance(record, TaggedRecord):
            record.tags.append("mapped")
        return super().map(record)


class Asking(RegistrySource):
    def map(self, record: ModelRecord | GroupRecord) -> Iterable[Entity]:
        self._models()
        return super().map(record)


class Crashing(RegistrySource):
    def map(self, record: ModelRecord | GroupRecord) -> Iterable[Entity]:
        if isinstance(record, ModelRecord) and record.name == "b":
            raise KeyError("size")
        return super().map(record)


class Unbalanced(RegistrySource):
    def map(self, record: ModelRecord | GroupRecord) -> Iterable[Entity]:
        del record
        return [Entity("urn:li:mlModel:(a", {"mlModelProperties": {}})]


class UnknownType(RegistrySource):
    def map(self, record: ModelRecord | GroupRecord) -> Iterable[Entity]:
        del record
        return [Entity("urn:li:mlMoodel:a", {"mlModelProperties": {}})]


class NumberForText(RegistrySource):
    def map(self, record: ModelRecord | GroupRecord) -> Iterable[Entity]:
        del record
        return [Entity(model_urn("a"), {"mlModelProperties": {"description": 5}})]


class ClosedOnce(RegistrySource):
    closed = False

    def close(self) -> None:
        assert not self.closed
        self.closed = True


class GoesOn(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Item]:
        return chain(super().read(request))


class OwnSettings(RegistrySource):
    made: ClassVar = count()

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        self.partition = replace(PARTITION, settings=str(next(self.made)))  # type: ignore[misc]


class SetInCheckpoint(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Item]:
        for item in super().read(request):
            yield replace(item, checkpoint={"at": {1}}) if isinstance(item, Finished) else item


class Undeclared(RegistrySource):
    capabilities: ClassVar = frozenset({Capability.SHARDS, Capability.RUNS})


class Overdeclared(RegistrySource):
    capabilities: ClassVar = frozenset(Capability)


class NoTables(TableSource):
    def coming_tables(self) -> Iterator[ComingTable]:
        return iter(())


class WholeShards(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Item]:
        if isinstance(request.scope, Shards):
            request = replace(request, scope=Shards(self._groups()))
        return super().read(request)


class LossyShards(RegistrySource):
    def shards(self) -> Iterator[Any]:
        return iter(list(super().shards())[:1])


class FindsNone(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Item]:
        if isinstance(request.scope, Runs):
            request = replace(request, scope=Runs(()))
        return super().read(request)


class Incomplete(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Item]:
        for item in super().read(request):
            yield replace(item, complete=False) if isinstance(item, Finished) else item


class Numbered(RegistrySource):
    made = 0

    def __init__(self, registry: Registry) -> None:
        super().__init__(registry)
        Numbered.made += 1
        self.number = Numbered.made

    def map(self, record: ModelRecord | GroupRecord) -> Iterable[Entity]:
        if isinstance(record, ModelRecord):
            record = replace(record, text=f"{record.text} {self.number}")
        return super().map(record)


class NoChanges(RegistrySource):
    def read(self, request: ReadRequest) -> Iterator[Item]:
        for item in super().read(request):
            late = isinstance(request.scope, Changes) and isinstance(item, Page)
            if not late or item.partition is None or item.partition.checkpoint is None:
                yield item


@dataclass(frozen=True)
class FixedDigest(ModelRecord):
    @property
    def record_version(self) -> RecordVersion | None:
        return RecordVersion("model", self.name, "always the same")


class SameDigests(RegistrySource):
    def _models(self) -> list[ModelRecord]:
        return [
            FixedDigest(one.group, one.name, one.text, one.changed_at) for one in super()._models()
        ]


class ProvesNothing(RegistrySource):
    def missing(self, partition: str, unlisted: Sequence[Unlisted]) -> Iterable[Missing]:
        del partition, unlisted
        return ()


class BadFinding(RegistrySource):
    def check(self) -> Iterator[Finding]:
        raise KeyError("version")


class RawError(RegistrySource):
    def _models(self) -> list[ModelRecord]:
        if not self.registry.answers:
            raise ConnectionError("refused")
        return super()._models()


class Leaking(RegistrySource):
    def _models(self) -> list[ModelRecord]:
        logging.getLogger("registry").warning("reading https://ann:%s@registry", SECRET)
        return super()._models()


class LeakingKey(RegistrySource):
    partition: ClassVar = replace(PARTITION, key=f"registry:{SECRET}:default")


BROKEN: Sequence[tuple[Rule, Callable[[Registry], Source[Any]]]] = (
    (Rule.LAZY, Eager),
    (Rule.LAZY, Collecting),
    (Rule.YIELDS, Chatty),
    (Rule.YIELDS, Endless),
    (Rule.ORDER, MembersFirst),
    (Rule.REPEATABLE, Exhausted),
    (Rule.VERSIONS, SameIds),
    (Rule.PURE, Counting),
    (Rule.PURE, Mutating),
    (Rule.PURE, Asking),
    (Rule.SKIPPABLE, Crashing),
    (Rule.URNS, Unbalanced),
    (Rule.URNS, UnknownType),
    (Rule.ASPECTS, NumberForText),
    (Rule.CLOSE, ClosedOnce),
    (Rule.CANCELLATION, GoesOn),
    (Rule.PARTITIONS, OwnSettings),
    (Rule.PARTITIONS, SetInCheckpoint),
    (Rule.DECLARED, Undeclared),
    (Rule.DECLARED, Overdeclared),
    (Rule.FEATURES, lambda _: NoTables()),
    (Rule.SHARDS, WholeShards),
    (Rule.SHARDS, LossyShards),
    (Rule.RUNS, FindsNone),
    (Rule.COMPLETE, Incomplete),
    (Rule.IDEMPOTENT, Numbered),
    (Rule.INCREMENTAL, NoChanges),
    (Rule.DIGEST, SameDigests),
    (Rule.REMOVAL, ProvesNothing),
    (Rule.CHECK, BadFinding),
    (Rule.ERRORS, RawError),
    (Rule.SECRETS, Leaking),
    (Rule.SECRETS, LeakingKey),
)


@pytest.mark.parametrize(
    ("rule", "kind"), BROKEN, ids=lambda one: getattr(one, "__name__", str(one))
)
def test_a_source_that_breaks_a_rule_is_found(
    rule: Rule, kind: Callable[[Registry], Source[Any]]
) -> None:
    broken = broken_rules(kind, *filter(None, [ARGUMENTS.get(rule)]))
    assert rule in broken
    record, observation = broken[rule]
    assert record
    assert observation


def test_a_record_that_is_not_skipped_is_named() -> None:
    broken = broken_rules(RegistrySource, unmappable=[ModelRecord("churn", "x", "usable")])
    assert broken == {Rule.SKIPPABLE: ("ModelRecord x", "it is unusable, and mapped to 2 entities")}


def test_a_change_that_changes_nothing_tries_nothing() -> None:
    registry = filled()
    with pytest.raises(ValueError, match="changed no entity"):
        check_source(lambda: RegistrySource(registry), change=lambda: None)


class InventsEntities(RecordingCatalog):
    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        return {urn: {} for urn in urns} | dict(super().read_many(urns, aspects))


class LosesWrites(RecordingCatalog):
    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        return super().write(proposals[:1])


class Keyless(RecordingCatalog):
    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        found = super().read_many(urns, set(aspects) - KEY_ASPECTS)
        return {urn: entity for urn, entity in found.items() if entity}


class Unconditional(RecordingCatalog):
    def _has_moved(self, proposal: Proposal) -> bool:
        del proposal
        return False


class OneByOne(RecordingCatalog):
    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        return [refused for one in proposals for refused in super(OneByOne, self).write([one])]


class ClosesOnce(RecordingCatalog):
    def close(self, *, complete: bool = True) -> None:
        assert not self.closed
        super().close(complete=complete)


@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (Rule.CATALOG_READS, InventsEntities),
        (Rule.CATALOG_WRITES, LosesWrites),
        (Rule.CATALOG_WRITES, Keyless),
        (Rule.CATALOG_CONDITIONS, Unconditional),
        (Rule.CATALOG_ENTITIES, OneByOne),
        (Rule.CATALOG_CLOSE, RecordingCatalog),
        (Rule.CATALOG_CLOSE, ClosesOnce),
    ],
)
def test_a_catalog_that_breaks_a_rule_is_found(
    rule: Rule, kind: Callable[[], RecordingCatalog]
) -> None:
    with pytest.raises(ConformanceError) as raised:
        check_catalog(kind)
    assert rule in {one.rule for one in raised.value.violations}


def test_every_rule_has_an_implementation_that_breaks_it() -> None:
    of_sources = {rule for rule, _ in BROKEN}
    assert {rule for rule in Rule if not rule.name.startswith("CATALOG")} == of_sources
