"""The report of a run: records read, entities written or refused, tests, and the exit status."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Final, TypedDict, TypeVar, Unpack

from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import MlcatError, RecipeError, RecipeValidationError

if TYPE_CHECKING:
    from mlcat_ingest.client import base

_Numbers = TypeVar("_Numbers")


EXIT_OK: Final = 0
"""The command did all that was asked for. A plan may have found changes."""
EXIT_FAILED: Final = 1
"""The source, the catalog or an output file failed. The same command may succeed later."""
EXIT_USAGE: Final = 2
"""The command, the recipe, a limit or the environment has to change."""
EXIT_TESTS: Final = 3
"""Metadata tests of the quality gate did not pass (`--fail-on-tests`)."""
EXIT_PARTIAL: Final = 4
"""Some records were rejected or not stored, or `verify` found a difference."""
EXIT_PENDING: Final = 5
"""A plan found changes (`--exit-code`), or a removal that affects a model (`--impact`)."""
EXIT_INTERRUPTED: Final = 130
"""Ctrl-C, SIGTERM or SIGHUP ended the command."""
# From the worst on.
_EXITS: Final = (EXIT_INTERRUPTED, EXIT_USAGE, EXIT_FAILED, EXIT_PARTIAL, EXIT_TESTS, EXIT_PENDING)


UNSEEN: Final = frozenset(
    {"nothing_listed", "not_administrator", "unlisted_kept", "workspaces_unread"}
)
"""The kinds of notes that say that a source may hold objects which it does not list."""

UNREAD: Final = frozenset(
    {
        *("feature_file_unread", "feature_metadata_unread", "features_not_looked_up"),
        *("logged_model_unlisted", "run_not_listed", "signature_not_read", "source_unreadable"),
    }
)
"""The kinds of notes about what could not be read, and stays as the catalog has it."""


def worst(*codes: int) -> int:
    """Return the exit status of a command whose parts end with these: 2 > 1 > 4 > 3 > 5 > 0."""
    return next((code for code in _EXITS if code in codes), EXIT_OK)


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that ended the run early."""

    kind: str
    """Name of the error class."""
    message: str
    """Message of the error."""
    hint: str | None = None
    """Proposed remedy."""
    usage: bool = False
    """True if the recipe, the command or a limit has to change, rather than a service."""
    expected: bool = True
    """True for an error of this package; false for a defect."""

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


@dataclass(frozen=True, slots=True)
class HooksSummary:
    """The drain of the spool of run hooks, after the run."""

    exit_code: int = EXIT_OK
    """Exit status of the drain."""
    events: int = 0
    """Events that the catalog acknowledged."""
    runs: int = 0
    """Runs that these events named."""
    models: int = 0
    """Registered models that these events named."""
    elsewhere: int = 0
    """Runs among these that no source of the recipe has."""
    left: int = 0
    """Events of the recipe that are still in the spool."""
    busy: bool = False
    """True if another process drained the spool at the same time."""
    failure: Failure | None = None
    """Error that ended the drain early."""
    dead_letter_file: str | None = None
    """File of the proposals that the catalog refused."""


