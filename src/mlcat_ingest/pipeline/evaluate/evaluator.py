"""Evaluation: the metadata tests of what was written, in batches, once it is durable.

Tests of a recipe's files are created where the catalog lacks them, else compared. What the tests of
a model say becomes tags of its run or version, where the recipe asks for it.
"""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog, Evaluation, TestOutcome
from mlcat_ingest.client.evaluator import ClientEvaluator
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.core.text import json_or_none
from mlcat_ingest.errors import AspectChangedError, RecipeError, SourceUnavailableError
from mlcat_ingest.metadata.aspects import STATUS, TEST_INFO, TEST_RESULTS, VERSION_PROPERTIES
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NOT_STORED, Aspect
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS, TESTS_AT_TAG, TESTS_TAG
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.provenance import is_removed
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.recipe.metadata_test_files import FileTest, read_test_files
from mlcat_ingest.recipe.model import EvaluateSpec
from mlcat_ingest.sources.base import EntityTags, Source

log = logging.getLogger(__name__)

_MODEL: Final = "mlModel"
_TEST: Final = "urn:li:test:"

_NAMES: Final = 10
"""Failing tests that a tag names; of each at most so many characters as `_NAME_CHARS`."""

_NAME_CHARS: Final = 100
"""With `_NAMES` far below the 5,000 bytes that MLflow 2.9 takes as a tag."""

_SHOWN: Final = ":"
"""Between the digest of the tests and that of the verdicts that are shown."""
_REFUSALS: Final = 16
"""Refusals before the first verdict is written, after which none is tried."""


class VerdictWriter:
    """Writes the verdicts of models to the sources that take tags. Safe for several threads."""

    def __init__(self, context: RunContext, sources: Sequence[Source[Any]]) -> None:
        """Write to those of `sources` that can set tags.

        Raises:
            RecipeError: none can.
        """
        self._context = context
        self._sources = [source for source in sources if source.can_set_tags]
        self._lock = threading.Lock()
        self._refused = 0
        self._was_taken = self._is_over = False
        if not self._sources:
            raise RecipeError(
                "evaluate.write_back: no source is an MLflow server that is read over HTTP",
                hint="set `tracking_uri` to the address of the server, or delete `write_back`",
            )

    def write(self, outcomes: Mapping[str, TestOutcome]) -> set[str]:
        """Write the verdicts of models, and return the models whose verdict could not be written.

        Cost: one read of a batch of models, and two or three requests a model.
        """
        name = properties_aspect(_MODEL)
        models = [urn for urn in outcomes if entity_type_of(urn) == _MODEL]
        stored = self._context.sink.read_many(models, [name])
        now = datetime.now(UTC).isoformat(timespec="seconds")
        tagged = [
            EntityTags(
                urn,
                entity[name].value,
                {TESTS_TAG: _verdict_text(outcomes[urn]), TESTS_AT_TAG: now},
            )
            for urn, entity in stored.items()
            if name in entity
        ]
        left = {entity.urn for entity in tagged}
        failed: set[str] = set()
        for source in self._sources:
            tags = source.set_tags(tagged)
            try:
                while not self._is_over and (one := next(tags, None)) is not None:
                    urn, problem = one
                    left.discard(urn)
                    if problem is not None:
                        failed.add(urn)
                    self._context.cancellation.check()
                    self._count(urn, problem)
            except SourceUnavailableError as error:
                self._give_up(str(error))
        return failed | left if self._is_over else failed

    def _count(self, urn: str, problem: str | None) -> None:
        if problem is None:
            self._was_taken = True
            self._context.ledger.count(verdicts_written=1)
            return
        self._context.ledger.note("verdict_not_written", f"{urn}: {problem}")
        with self._lock:
            self._refused += 1
        if self._refused >= _REFUSALS and not self._was_taken:
            self._give_up(f"none of {_REFUSALS} was taken")

    def _give_up(self, problem: str) -> None:
        with self._lock:
            is_first, self._is_over = not self._is_over, True
        if is_first:
            detail = f"{problem}: the next full pass evaluates the models again, and tries again"
            self._context.ledger.note("verdicts_not_written", detail)


