"""The report of a run: records read, entities written or refused, tests, and the exit status."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar, Unpack

from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import MlcatError, RecipeError, RecipeValidationError

if TYPE_CHECKING:
    from mlcat_ingest.client import base, behaviour

_Numbers = TypeVar("_Numbers")


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """One test that the gate's pattern matches, and how many entities have which result of it.

    `newly_failing` are those of `failing` that did not fail it in the run before.
    """

    __test__ = False  # for pytest, this is no test class

    urn: str
    name: str | None = None
    passing: int = 0
    failing: int = 0
    newly_failing: int = 0

    @property
    def label(self) -> str:
        """The name, and the URN behind it; the URN alone where the name is not known."""
        return f"{self.name} ({printable(self.urn)})" if self.name else printable(self.urn)


@dataclass(frozen=True, slots=True)
class FailedTest:
    """An entity that fails a test, and the name that people know it by."""

    entity: str
    test: str
    newly: bool
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of the quality gate on a recipe's entities; only evaluated tests can pass.

    `not_evaluated` says why there are results that are not known, a reason each. `examples` are
    the first few failures, the new ones before the rest; the numbers count them all.
    """

    pattern: str
    tests: tuple[TestVerdict, ...] = ()
    unevaluated: int = 0
    not_evaluated: tuple[str, ...] = ()
    examples: tuple[FailedTest, ...] = ()

    @property
    def passing(self) -> int:
        """Results that pass, one a test and entity."""
        return sum(test.passing for test in self.tests)

    @property
    def failing(self) -> int:
        """Results that fail, old and new."""
        return sum(test.failing for test in self.tests)

    @property
    def newly_failing(self) -> int:
        """Results that fail and did not in the run before."""
        return sum(test.newly_failing for test in self.tests)

    @property
    def passed(self) -> bool:
        """True if nothing fails and every result is known."""
        return not self.failing and not self.not_evaluated


EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_TESTS: Final = 3
EXIT_PARTIAL: Final = 4
EXIT_PENDING: Final = 5
EXIT_INTERRUPTED: Final = 130
# From the worst on.
_EXITS: Final = (EXIT_INTERRUPTED, EXIT_USAGE, EXIT_FAILED, EXIT_PARTIAL, EXIT_TESTS, EXIT_PENDING)


def worst(*codes: int) -> int:
    """Return the exit status of a command whose parts end with these: 2 > 1 > 4 > 3 > 5 > 0."""
    return next((code for code in _EXITS if code in codes), EXIT_OK)