@dataclass(frozen=True, slots=True)
class EntityCounts:
    """Entities of one type."""

    read: int = 0
    """Entities that the run is done with: the sum of the other counts."""
    created: int = 0
    """Entities that the catalog did not have."""
    updated: int = 0
    """Entities that the catalog had, and that changed."""
    removed: int = 0
    """Entities that were soft-deleted."""
    unchanged: int = 0
    """Entities whose values the catalog had; of a killed run they are written once more."""
    still_removed: int = 0
    """Entities that were soft-deleted before, and needed no write."""
    left_out: int = 0
    """Entities in the trash of the source that the catalog lacks; of changes only new ones."""
    rejected: int = 0
    """Entities that the catalog refused, in whole or in part."""

    @property
    def written(self) -> int:
        """Entities that the catalog acknowledged in this run."""
        return self.created + self.updated + self.removed


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A record that could not be mapped, or an entity that the catalog refused."""

    reference: str
    """Reference of the record, or URN of the entity."""
    reason: str
    """Cause, as the mapping or the catalog gave it."""


@dataclass(frozen=True, slots=True)
class EvaluationSummary:
    """Metadata tests of the written entities."""

    evaluated: int = 0
    """Entities whose metadata tests were evaluated."""
    passing: int = 0
    """Results that pass, one per test and entity."""
    failing: int = 0
    """Results that fail, one per test and entity."""
    failing_tests: dict[str, int] = field(default_factory=dict)
    """Number of entities that fail a test, by the URN of the test."""
    not_evaluated: str | None = None
    """Reason why no entity, or no further entity, was evaluated."""
    unevaluated_tests: dict[str, str] = field(default_factory=dict)
    """Reason why a test could not be evaluated, by the URN of the test."""
    where: "base.EvaluatedBy | None" = None
    """`service` or `client`: the side that evaluated."""


@dataclass(frozen=True, slots=True)
class DanglingDataset:
    """A dataset that models used and that the catalog does not have."""

    urn: str
    """URN that the models name."""
    models: int
    """Number of models that used it."""
    nearest: tuple[str, ...] = ()
    """URNs of datasets in the catalog with similar names."""


@dataclass(frozen=True, slots=True)
class LineageSummary:
    """Datasets that models used, and whether the catalog has them."""

    datasets: int = 0
    """Datasets that were looked up."""
    in_catalog: int = 0
    """Datasets that the catalog has."""
    dangling: tuple[DanglingDataset, ...] = ()
    """The first few datasets that the catalog does not have, the most used first."""
    beyond: bool = False
    """True if models used more datasets than one run looks up."""
    not_checked: str | None = None
    """Reason why some or all datasets were not looked up."""


@dataclass(frozen=True, slots=True)
class FeatureSummary:
    """Links of models to the features that they were trained on."""

    linked: Mapping[str, int] = field(default_factory=dict)
    """Models with links, by the rule that found the features."""
    approximate: int = 0
    """Models among these that may have used other features."""
    unknown: int = 0
    """References to features that neither a feature source nor the catalog has."""
    ambiguous: int = 0
    """References that several features match."""
    not_looked_up: int = 0
    """Models whose links were left unchanged, because their features could not be looked up."""

    @property
    def models(self) -> int:
        """Models that have a feature."""
        return sum(self.linked.values())


@dataclass(frozen=True, slots=True)
class PassSummary:
    """How one place was read."""

    source: str
    """Key of the source; its place in the recipe if it failed before its key was known."""
    full: bool
    """True for a full pass, false for a pass over the changes since the last run."""
    why: str
    """Reason for a full pass, or for one over changes; also why it failed, or was not read."""
    instance: str = ""
    """Platform instance of the source."""
    current_at_ms: int | None = None
    """Start of the last completed pass, in epoch milliseconds: the catalog is current up to it."""
    label: str = ""
    """Name of the source for people; empty for a source that only earlier runs read."""

    @property
    def line(self) -> str:
        """The line of the text form."""
        return f"  source       {self.label or self.source}: {self.why}"


@dataclass(frozen=True, slots=True)
class TestVerdict:
    """A test that the pattern of the quality gate matches."""

    __test__ = False  # for pytest, this is no test class

    urn: str
    """URN of the test."""
    name: str | None = None
    """Name of the test, if it is known."""
    passing: int = 0
    """Entities that pass the test."""
    failing: int = 0
    """Entities that fail the test."""
    newly_failing: int = 0
    """Entities among these that did not fail it in the run before."""

    @property
    def label(self) -> str:
        """The name, and the URN behind it; the URN alone where the name is not known."""
        return f"{self.name} ({printable(self.urn)})" if self.name else printable(self.urn)


@dataclass(frozen=True, slots=True)
class FailedTest:
    """An entity that fails a test."""

    entity: str
    """URN of the entity."""
    test: str
    """URN of the test."""
    newly: bool
    """True if the entity did not fail the test in the run before."""
    name: str | None = None
    """Display name of the entity."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of the quality gate on the entities of a recipe; only evaluated tests pass."""

    pattern: str
    """Pattern of `--fail-on-tests`."""
    tests: tuple[TestVerdict, ...] = ()
    """Tests that the pattern matches, each with its results."""
    unevaluated: int = 0
    """Results that are not known."""
    not_evaluated: tuple[str, ...] = ()
    """Reasons why results are not known."""
    examples: tuple[FailedTest, ...] = ()
    """The first few failures, new ones first."""

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


def _counter(kind: Callable[[], _Numbers], **shown: Unpack[Counter]) -> _Numbers:
    """Return the field of a counter: an `int`, or a `dict` of numbers by label."""
    return field(default_factory=kind, metadata={"counter": shown})