def showed_verdicts(tests: Iterable[str]) -> bool:
    """Return whether a pass that ended with one of these digests of tests showed verdicts."""
    return any(one.partition(_SHOWN)[2] for one in tests)


def _verdict_text(outcome: TestOutcome) -> str:
    """Return the verdict as a tag has it: `passing`, `failing: has-owner, …`, or `no tests`."""
    if not outcome.failing:
        return "passing" if outcome.passing else "no tests"
    names = [urn.removeprefix(_TEST)[:_NAME_CHARS] for urn in sorted(set(outcome.failing))]
    more = len(names) - _NAMES
    return f"failing: {', '.join(names[:_NAMES])}" + (f" and {more} more" if more > 0 else "")


def _create_tests(catalog: Catalog, tests: Mapping[str, FileTest]) -> str | None:
    """Create the missing tests in `catalog`; return why one cannot be created, else None.

    Raises:
        RecipeError: the catalog holds another test under the same URN.
        CatalogUnavailableError, AuthenticationError: as named.

    Cost: one read and one write for a batch of tests, one more read where another writer was first.
    """
    condition = {IF_VERSION_MATCH: NOT_STORED}
    try:
        for urns in chunks(sorted(tests), MAX_REQUEST_ITEMS):
            absent = _absent(catalog, tests, urns)
            while absent:
                proposals = [replace(tests[urn].proposal, headers=condition) for urn in absent]
                refused = catalog.write(proposals)
                for one in refused:
                    if not isinstance(one, AspectChangedError):
                        return f"{tests[one.urn].file}: a metadata test cannot be created: {one}"
                # Another writer created one of them, so each round leaves fewer.
                absent = _absent(catalog, tests, [one.urn for one in refused])
                if len(absent) == len(proposals):
                    return f"the metadata test {absent[0]} cannot be created: {refused[0]}"
    except CANNOT_ANSWER as error:
        return f"the recipe's metadata tests cannot be created: {error.message}"
    return None


def _absent(catalog: Catalog, tests: Mapping[str, FileTest], urns: Sequence[str]) -> Sequence[str]:
    """Return the `urns` that the catalog lacks; a test that differs there is an error."""
    stored = catalog.read_many(urns, [TEST_INFO])
    absent = []
    for urn in urns:
        info = stored.get(urn, {}).get(TEST_INFO)
        if info is None:
            absent.append(urn)
        elif (field := _difference(tests[urn].proposal.aspect, info.value)) is not None:
            raise RecipeError(
                f"{tests[urn].file}: the metadata test {urn} has another {field} in the catalog",
                hint="edit the file, or update the catalog: mlcat-ingest catalog tests push "
                f"{tests[urn].file}",
            )
    return absent


def _difference(own: Aspect, stored: Aspect) -> str | None:
    """Return the first field in which the file and the catalog differ, else None.

    Definitions are compared as JSON, whatever their white space.
    """
    for field, value in own.items():
        values: list[object] = [value, stored.get(field)]
        if field == "definition":
            texts = [(one or {}).get("json") for one in (value, stored.get(field))]
            values = [json_or_none(text) or text for text in texts]
        if values[0] != values[1]:
            return field
    return None


ShowVerdicts = Callable[[Evaluation, Mapping[str, Aspect], Collection[str]], set[str]]
"""Shows what was found on the entities, and returns those where that was refused, which it reports.

The second argument is `testInfo` by URN, of tests that the catalog may lack, the third the entities
that this recipe has no more, and others have.
"""

EVALUATED: Final = frozenset({"mlModel", "mlModelGroup", "mlFeature", "mlFeatureTable"})
"""Entity types whose metadata tests are evaluated."""


