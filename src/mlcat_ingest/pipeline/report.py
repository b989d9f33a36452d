"""The report: one value that says what a run read, wrote, could not write, and evaluated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from mlcat_ingest.errors import MlcatError, RecipeError, RecipeValidationError
from mlcat_ingest.pipeline.verdict import Verdict

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_TESTS: Final = 3
EXIT_PARTIAL: Final = 4
EXIT_PENDING: Final = 5
EXIT_INTERRUPTED: Final = 130


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


@dataclass(frozen=True, slots=True)
class Report:
    """What one run of a recipe did. Times are epoch milliseconds UTC.

    Examples of failed records and of notes, and URNs of changed groups, are the first few of each;
    the numbers count them all.
    """

    name: str
    started_at_ms: int
    finished_at_ms: int
    catalog: str = ""
    passes: tuple[PassSummary, ...] = ()
    records: int = 0
    entities: Mapping[str, EntityCounts] = field(default_factory=dict)
    changed_groups: int = 0
    """Groups that were written or removed, or a member of which was."""
    changed_group_urns: tuple[str, ...] = ()
    proposals_sent: int = 0
    without_base: int = 0
    """Entities that others made, or whose base was lost: merged without taking anything away."""
    kept_aspects: int = 0
    """Aspects that the source has no more and that stay, since others have entries in them."""
    conflicts: int = 0
    """How often an entity was merged again, since somebody else wrote it at the same time."""
    unverified: int = 0
    """Entities of which the catalog could not tell whether ours went over a write of others."""
    dead_letters: int = 0
    """Proposals refused and records not usable, all of them in the `dead_letter_file`."""
    dead_letter_file: str | None = None
    failed_records: int = 0
    failed_examples: tuple[FailedRecord, ...] = ()
    rejected_examples: tuple[FailedRecord, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)
    note_examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source_requests: int = 0
    catalog_requests: int = 0
    lineage: LineageSummary = LineageSummary()
    features: FeatureSummary = FeatureSummary()
    evaluation: EvaluationSummary = EvaluationSummary()
    gate: Verdict | None = None
    """What the gate on metadata tests found, where there is one."""
    failure: Failure | None = None
    interrupted: bool = False
    finished: bool = True
    """Whether the run came to an end; a report that says otherwise is one of a run that goes on,
    or that was killed, up to `finished_at_ms`."""
    error: BaseException | None = field(default=None, repr=False, compare=False)
    """The error behind `failure`, for a traceback; not part of what is rendered."""

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
        """Exit status: 0 all arrived, 1 a side failed, 2 recipe or limit, 3 tests, 4 partial.

        Where several hold, 2 goes before 1, 1 before 4, 4 before 3. Ctrl-C is 130.
        """
        if self.interrupted:
            return EXIT_INTERRUPTED
        if self.failure is not None:
            return EXIT_USAGE if self.failure.usage else EXIT_FAILED
        if self.failed_records or self.rejected:
            return EXIT_PARTIAL
        return EXIT_OK if self.gate is None or self.gate.passed else EXIT_TESTS

    def raise_for_failure(self) -> None:
        """Return if the run came to its end.

        Raises:
            MlcatError: the error that ended it; other errors are raised as they are.
            KeyboardInterrupt: it was interrupted.
        """
        if self.error is not None:
            raise self.error


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
