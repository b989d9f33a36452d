"""The report: one value that says what a run read, wrote, could not write, and evaluated."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, TypedDict, TypeVar, Unpack

from mlcat_ingest.core.awaiting import Awaited
from mlcat_ingest.errors import MlcatError, RecipeError, RecipeValidationError
from mlcat_ingest.pipeline.report.verdict import Verdict

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_TESTS: Final = 3
EXIT_PARTIAL: Final = 4
EXIT_PENDING: Final = 5
EXIT_INTERRUPTED: Final = 130

_Numbers = TypeVar("_Numbers")

_WORST_FIRST: Final = (
    *(EXIT_INTERRUPTED, EXIT_USAGE, EXIT_FAILED),
    *(EXIT_PARTIAL, EXIT_TESTS, EXIT_PENDING, EXIT_OK),
)


def worst(*codes: int) -> int:
    """Return the exit status of a command whose parts end with these: 2 > 1 > 4 > 3 > 5 > 0."""
    return min(codes, key=_WORST_FIRST.index)


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

    `failing_tests` maps the URN of a test to the number of entities that fail it.
    `not_evaluated` says why nothing, or nothing more, was evaluated.
    """

    evaluated: int = 0
    passing: int = 0
    failing: int = 0
    failing_tests: Mapping[str, int] = field(default_factory=dict)
    not_evaluated: str | None = None


@dataclass(frozen=True, slots=True)
class DanglingDataset:
    """A dataset that the catalog lacks, how many models used it, and what is named nearly so."""

    urn: str
    models: int
    nearest: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LineageSummary:
    """Which datasets that models used are in the catalog, so that lineage joins.

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
    """Which models were linked to the features that they were trained on.

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
    """What ended the run early: the error's class name, its sentence and its cure."""

    kind: str
    message: str
    hint: str | None = None
    usage: bool = False
    """Whether the recipe, the command or a limit has to change, rather than a service."""
    expected: bool = True
    """Whether it is an error of ours, raised on purpose, and not a defect."""

    def __str__(self) -> str:
        """Return the sentence, and the cure on the same line where there is one."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


@dataclass(frozen=True, slots=True)
class HooksSummary:
    """What came of the events of run hooks that a run drained.

    The catalog was told of `events`, that named `runs`; `elsewhere` of these are none of the
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


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is, for whoever shows it: records read, entities done, requests."""

    records: int
    entities: int
    written: int
    evaluated: int
    elapsed_s: float
    awaited: Awaited | None = None


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
    """Whether Airflow's summary of a run has it, and that of several runs the sum."""


def counter(kind: Callable[[], _Numbers], **shown: Unpack[Counter]) -> _Numbers:
    """Return the field of a counter: an `int`, or a `dict` of numbers by label."""
    return field(default_factory=kind, metadata={"counter": shown})


@dataclass(frozen=True, slots=True)
class Report:
    """What one run of a recipe did. Times are epoch milliseconds UTC.

    Examples of failed records and of notes, and URNs of changed groups, are the first few of each;
    the numbers count them all.
    """

    name: str
    finished: bool = field(default=True, kw_only=True)
    """Whether the run came to an end; a report that says otherwise is one of a run that goes on,
    or that was killed, up to `finished_at_ms`."""
    started_at_ms: int
    finished_at_ms: int
    catalog: str = ""
    passes: tuple[PassSummary, ...] = ()
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
    """What the gate on metadata tests found, where there is one."""
    hooks: HooksSummary | None = None
    """What came of the events of run hooks, where the run drained any."""
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
        """Whether the catalog has everything, whatever metadata tests say of it."""
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
    if isinstance(error, MlcatError):
        message, hint = error.message, error.hint
    else:
        message, hint = f"{type(error).__name__}: {error}", None
    # Each problem of a file is a line of its own, and only these line breaks are ours.
    lines = error.problems if isinstance(error, RecipeValidationError) else (message,)
    return Failure(
        kind=type(error).__name__,
        message="\n".join(map(mask, lines)),
        hint=None if hint is None else mask(hint),
        usage=isinstance(error, RecipeError),
        expected=isinstance(error, MlcatError),
    )
