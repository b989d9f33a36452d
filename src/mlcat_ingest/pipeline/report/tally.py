"""The tally: the stages of a run count in it, from several threads, and it becomes the report."""

import logging
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any, Final

from mlcat_ingest.client.base import Evaluation
from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import LACKS_PERMISSION, NotAuthorizedError
from mlcat_ingest.links.rules import Links
from mlcat_ingest.metadata.aspects import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.identity import ABOUT_MANY
from mlcat_ingest.metadata.labels import label_of, with_label
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.outcome import Outcome, Refusal
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.progress import Progress
from mlcat_ingest.pipeline.report.report import (
    COUNTERS,
    EntityCounts,
    EvaluationSummary,
    FailedRecord,
    FeatureSummary,
    PassSummary,
    Report,
    failure_of,
)
from mlcat_ingest.recipe.secrets import mask
from mlcat_ingest.recipe.values import file_stem

log = logging.getLogger(__name__)

EXAMPLES: Final = 10
"""How many failed records, refused entities and notes of each kind a report shows."""

CHANGED_GROUPS: Final = 100
"""How many changed groups a report names."""

_WRITTEN: Final = frozenset({"created", "updated", "removed"})
_COUNTED_ONCE: Final = frozenset({"mlModelGroup", "versionSet", "tag", "container"})
"""Types of entities that may be written, or referred to, more than once in a run."""

_RANKS: Final = (
    *("unchanged", "still_removed", "left_out"),
    *("updated", "removed", "created", "rejected"),
)
"""What becomes of an entity: of several, the last one here counts."""

_FORBIDDEN: Final = HTTPStatus.FORBIDDEN


