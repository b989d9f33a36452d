"""Evaluation: the metadata tests of what was written, in batches, once it is durable."""

import threading
from collections.abc import Iterable, Sequence
from typing import Final

from mlcat_ingest.client.base import Catalog, Evaluation
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.flow.queues import Gate
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.state.memory import PartitionPass
from mlcat_ingest.pipeline.state.outcomes import Outcomes
from mlcat_ingest.recipe.model import EvaluateSpec

EVALUATED: Final = frozenset({"mlModel", "mlModelGroup", "mlFeature", "mlFeatureTable"})
"""Entity types whose metadata tests are evaluated."""


class Evaluator:
    """Evaluates entities in batches until the service says that it cannot."""

    def __init__(
        self,
        sink: Catalog,
        spec: EvaluateSpec,
        outcomes: Outcomes,
        tally: Tally,
        gate: Gate,
        *,
        complete: bool = False,
    ) -> None:
        """Evaluate through `sink`; nothing is called if `spec` switches it off.

        `complete` says that something depends on the results: what has none is evaluated too.
        """
        self._sink = sink
        self._spec = spec
        self._complete = complete
        self._outcomes = outcomes
        self._tally = tally
        self._gate = gate
        self._lock = threading.Lock()
        self._waiting: list[str] = []
        self._over = not spec.enabled
        if self._over:
            tally.evaluated(Evaluation(not_evaluated="switched off in the recipe"))

    def add(self, urns: Iterable[str]) -> None:
        """Take URNs that were written, and evaluate each batch that they fill."""
        if self._over and not self._complete:
            return
        full = []
        with self._lock:
            self._waiting.extend(urn for urn in urns if entity_type_of(urn) in EVALUATED)
            while len(self._waiting) >= MAX_REQUEST_ITEMS:
                full.append(self._waiting[:MAX_REQUEST_ITEMS])
                del self._waiting[:MAX_REQUEST_ITEMS]
        for batch in full:
            self._evaluate(batch)

    def add_unchanged(self, urns: Sequence[str]) -> None:
        """Take URNs that had nothing to write, where the recipe's scope is every entity.

        Also where something depends on results, and there are none of earlier runs.
        """
        unknown = self._complete and not self._outcomes.lasting
        if unknown or (self._spec.scope == "all" and not self._over):
            self.add(self._outcomes.present(urns))

    def flush(self) -> None:
        """Evaluate what still waits for its batch to fill."""
        with self._lock:
            batch, self._waiting = self._waiting, []
        if batch:
            self._evaluate(batch)

    def catch_up(self, parts: Iterable[PartitionPass]) -> None:
        """Evaluate what was written earlier and has no result.

        A run that was killed leaves such entities: full passes find them, and, if something
        depends on results, every pass. Then a full pass evaluates all of its entities anew: tests
        change, too, and nothing tells which.

        Cost: two statements for each 500 records of the parts, one request a batch of entities
        that are evaluated.
        """
        complete = self._complete
        if self._over and not complete:
            return
        for one in parts:
            full = one.full is not None
            if complete or full:
                for urns in self._outcomes.untested([one.part_id], again=complete and full):
                    self.add(urns)
        self.flush()

    def _evaluate(self, batch: list[str]) -> None:
        self._gate.check()
        if self._over:
            self._miss(batch)
            return
        evaluation = self._sink.evaluator.evaluate_batch(
            batch, should_push=self._spec.should_push, test_urns=self._spec.test_urns
        )
        if evaluation.not_evaluated is not None:
            self._over = True
        self._tally.evaluated(evaluation)
        self._outcomes.save(evaluation.outcomes)
        self._miss(urn for urn in batch if urn not in evaluation.outcomes)

    def _miss(self, urns: Iterable[str]) -> None:
        if self._complete:
            self._outcomes.without_result(list(urns))
