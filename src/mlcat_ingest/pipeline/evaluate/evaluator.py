"""Evaluation: the metadata tests of what was written, in batches, once it is durable."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mlcat_ingest.client.base import Evaluates, Evaluation
from mlcat_ingest.client.evaluator import ClientEvaluator, FallbackEvaluator
from mlcat_ingest.metadata.aspects.assets import TEST_RESULTS
from mlcat_ingest.metadata.aspects.common import VERSION_PROPERTIES
from mlcat_ingest.metadata.codec import plain
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.evaluate.recipe_tests import create_tests
from mlcat_ingest.pipeline.evaluate.write_back import VerdictWriter
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.report.dead_letters import DeliveryOutcome
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.recipe.metadata_test_files import read_test_files
from mlcat_ingest.recipe.model import EvaluateSpec

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
    ) -> None:
        """Evaluate through the catalog; nothing is called if `spec` switches it off.

        With `complete`, entities without a result are evaluated too: the quality gate needs them.
        `verdicts` are written back before they are kept.
        """
        self._context = context
        self._spec = spec
        self._complete = complete
        self._verdicts = verdicts
        self._results = context.tracker.results
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._client = ClientEvaluator(context.sink)
        self._fallback = FallbackEvaluator(context.sink.evaluator, self._client)
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
        self._client.add_tests({urn: test.proposal.aspect for urn, test in tests.items()})
        sink = self._context.sink
        if sink.facts.keeps and (problem := create_tests(sink, tests)) is not None:
            self._stop(problem)

    def _stop(self, reason: str) -> None:
        self._over = True
        self._context.tally.tests_evaluated(Evaluation(not_evaluated=reason))

    @property
    def _may_use_client(self) -> bool:
        return self._spec.where != "service" and self._context.sink.facts.keeps

    @property
    def _evaluates(self) -> Evaluates:
        if not self._may_use_client:
            return self._context.sink.evaluator
        return self._client if self._spec.where == "client" else self._fallback

    @property
    def _client_evaluates(self) -> bool:
        chosen = self._evaluates
        return chosen is self._client or (chosen is self._fallback and self._fallback.uses_client)

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

    def add_written(self, delivered: Iterable[DeliveryOutcome]) -> None:
        """Take entities that arrived, and evaluate each batch that they fill.

        A client that evaluates need not read what was merged.
        """
        outcomes = list(delivered)
        if self._client_evaluates and not self._over:
            self._client.keep_written(
                {
                    outcome.merged.urn: _written_aspects(outcome.merged)
                    for outcome in outcomes
                    if outcome.exact
                }
            )
        self.add([outcome.merged.urn for outcome in outcomes])

    def add_unchanged(self, urns: Sequence[str]) -> None:
        """Take URNs that had nothing to write, if the recipe's scope is every entity.

        The quality gate needs them too, if no results of earlier runs are kept.
        """
        unknown = self._complete and not self._results.lasting
        if unknown or (self._spec.scope == "all" and not self._over):
            self.add(self._results.present(urns))

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
                for urns in self._results.urns_without_result(
                    [part.part_id], again=changed or (complete and full)
                ):
                    self.add(urns)
        self.flush()
        if digest is not None and not self._over:
            self._results.save_tests(passes, digest)

    def _digest(self, passes: Sequence[PartitionPass]) -> str | None:
        """Return the digest of the tests, if the client evaluates, or did in an earlier run."""
        if self._over or not passes or not self._may_use_client:
            return None
        earlier = any(part.tests for part in passes)
        if self._spec.where == "auto" and not (earlier or self._fallback.uses_client):
            return None
        tests = self._client.tests(self._spec.test_urns)
        self._context.tally.tests_unevaluated(tests.unevaluated)
        return tests.digest if tests.problem is None else None

    def _evaluate(self, batch: list[str]) -> None:
        self._context.cancellation.check()
        if self._over:
            self._miss(batch)
            return
        evaluation = self._evaluates.evaluate_batch(
            batch, should_push=self._spec.should_push, test_urns=self._spec.test_urns
        )
        if evaluation.not_evaluated is not None:
            self._over = True
        self._context.tally.tests_evaluated(evaluation)
        outcomes = evaluation.outcomes
        failed = set() if self._verdicts is None else self._verdicts.write(outcomes)
        if failed and not self._complete:
            # Without a result, the next full pass evaluates them again.
            self._results.save_missing(failed)
            outcomes = {urn: outcomes[urn] for urn in outcomes if urn not in failed}
        self._results.save(outcomes)
        self._miss(urn for urn in batch if urn not in evaluation.outcomes)

    def _miss(self, urns: Iterable[str]) -> None:
        if self._complete:
            self._results.save_missing(list(urns))


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
    if merged.outcome == "created":
        aspects.update(dict.fromkeys((*merged.entity.aspects, TEST_RESULTS)))
    for proposal in merged.proposals:
        aspects[proposal.aspect_name] = (
            None if proposal.change_type == "DELETE" else plain(proposal.aspect)
        )
    aspects.pop(VERSION_PROPERTIES, None)
    return aspects