class Tally:
    """Counts of one run; every method may be called from any thread."""

    def __init__(
        self,
        name: str,
        letters: DeadLetters | None = None,
        run_id: str | None = None,
    ) -> None:
        """Count for the recipe `name`; no text that is kept has known secrets.

        Refused entities and unusable records are written to `letters`, too. Without `run_id` the
        run gets an identifier of its own.
        """
        self.letters = letters or DeadLetters()
        self._name = name
        self._lock = threading.Lock()
        self._started_at_ms = now_ms()
        started = datetime.fromtimestamp(self._started_at_ms / 1000, UTC)
        # In the form of DataHub's; two hosts may begin a run of one name in the same second.
        own_id = f"{file_stem(name)}-{started:%Y_%m_%d-%H_%M_%S}-{secrets.token_hex(3)}"
        self._run_id = run_id or own_id
        self._started_s = time.monotonic()
        self._counters = {name: Counter[str]() for name in COUNTERS}
        self._counts: Counter[tuple[str, str]] = Counter()
        # Of groups, also of those that are not named, a hash is enough to count none twice.
        self._kinds: dict[int, str] = {}
        self._group_urns: set[str] = set()
        self._group_hashes: set[int] = set()
        self._denials: Counter[str] = Counter()
        self._failed: list[FailedRecord] = []
        self._rejected: list[FailedRecord] = []
        self._notes: Counter[str] = Counter()
        self._note_examples: dict[str, list[str]] = {}
        self._linked: Counter[str] = Counter()
        self._links: Counter[str] = Counter()
        self.evaluation = EvaluationSummary()
        """The results of metadata tests so far."""

    def clean(self, text: str) -> str:
        """Return a text as it is kept and shown: without secrets and control characters."""
        return printable(mask(text))

    def count(self, value: str = "", /, **more: int) -> None:
        """Add to the report's counters of these names; `value` is that of a counter's label.

        Raises:
            KeyError: the report has no counter of that name.
        """
        value = self.clean(value)
        with self._lock:
            for name, number in more.items():
                self._counters[name][value] += number

    def record_failed(self, reference: str, reason: str) -> None:
        """Count a record that could not be mapped."""
        failed = FailedRecord(self.clean(reference), self.clean(reason))
        log.warning("%s could not be used: %s", failed.reference, failed.reason)
        self.letters.write(reference, reason)
        self.count(failed_records=1)
        with self._lock:
            if len(self._failed) < EXAMPLES:
                self._failed.append(failed)

    def notes(self, entity: Entity) -> None:
        """Count what the mapping of `entity` left out or changed."""
        if not entity.notes:
            return
        aspect = properties_aspect(entity.entity_type)
        about = with_label(entity.urn, label_of(entity.urn, entity.aspects.get(aspect)))
        for note in entity.notes:
            self.note(note.kind, f"{about}: {note.detail}")

    def note(self, kind: str, detail: str) -> None:
        """Count a note of a kind, and keep the first few details."""
        with self._lock:
            self._notes[kind] += 1
            examples = self._note_examples.setdefault(kind, [])
            cleaned = self.clean(detail) if len(examples) < EXAMPLES else ""
            if cleaned and not (kind in ABOUT_MANY and cleaned in examples):
                examples.append(cleaned)

    def state_failed(self, problem: str) -> None:
        """Count a failure of the state database."""
        self.count(state_failures=1)
        self.note("state_failed", problem)

    def passed_over(self, urns: Iterable[str], removed: Collection[str]) -> None:
        """Count entities, `removed` ones too, that were not merged: nothing about them changed."""
        with self._lock:
            self._add((urn, "still_removed" if urn in removed else "unchanged") for urn in urns)

    def _add(self, kinds: Iterable[tuple[str, str]]) -> None:
        """Count entities by their URNs and what became of them; the caller holds the lock."""
        for urn, kind in kinds:
            entity_type, counted = entity_type_of(urn), kind
            before = self._kinds.get(hash(urn))
            if before is not None:
                self._counts[entity_type, before] -= 1
                counted = max(before, kind, key=_RANKS.index)
            if before is not None or entity_type in _COUNTED_ONCE:
                self._kinds[hash(urn)] = counted
            self._counts[entity_type, counted] += 1

    def entities(self, outcomes: Sequence[Outcome], counted: Mapping[str, str] = NOTHING) -> None:
        """Count entities that the run is done with, and keep what was refused of them.

        What `counted` says of one, by URN, was counted before.
        """
        refused = []
        for outcome in outcomes:
            for note in outcome.merged.notes:
                about = "" if note.kind in ABOUT_MANY else f"{outcome.urn}: "
                self.note(note.kind, f"{about}{note.detail}")
            self.letters.write_refused(outcome)
            if outcome.refusals and self._is_news(outcome.refusals[0]):
                reason = self.clean(str(outcome.refusals[0]))
                refused.append(FailedRecord(outcome.urn, reason))
                log.warning("%s was refused: %s", outcome.urn, reason)
        with self._lock:
            for outcome in outcomes:
                if outcome.urn in counted:
                    self._kinds.setdefault(hash(outcome.urn), counted[outcome.urn])
            self._add((outcome.urn, outcome.kind) for outcome in outcomes)
            for urn in _changed_groups(outcomes):
                self._group_hashes.add(hash(urn))
                if len(self._group_urns) < CHANGED_GROUPS:
                    self._group_urns.add(urn)
            self._rejected.extend(refused[: EXAMPLES - len(self._rejected)])
        self.count(
            without_base=sum(outcome.merged.without_base for outcome in outcomes),
            kept_aspects=sum(len(outcome.merged.kept_aspects) for outcome in outcomes),
        )

    def _is_news(self, refusal: Refusal) -> bool:
        """Return False for a refusal that lacks the same privilege as an earlier one."""
        if refusal.status != _FORBIDDEN:
            return True
        reason = self.clean(str(refusal))
        with self._lock:
            self._denials[reason] += 1
            return self._denials[reason] == 1

    def tests_evaluated(self, evaluation: Evaluation) -> None:
        """Count the outcomes of one evaluation call."""
        outcomes, reason = evaluation.outcomes.values(), evaluation.not_evaluated
        with self._lock:
            before = self.evaluation
            failing_tests = Counter(before.failing_tests)
            for outcome in outcomes:
                failing_tests.update(outcome.failing)
            self.evaluation = EvaluationSummary(
                evaluated=before.evaluated + len(outcomes),
                passing=before.passing + sum(len(outcome.passing) for outcome in outcomes),
                failing=before.failing + sum(len(outcome.failing) for outcome in outcomes),
                failing_tests=dict(failing_tests.most_common()),
                not_evaluated=before.not_evaluated if reason is None else self.clean(reason),
                # The first reason stays.
                unevaluated_tests=before.unevaluated_tests
                | {
                    urn: self.clean(why)
                    for urn, why in evaluation.unevaluated.items()
                    if urn not in before.unevaluated_tests
                },
                where=evaluation.where if outcomes else before.where,
            )
        for urn, why in evaluation.not_stored.items():
            self.note("test_results_not_stored", f"{urn}: {why}")

    def features(self, links: Iterable[Links]) -> None:
        """Count the links of models to their features."""
        with self._lock:
            for one in links:
                if one.urns:
                    self._linked[one.rule] += 1
                    self._links["approximate"] += bool(one.approximate)
                self._links["unknown"] += len(one.unknown)
                self._links["ambiguous"] += len(one.ambiguous)
                self._links["not_looked_up"] += not one.complete

    def progress(self) -> Progress:
        """Return how far the run is."""
        with self._lock:
            return Progress(
                records=self._counters["records"].total(),
                entities=self._counts.total(),
                written=sum(n for (_, kind), n in self._counts.items() if kind in _WRITTEN),
                evaluated=self.evaluation.evaluated,
                elapsed_s=time.monotonic() - self._started_s,
            )

    def report(
        self,
        *,
        catalog: str = "",
        passes: Iterable[PassSummary] = (),
        error: BaseException | None = None,
        finished: bool = True,
        group_page: str = "",
        **uncounted: Any,
    ) -> Report:
        """Return the report of the run as it is now; `error` is what ended it early.

        What is `uncounted` is further fields of the report.
        """
        if error is None and finished:
            error = self._all_denied()
        interrupted = isinstance(error, KeyboardInterrupt)
        letters = self.letters.path if self.letters.written else None
        with self._lock:
            counters: dict[str, Any] = {
                name: dict(numbers.most_common()) if "label" in COUNTERS[name] else numbers.total()
                for name, numbers in self._counters.items()
                if name != "dead_letters"
            }
            report = Report(
                name=self._name,
                run_id=self._run_id,
                started_at_ms=self._started_at_ms,
                finished_at_ms=now_ms(),
                catalog=catalog,
                passes=tuple(passes),
                entities=_by_type(self._counts),
                changed_groups=len(self._group_hashes),
                changed_group_urns=tuple(sorted(self._group_urns)),
                group_page=group_page,
                dead_letters=self.letters.written,
                dead_letter_file=None if letters is None else str(letters),
                failed_examples=tuple(self._failed),
                rejected_examples=tuple(
                    replace(one, reason=f"{one.reason} (and {alike - 1:,} others)")
                    if (alike := self._denials[one.reason]) > 1
                    else one
                    for one in self._rejected
                ),
                notes=dict(self._notes.most_common()),
                note_examples={kind: tuple(some) for kind, some in self._note_examples.items()},
                features=FeatureSummary(dict(self._linked.most_common()), **self._links),
                evaluation=self.evaluation,
                interrupted=interrupted,
                finished=finished,
                error=error,
                **(counters | uncounted),
            )
        # The line breaks of an error are ours: each of its lines is clean by itself.
        failure = None if error is None or interrupted else failure_of(error, self.clean)
        clean: Report = _each_text(report, self.clean)
        # They are no texts: changed by a character, they would lead nowhere.
        urns, run_id = report.changed_group_urns, self._run_id
        return replace(
            clean, name=self._name, run_id=run_id, failure=failure, changed_group_urns=urns
        )

    def _all_denied(self) -> NotAuthorizedError | None:
        """Return the error of a run that may write nothing, None for any other."""
        with self._lock:
            refused_types = {kind for kind, outcome in self._counts if outcome == "rejected"}
            arrived = sum(
                count
                for (kind, outcome), count in self._counts.items()
                if outcome in _WRITTEN or (outcome == "unchanged" and kind in refused_types)
            )
            rejected = sum(self._counts[kind, "rejected"] for kind in refused_types)
            denied = self._denials.total()
            if arrived or not denied or denied < rejected:
                return None
            return NotAuthorizedError(
                f"the catalog service refused every write with {next(iter(self._denials))}",
                hint=LACKS_PERMISSION,
                context={"status": _FORBIDDEN},
            )


