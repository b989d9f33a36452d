"""The rules of a source and of a catalog, and the error that lists the broken ones."""

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import NamedTuple, TypeVar

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
        """Keep the violations, and make a message of one line for each."""
        self.violations = tuple(violations)
        super().__init__("\n".join([f"{subject} breaks:", *map(str, self.violations)]))


Check = Callable[[SubjectT], Iterator[Violation]]


def first_of_each(checks: Iterable[Check[SubjectT]], subject: SubjectT) -> Iterator[Violation]:
    """Yield the first violation of each rule that `checks` find.

    A check that raises an error is left out once a rule is broken: that may be why.
    """
    broken: set[Rule] = set()
    for check in checks:
        try:
            for violation in check(subject):
                if violation.rule not in broken:
                    broken.add(violation.rule)
                    yield violation
        except Exception:
            if not broken:
                raise


def attempt(work: Callable[[], ResultT]) -> ResultT | Exception:
    """Return the result of `work`, or the error that it raised: a rule judges either."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - it is what a rule judges
        return error


def words_of(error: Exception) -> str:
    """Return an error as a message shows it."""
    return f"{type(error).__name__}: {error}"
