"""The rules of a source and of a catalog, the source under test, and the error of broken rules."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeVar

from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.proposal import CUSTOM, Aspect, Entity, custom_properties
from mlcat_ingest.metadata.reserved import ALIAS_LOG
from mlcat_ingest.sources.base import (
    AskedState,
    Everything,
    Finished,
    Page,
    Partition,
    PartitionState,
    ReadRequest,
    ReadScope,
    Source,
)

ResultT = TypeVar("ResultT")
SubjectT = TypeVar("SubjectT")


class Rule(Enum):
    """A rule that an implementation keeps; the value is its sentence in messages."""

    LAZY = "nothing is contacted before the first page, and pages are not collected"
    YIELDS = "`read` yields pages, and `Finished` at the end of each partition"
    ORDER = "groups are yielded before their members"
    REPEATABLE = "reading again yields the same records"
    VERSIONS = "a record version is stable, and unique in its partition"
    PURE = "`map` is pure and deterministic"
    SKIPPABLE = "`map` raises SkippableError, and nothing else, for an unusable record"
    URNS = "every URN is valid and of a known entity type"
    ASPECTS = "every aspect is valid for its entity type"
    CLOSE = "`close` may be called at any time, and twice"
    CANCELLATION = "a reading that is abandoned makes no further request"
    PARTITIONS = "a partition and its checkpoint are stable JSON values"
    DECLARED = "capabilities are declared for the methods that implement them"
    FEATURES = "a feature store lists its coming tables and gives an index"
    SHARDS = "shards and the rest are disjoint, and together complete"
    RUNS = "runs are found by their ids"
    COMPLETE = "a source that proves removals ends complete partitions of entities that name it"
    IDEMPOTENT = "ingesting twice changes nothing"
    INCREMENTAL = "incremental and full runs lead to the same catalog"
    DIGEST = "a changed record has another digest"
    REMOVAL = "entities that no longer exist are removed, and no others"
    CHECK = "`check` yields findings and raises only errors of this package"
    ERRORS = "a system that does not answer leads to a documented error"
    SECRETS = "no secret is in a message, an entity, a partition or a checkpoint"

    CATALOG_READS = "an entity without aspects is left out of what is read"
    CATALOG_WRITES = "an acknowledged proposal is read back, and an unchanged one adds no version"
    CATALOG_CONDITIONS = "a proposal that names another version than is stored is refused"
    CATALOG_ENTITIES = "the proposals of one entity are stored or refused together"
    CATALOG_CLOSE = "a catalog is closed twice without an error, and reopened with its content"


class Violation(NamedTuple):
    """A broken rule: the record or entity that shows it, and the observation."""

    rule: Rule
    record: str
    observation: str

    def __str__(self) -> str:
        return f"{self.rule.name}: {self.rule.value}: {self.record}: {self.observation}"


class ConformanceError(AssertionError):
    """At least one rule is broken; `violations` has the first violation of each."""

    def __init__(self, subject: str, violations: Iterable[Violation]) -> None:
        self.violations = tuple(violations)
        super().__init__("\n".join([f"{subject} breaks:", *map(str, self.violations)]))


Found = Iterator[tuple[str, str]]
"""The record or entity that shows that a rule is broken, and the observation."""

Check = Callable[[SubjectT], Found]


def judge(checks: Mapping[Rule, Check[SubjectT]], subject: SubjectT, noun: str) -> None:
    """Try each rule on `subject`, which a message calls `noun`.

    A check that raises an error is left out once a rule is broken: that may be why.

    Raises:
        ConformanceError: a rule is broken.
    """
    violations: list[Violation] = []
    for rule, check in checks.items():
        found: list[tuple[str, str]] = []
        try:
            found.extend(check(subject))
        except Exception:
            if not (found or violations):
                raise
        violations.extend(Violation(rule, *first) for first in found[:1])
    if violations:
        raise ConformanceError(noun, violations)


def attempt(work: Callable[[], ResultT]) -> ResultT | Exception:
    """Return the result of `work`, or the error that it raised: a rule judges either."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - it is what a rule judges
        return error


def words_of(error: Exception) -> str:
    """Return an error as a message shows it."""
    return f"{type(error).__name__}: {error}"


AnySource = Source[Any]
SOURCE: Final = "the source"