@dataclass(frozen=True, slots=True)
class EntityCounts:
    """Entities of one type; `read` is the sum of the others unless the run broke off."""

    read: int = 0
    created: int = 0
    updated: int = 0
    removed: int = 0
    unchanged: int = 0
    rejected: int = 0

    @property
    def written(self) -> int:
        """Entities that the catalog acknowledged in this run."""
        return self.created + self.updated + self.removed


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that could not be mapped or an entity that the catalog refused, and why."""

    reference: str
    reason: str


@dataclass(frozen=True, slots=True)
class EvaluationSummary:
    """Metadata tests of what was written: entities evaluated, results by outcome.

    `failing_tests` counts the entities that fail a test, by its URN. `not_evaluated` says why
    nothing more was evaluated, `unevaluated_tests` so by test; `where` is who evaluated.
    """

    evaluated: int = 0
    passing: int = 0
    failing: int = 0
    failing_tests: Mapping[str, int] = field(default_factory=dict)
    not_evaluated: str | None = None
    unevaluated_tests: Mapping[str, str] = field(default_factory=dict)
    where: "base.EvaluatedBy | None" = None


@dataclass(frozen=True, slots=True)
class DanglingDataset:
    """A dataset that the catalog lacks, how many models used it, and what is named nearly so."""

    urn: str
    models: int
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineageSummary:
    """The datasets that models used: those that the catalog has join in lineage.

    `dangling` are the first few that are not, the most used first. `beyond` says that models used
    more datasets than are looked up in one run, `not_checked` why none, or not all, were.
    """

    datasets: int = 0
    in_catalog: int = 0
    dangling: tuple[DanglingDataset, ...] = ()
    beyond: bool = False
    not_checked: str | None = None


@dataclass(frozen=True, slots=True)
class FeatureSummary:
    """Links of models to the features that they were trained on.

    `linked` counts them by the rule that found the features; of these, `approximate` may have used
    others. `unknown` and `ambiguous` count references that no feature was found for, and
    `not_looked_up` models whose links stay as they are.
    """

    linked: Mapping[str, int] = field(default_factory=dict)
    approximate: int = 0
    unknown: int = 0
    ambiguous: int = 0
    not_looked_up: int = 0

    @property
    def models(self) -> int:
        """Models that have a feature."""
        return sum(self.linked.values())


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that ended the run early: its class name, its sentence and its cure."""

    kind: str
    message: str
    hint: str | None = None
    usage: bool = False
    """True if the recipe, the command or a limit has to change, rather than a service."""
    expected: bool = True
    """True for an error of ours, raised on purpose; a defect is none."""

    def __str__(self) -> str:
        """Return the sentence, and the cure on the same line where there is one."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


@dataclass(frozen=True, slots=True)
class HooksSummary:
    """Events of run hooks that a run drained from the spool.

    The catalog acknowledged `events`, that named `runs`; `elsewhere` of these are none of the
    recipe's. `left` events of the recipe wait on. A `busy` spool has another drain at work.
    """

    exit_code: int = EXIT_OK
    events: int = 0
    runs: int = 0
    elsewhere: int = 0
    left: int = 0
    busy: bool = False
    failure: Failure | None = None
    dead_letter_file: str | None = None


@dataclass(frozen=True, slots=True)
class PassSummary:
    """How one place was read: `full`, or only what changed since the last run, and `why` so.

    `current_at_ms` is when the last pass began that came to its end, None where none did: up to
    then the catalog has what the source says.
    """

    source: str
    full: bool
    why: str
    instance: str = ""
    current_at_ms: int | None = None


class Counter(TypedDict, total=False):
    """How a counter of the report is shown; JSON has every counter by the name of its field."""

    metric: str
    """Name of its Prometheus metric, where that is not the name of the field."""
    help_text: str
    """Help text of the metric; without it there is no metric."""
    label: str
    """Label of the metric, where there is a number for each value of it."""
    text: str
    """Line of the text form for a `count` that is not 0, and the `value` of the label."""
    nouns: tuple[str, ...]
    """Noun that the `count` of the line is given with, and its plural where irregular."""
    airflow: bool
    """True if Airflow's summary of a run has it, and that of several runs the sum."""


def counter(kind: Callable[[], _Numbers], **shown: Unpack[Counter]) -> _Numbers:
    """Return the field of a counter: an `int`, or a `dict` of numbers by label."""
    return field(default_factory=kind, metadata={"counter": shown})