@dataclass(frozen=True, slots=True)
class Report:
    """One run of a recipe: counts, the first few examples of each kind, and the outcome."""

    name: str
    """Name of the recipe."""
    finished: bool = field(default=True, kw_only=True)
    """False for a run in progress, or for one that was killed."""
    started_at_ms: int
    """Start of the run, in epoch milliseconds UTC."""
    finished_at_ms: int
    """End of the run, in epoch milliseconds UTC; the last update if the run is not finished."""
    run_id: str = ""
    """Identifier of the run, which the catalog keeps with each aspect that the run wrote."""
    catalog: str = ""
    """Address of the catalog."""
    passes: tuple[PassSummary, ...] = ()
    """Places that were read: a server or store, and its platform instance."""
    records: int = _counter(int, help_text="Records read from the sources.", airflow=True)
    entities: Mapping[str, EntityCounts] = field(default_factory=dict)
    """Counts of entities, by entity type."""
    changed_groups: int = 0
    """Groups that were written or removed, or a member of which was."""
    changed_group_urns: tuple[str, ...] = ()
    """The first few of these groups."""
    group_page: str = ""
    """Address of a group's page in the catalog, with `{urn}` for its percent-encoded URN; empty if
    it is not known."""
    proposals_sent: int = _counter(
        int, metric="proposals", help_text="Proposals sent to the catalog."
    )
    without_base: int = _counter(
        int,
        text="merge        {count} existed before this recipe: their entries were kept",
        nouns=("entity", "entities"),
    )
    """Entities without a base: another writer made them, or their base was lost. The merge removes
    nothing from them."""
    kept_aspects: int = _counter(
        int, text="merge        {count} kept: they have entries of others", nouns=("aspect",)
    )
    """Aspects that the source dropped, but which stay because of entries of others."""
    conflicts: int = _counter(
        int,
        help_text="Entities merged again because of a concurrent write.",
        text="merge        {count}: merged again after a concurrent write",
        nouns=("conflict",),
    )
    unverified: int = _counter(
        int,
        text="merge        {count} unverified: the catalog has no versions",
        nouns=("entity", "entities"),
    )
    """Entities whose write may have replaced that of another writer, as the catalog has no
    versions."""
    verdicts_written: int = _counter(
        int,
        text="tests        {count} written back to MLflow",
        nouns=("verdict",),
    )
    """Models whose run or version has the verdict of their metadata tests as tags: with
    `evaluate.write_back`."""
    verdicts_shown: Mapping[str, int] = _counter(
        dict,
        label="what",
        text="tests        verdicts shown, {value}: {count}",
        nouns=("entity", "entities"),
    )
    """Tags added and removed, incidents opened and resolved, with `evaluate.verdicts`."""
    dropped: Mapping[str, int] = _counter(
        dict,
        help_text="Entities with an acknowledged write that the catalog did not store.",
        label="what",
        text="dropped      {value}, of {count}: acknowledged by the catalog, but not stored",
        nouns=("entity", "entities"),
        airflow=True,
    )
    """Aspects, fields and entities that the catalog acknowledged and did not store, each with the
    number of entities."""
    dead_letters: int = _counter(
        int,
        help_text="Refused proposals and unusable records in the dead-letter file.",
    )
    dead_letter_file: str | None = None
    """Path of the dead-letter file; null if there are no dead letters."""
    failed_records: int = _counter(int, help_text="Records that could not be used.", airflow=True)
    failed_examples: tuple[FailedRecord, ...] = ()
    """The first few records that could not be used."""
    rejected_examples: tuple[FailedRecord, ...] = ()
    """The first few entities that the catalog refused."""
    notes: Mapping[str, int] = field(default_factory=dict)
    """Counts of notes, by kind: values that were shortened, left out or changed."""
    note_examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The first few notes of each kind."""
    state_failures: int = _counter(
        int, help_text="Failures of the state database: it was damaged or could not be used."
    )
    """Failures of the state database, each explained in a note `state_failed`."""
    source_requests: int = _counter(int, airflow=True)
    """Requests sent to the sources, retries included."""
    catalog_requests: int = _counter(int, airflow=True)
    """Requests sent to the catalog, retries included."""
    lineage: LineageSummary = field(default_factory=LineageSummary)
    """Datasets that models used."""
    features: FeatureSummary = field(default_factory=FeatureSummary)
    """Links of models to features."""
    evaluation: EvaluationSummary = field(default_factory=EvaluationSummary)
    """Results of metadata tests."""
    gate: Verdict | None = None
    """Verdict of the quality gate, with `--fail-on-tests`."""
    hooks: HooksSummary | None = None
    """Drain of the spool of run hooks; null if the spool was empty."""
    failure: Failure | None = None
    """Error that ended the run early."""
    interrupted: bool = False
    """True if Ctrl-C, SIGTERM or SIGHUP ended the run."""
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
    member.name: member.metadata["counter"] for member in fields(Report) if member.metadata
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