@dataclass(frozen=True)
class SourceSubject:
    """A source under test: how to make it, and how the system that it reads is changed."""

    make: Callable[[], AnySource]
    change: Callable[[], object] | None = None
    remove: Callable[[], object] | None = None
    make_unreachable: Callable[[], AnySource] | None = None
    unmappable: Collection[Any] = ()
    secrets: Collection[str] = ()

    @cached_property
    def reading(self) -> "Reading":
        """A reading of everything before the system is changed."""
        with closing(self.make()) as source:
            return read_all(source)

    @cached_property
    def entities(self) -> Sequence[tuple[Any, Entity]]:
        """Each record before the system is changed with each of its entities."""
        with closing(self.make()) as source:
            return list(mapped_entities(source, read_all(source).records))


@dataclass(frozen=True)
class Reading:
    """The items that one `read` yielded in their order, and the partitions that it asked for."""

    items: Sequence[object]
    asked: Sequence[tuple[Partition, PartitionState]]
    requests: Sequence[int] = ()
    """Requests made when each item was yielded, and at the end."""

    @property
    def pages(self) -> list[Page[Any]]:
        """The pages alone."""
        return [item for item in self.items if isinstance(item, Page)]

    @property
    def finished(self) -> list[Finished]:
        """The ends of partitions."""
        return [item for item in self.items if isinstance(item, Finished)]

    @property
    def records(self) -> list[Any]:
        """The records of all pages."""
        return [record for page in self.pages for record in page.records]

    @property
    def partitions(self) -> list[Partition]:
        """The partitions that were asked for."""
        return [partition for partition, _ in self.asked]

    @property
    def checkpoints(self) -> dict[str, Mapping[str, object] | None]:
        """The checkpoint of each partition that ended, by its key."""
        ended = {id(partition.partition): partition.checkpoint for partition in self.finished}
        return {part.key: ended[id(state)] for part, state in self.asked if id(state) in ended}

    def by_version(self) -> dict[tuple[str, str], Any]:
        """Return the records that have a version, by kind and id."""
        versions = ((record.record_version, record) for record in self.records)
        return {(version.kind, version.id): record for version, record in versions if version}


def read_all(source: AnySource, scope: ReadScope | None = None) -> Reading:
    """Read `scope` of a source, everything by default, to its end; raises as the source does."""
    state = AskedState()
    items: list[object] = []
    requests: list[int] = []
    for item in source.read(ReadRequest(scope or Everything(), state)):
        items.append(item)
        requests.append(source.traffic.requests_made())
    return Reading(items, state.asked, [*requests, source.traffic.requests_made()])


def entities_of(source: AnySource, record: Any) -> Sequence[Entity] | Exception:
    """Return the entities of `record`, or the error that `map` raised."""
    return attempt(lambda: list(source.map(record)))


def content_of(source: AnySource, record: Any, without: Collection[tuple[str, str]] = ()) -> str:
    """Return a text that is the same for equal results of `map`, errors included.

    Left out are the aspects `without`, each the URN of an entity and a name.
    """
    entities = entities_of(source, record)
    if isinstance(entities, Exception):
        return words_of(entities)
    shown = [
        [
            entity.urn,
            {
                name: aspect
                for name, aspect in without_sightings(entity.aspects).items()
                if (entity.urn, name) not in without
            },
            entity.only_if_absent,
            sorted(name for name in entity.adds_only if (entity.urn, name) not in without),
            [list(note) for note in entity.notes],
        ]
        for entity in entities
    ]
    hashed = attempt(lambda: content_hash(shown))
    return words_of(hashed) if isinstance(hashed, Exception) else hashed


def mapped_entities(source: AnySource, records: Sequence[Any]) -> Iterator[tuple[Any, Entity]]:
    """Yield each entity with its record; unusable records yield none."""
    for record in records:
        entities = entities_of(source, record)
        if not isinstance(entities, Exception):
            for entity in entities:
                yield record, entity


def without_sightings(aspects: Mapping[str, Aspect]) -> Mapping[str, Aspect]:
    """Return aspects as every reading of an equal source has them, whenever that is."""
    return {
        name: {**aspect, CUSTOM: {key: custom[key] for key in custom if key != ALIAS_LOG}}
        if (custom := custom_properties(aspect))
        else aspect
        for name, aspect in aspects.items()
    }