@dataclass(frozen=True, slots=True)
class Report:
    """One run of a recipe, in numbers and examples. Times are epoch milliseconds UTC.

    Examples of failed records and of notes, and URNs of changed groups, are the first few of each;
    the numbers count them all.
    """

    name: str
    finished: bool = field(default=True, kw_only=True)
    """False for a run that goes on, or that was killed, up to `finished_at_ms`."""
    started_at_ms: int
    finished_at_ms: int
    catalog: str = ""
    passes: tuple[PassSummary, ...] = ()
    probe: "behaviour.ProbedBehaviour | None" = None
    """The results of a probe that decided, where any did."""
    records: int = counter(int, help_text="Records read from the sources.", airflow=True)
    entities: Mapping[str, EntityCounts] = field(default_factory=dict)
    changed_groups: int = 0
    """Groups that were written or removed, or a member of which was."""
    changed_group_urns: tuple[str, ...] = ()
    proposals_sent: int = counter(
        int, metric="proposals", help_text="Proposals sent to the catalog."
    )
    without_base: int = counter(
        int, text="merge        {count} entities without a base: nothing taken away"
    )
    """Entities that others made, or whose base was lost: merged without taking anything away."""
    kept_aspects: int = counter(
        int, text="merge        {count} kept: others have entries in them", nouns=("aspect",)
    )
    """Aspects that the source has no more and that stay, since others have entries in them."""
    conflicts: int = counter(
        int,
        help_text="Entities merged again, as others wrote them too.",
        text="merge        {count}: merged again with what others wrote",
        nouns=("conflict",),
    )
    unverified: int = counter(
        int, text="merge        {count} unverified: the catalog tells no versions"
    )
    """Entities of which the catalog could not tell whether ours went over a write of others."""
    dropped: Mapping[str, int] = counter(
        dict,
        help_text="Entities of which the catalog acknowledged something and did not store it.",
        label="what",
        text="dropped      {value}, of {count}: acknowledged by the catalog, and not stored",
        nouns=("entity", "entities"),
        airflow=True,
    )
    """Aspects, fields and entities that the catalog acknowledged and did not store; of how many
    entities each."""
    dead_letters: int = counter(
        int,
        help_text="Proposals refused and records not usable that are in the dead-letter file.",
    )
    dead_letter_file: str | None = None
    failed_records: int = counter(int, help_text="Records that could not be used.", airflow=True)
    failed_examples: tuple[FailedRecord, ...] = ()
    rejected_examples: tuple[FailedRecord, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)
    note_examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source_requests: int = counter(int, airflow=True)
    catalog_requests: int = counter(int, airflow=True)
    lineage: LineageSummary = LineageSummary()
    features: FeatureSummary = FeatureSummary()
    evaluation: EvaluationSummary = EvaluationSummary()
    gate: Verdict | None = None
    hooks: HooksSummary | None = None
    failure: Failure | None = None
    interrupted: bool = False
    error: BaseException | None = field(default=None, repr=False, compare=False)
    """The error behind `failure`, for a traceback; not part of what is rendered."""

    def counters(self) -> Iterator[tuple[str, Counter, Mapping[str, int]]]:
        """Yield each counter: the name of its field, how it is shown, its numbers by label."""
        for name, shown in COUNTERS.items():
            value: int | Mapping[str, int] = getattr(self, name)
            yield name, shown, {"": value} if isinstance(value, int) else value

    @property
    def duration_s(self) -> float:
        """Wall time of the run in seconds."""
        return (self.finished_at_ms - self.started_at_ms) / 1000

    @property
    def rejected(self) -> int:
        """Entities that the catalog refused, in whole or in part."""
        return sum(counts.rejected for counts in self.entities.values())

    @property
    def exit_code(self) -> int:
        """Exit status: the worst of what was read and written, of the tests and of the hooks."""
        return worst(*self._exit_codes())

    @property
    def arrived(self) -> bool:
        """True if the catalog has everything, whatever metadata tests say of it."""
        return self.exit_code in {EXIT_OK, EXIT_TESTS}

    def _exit_codes(self) -> Iterator[int]:
        yield EXIT_OK
        if self.interrupted:
            yield EXIT_INTERRUPTED
        if self.failure is not None:
            yield EXIT_USAGE if self.failure.usage else EXIT_FAILED
        if self.failed_records or self.rejected or self.dropped:
            yield EXIT_PARTIAL
        if self.gate is not None and not self.gate.passed:
            yield EXIT_TESTS
        if self.hooks is not None:
            yield self.hooks.exit_code

    def raise_for_failure(self) -> None:
        """Return if the run came to its end.

        Raises:
            MlcatError: the error that ended it; other errors are raised as they are.
            KeyboardInterrupt: it was interrupted.
        """
        if self.error is not None:
            raise self.error


COUNTERS: Final[Mapping[str, Counter]] = {
    one.name: one.metadata["counter"] for one in fields(Report) if one.metadata
}


def failure_of(error: BaseException, mask: Callable[[str], str] = str) -> Failure:
    """Return what a report says about `error`, its texts passed through `mask`."""
    ours = error if isinstance(error, MlcatError) else None
    message = f"{type(error).__name__}: {error}" if ours is None else ours.message
    hint = None if ours is None else ours.hint
    # Each problem of a file is a line of its own, and only these line breaks are ours.
    lines = error.problems if isinstance(error, RecipeValidationError) else (message,)
    return Failure(
        kind=type(error).__name__,
        message="\n".join(map(mask, lines)),
        hint=None if hint is None else mask(hint),
        usage=isinstance(error, RecipeError),
        expected=ours is not None,
    )