def _each_text(value: Any, clean: Callable[[str], str]) -> Any:
    """Return a report, or a part of it, in which each text is clean; keys stay as they are."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, tuple):
        return tuple(_each_text(one, clean) for one in value)
    if isinstance(value, dict):
        return {key: _each_text(one, clean) for key, one in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in fields(value)]
        return replace(value, **{name: _each_text(getattr(value, name), clean) for name in names})
    return value


def _by_type(counts: Mapping[tuple[str, str], int]) -> dict[str, EntityCounts]:
    by_type: dict[str, Counter[str]] = {}
    for (entity_type, outcome), count in sorted(counts.items()):
        by_type.setdefault(entity_type, Counter())[outcome] = count
    return {kind: EntityCounts(some.total(), **some) for kind, some in by_type.items()}


def _changed_groups(outcomes: Iterable[Outcome]) -> Iterator[str]:
    """Yield the groups that the catalog took, or took a member of."""
    for outcome in outcomes:
        merged, entity_type = outcome.merged, outcome.merged.entity_type
        if outcome.kind not in _WRITTEN:
            continue
        if entity_type == "mlModelGroup":
            yield merged.urn
        elif entity_type == "mlModel":
            # A run that is gone, or has moved, leaves a group.
            after = merged.entity.aspects.get(ML_MODEL_PROPERTIES)
            before = merged.stored.get(ML_MODEL_PROPERTIES)
            for aspect in (after, before and before.value):
                yield from (aspect or {}).get("groups") or ()