class Evaluator:
    """Evaluates entities in batches until the service says that it cannot."""

    def __init__(
        self,
        context: RunContext,
        spec: EvaluateSpec,
        *,
        complete: bool = False,
        verdicts: VerdictWriter | None = None,
        show: ShowVerdicts | None = None,
    ) -> None:
        """Evaluate through the catalog; nothing is called if `spec` switches it off.

        With `complete`, entities without a result are evaluated too: the quality gate needs them.
        `verdicts` are written back before they are kept, and `show` shows them.
        """
        self._context = context
        self._spec = spec
        self._complete = complete
        self._verdicts = verdicts
        self._show = show
        self._file_tests: Mapping[str, Aspect] = {}
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._service = context.sink.evaluator
        self._client = ClientEvaluator(context.sink)
        self._may_use_client = spec.where != "service" and context.sink.facts.keeps
        self._uses_client = self._may_use_client and spec.where == "client"
        self._lacks_call = ""
        """How the service said that it lacks the call, for which the client is used."""
        self._over = not spec.enabled
        if self._over:
            self._stop("switched off in the recipe")

    def open(self) -> None:
        """Read the tests in the recipe's files, and create those that the catalog lacks.

        A test that may not be created ends the evaluation, not the run.

        Raises:
            RecipeError: a file cannot be used, or the catalog holds one of its tests otherwise.

        Cost: without files none, else one read and one write for a batch of tests.
        """
        if self._over or not self._spec.test_files:
            return
        tests = read_test_files(self._spec.test_files)
        self._file_tests = {urn: test.proposal.aspect for urn, test in tests.items()}
        self._client.add_tests(self._file_tests)
        sink = self._context.sink
        if sink.facts.keeps and (problem := _create_tests(sink, tests)) is not None:
            self._stop(problem)

    def _stop(self, reason: str) -> None:
        self._over = True
        self._context.ledger.evaluated(Evaluation(not_evaluated=reason))

    def add(self, urns: Iterable[str]) -> None:
        """Take URNs that were written, and evaluate each batch that they fill."""
        full = []
        with self._lock:
            self._waiting.extend(urn for urn in urns if entity_type_of(urn) in EVALUATED)
            while len(self._waiting) >= MAX_REQUEST_ITEMS:
                full.append(self._waiting[:MAX_REQUEST_ITEMS])
                del self._waiting[:MAX_REQUEST_ITEMS]
        for batch in full:
            self._evaluate(batch)

    def take(self, outcomes: Sequence[Outcome]) -> None:
        """Take what became of entities, and evaluate each batch that they fill.

        A client that evaluates need not read what was merged. To what is removed no test applies.
        """
        removed = [
            one.merged
            for one in outcomes
            if one.was_written
            and one.merged.is_removed
            and not one.refusals
            and one.merged.entity_type in EVALUATED
        ]
        if removed and self._show is not None and not self._over and self._is_showing:
            ended = {merged.urn: TestOutcome() for merged in removed if _is_gone(merged)}
            left = [merged.urn for merged in removed if merged.urn not in ended]
            # What is refused of these, only the report says: nothing evaluates them again.
            self._show(Evaluation(ended), self._file_tests, left)
        gone = {"rejected", "left_out"}
        here = [one for one in outcomes if one.kind not in gone and not one.merged.is_removed]
        written = [outcome for outcome in here if outcome.was_written]
        if self._uses_client and not self._over:
            self._client.keep_written(
                {one.urn: _written_aspects(one.merged) for one in written if one.exact}
            )
        self.add([outcome.urn for outcome in written])
        self.add_unchanged([outcome.urn for outcome in here if not outcome.was_written])

    def add_unchanged(self, urns: Sequence[str]) -> None:
        """Take URNs that had nothing to write, if the recipe's scope is every entity.

        The quality gate needs them too, if no results of earlier runs are kept.
        """
        unknown = self._complete and not self._context.state.database.lasting
        if unknown or (self._spec.scope == "all" and not self._over):
            removed = self._context.state.entities.removed(urns)
            self.add(urn for urn in urns if urn not in removed)

    def flush(self) -> None:
        """Evaluate what still waits for its batch to fill."""
        with self._lock:
            batch, self._waiting = self._waiting, []
        if batch:
            self._evaluate(batch)

    def catch_up(self, parts: Iterable[PartitionPass]) -> None:
        """Evaluate entities that were written earlier and have no result.

        A killed run leaves such entities. Full passes look for them, and for the quality gate every
        pass. For the gate, a full pass also evaluates all of its entities again: a service does not
        report which tests have changed. The client knows the tests, so after a change of them it
        evaluates all entities again.

        Cost: two statements for each 500 records of the parts, one request a batch of entities
        that are evaluated; where the client evaluates, it reads the tests.
        """
        complete, passes = self._complete, list(parts)
        if self._over and not complete:
            return
        digest = self._digest(passes)
        for part in passes:
            full = part.full is not None
            changed = digest is not None and part.tests != digest
            if complete or full or changed:
                again = changed or (complete and full)
                known = self._context.state.entities
                for urns in known.urns_without_result(part.part_id, again=again):
                    self.add(urns)
        self.flush()
        if digest is not None and not self._over:
            self._context.ledger.evaluated_all(passes, digest)

    def _digest(self, passes: Sequence[PartitionPass]) -> str | None:
        """Return the digest of the tests, and of the verdicts that are shown, as far as known.

        That of the tests is, if the client evaluates, or did in an earlier run.
        """
        if self._over or not passes:
            return None
        known = None
        earlier = self._may_use_client and any(part.tests.partition(_SHOWN)[0] for part in passes)
        if earlier or self._uses_client:
            tests = self._client.tests(self._spec.test_urns)
            self._context.ledger.evaluated(Evaluation(unevaluated=tests.unevaluated))
            known = tests.digest if tests.problem is None else None
        return f"{known or ''}{_SHOWN}{self._spec.verdicts.digest}" if self._is_showing else known

    @property
    def _is_showing(self) -> bool:
        """Whether verdicts are shown, or were by an earlier run: these are taken back."""
        parts = self._context.state.partition_passes()
        return bool(self._spec.verdicts.digest) or any(_SHOWN in part.tests for part in parts)

    def _ask(self, batch: list[str]) -> Evaluation:
        """Have the service evaluate, or the client: from the start, or once that lacks the call."""
        how: dict[str, Any] = {
            "should_push": self._spec.should_push,
            "test_urns": self._spec.test_urns,
        }
        if not self._uses_client:
            evaluation = self._service.evaluate_batch(batch, **how)
            if not (evaluation.lacks_call and self._may_use_client):
                return evaluation
            if not self._uses_client:
                self._lacks_call = str(evaluation.not_evaluated)
                log.info("%s: evaluating them in the client", self._lacks_call)
                self._uses_client = True
        evaluation = self._client.evaluate_batch(batch, **how)
        if evaluation.not_evaluated is None or not self._lacks_call:
            return evaluation
        both = f"{self._lacks_call}; in the client: {evaluation.not_evaluated}"
        return Evaluation(not_evaluated=both, where="client")

    def _evaluate(self, batch: list[str]) -> None:
        self._context.cancellation.check()
        evaluation = Evaluation()
        if not self._over:
            evaluation = self._ask(batch)
            self._over |= evaluation.not_evaluated is not None
        outcomes = evaluation.outcomes
        without = {urn for urn in batch if urn not in outcomes} if self._complete else set[str]()
        failed = set() if self._verdicts is None else self._verdicts.write(outcomes)
        if self._show is not None and outcomes and self._is_showing:
            failed |= self._show(evaluation, self._file_tests, ())
        if not self._complete:
            without |= failed  # so that the next full pass evaluates them again
        self._context.ledger.evaluated(evaluation, without)


def _is_gone(merged: MergedEntity) -> bool:
    """Return whether the catalog has an entity marked as removed, now that it is written."""
    marks = [one.aspect for one in merged.proposals if one.aspect_name == STATUS]
    return marks[-1].get("removed") is True if marks else is_removed(merged.stored)


def _written_aspects(merged: MergedEntity) -> Mapping[str, Aspect | None]:
    """Return the aspects of an entity after its acknowledged write, None for a missing aspect.

    Of an entity that is not new, only the written aspects are known. `versionProperties` are left
    out, since the service computes the latest version; so are groups, since a renaming copies
    entries of others to them afterwards.
    """
    entity_type = merged.entity_type
    if entity_type not in EVALUATED or entity_type == "mlModelGroup":
        return NOTHING
    aspects: dict[str, Aspect | None] = {}
    if merged.change == "created":
        aspects.update(dict.fromkeys((*merged.entity.aspects, TEST_RESULTS)))
    for proposal in merged.proposals:
        is_deleted = proposal.change_type == "DELETE"
        aspects[proposal.aspect_name] = None if is_deleted else proposal.aspect
    aspects.pop(VERSION_PROPERTIES, None)
    return aspects
