"""A plan, or dry run: what a run would write, found by the run's own stages and kept in a file.

Nothing is written to the catalog; the temporary file is gone with the process.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.resources import Closing
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.evaluate.evaluator import showed_verdicts
from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGateOptions
from mlcat_ingest.pipeline.report.progress import OnProgress
from mlcat_ingest.pipeline.report.report import (
    EXIT_OK,
    EXIT_PARTIAL,
    EXIT_PENDING,
    EXIT_TESTS,
    Report,
)
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateSession, known_tests
from mlcat_ingest.recipe.model import EvaluateSpec, Recipe
from mlcat_ingest.sources.base import Source
from mlcat_ingest.workflows.plan_catalog import OnRead, PlannedCatalog, PlannedDelivery
from mlcat_ingest.workflows.plan_diff import Action, EntityDiff
from mlcat_ingest.workflows.plan_store import PlanStore


class PlannedRemoval(NamedTuple):
    """A feature or feature table that goes: with the run, or if the `next_pass` lacks it, too."""

    urn: str
    next_pass: bool


class _Totals:
    """Totals of a plan, counted as its entities pass."""

    def __init__(self, batch_size: int) -> None:
        """Start with none; a write request has up to `batch_size` proposals."""
        self.batch_size = batch_size
        self.actions: dict[str, Counter[Action]] = {}
        self.bookkeeping: Counter[str] = Counter()
        self.proposals = 0

    def add(self, diff: EntityDiff) -> None:
        """Count an entity."""
        kind = diff.entity_type
        counts = self.actions.setdefault(kind, Counter())
        counts[diff.action] += 1
        if diff.action == "update" and not diff.aspects:
            self.bookkeeping[kind] += 1
        self.proposals += diff.proposals

    @property
    def entities(self) -> int:
        """How many entities would be written."""
        return sum(counts.total() for counts in self.actions.values())

    @property
    def write_requests(self) -> int:
        """How many requests writing them would take at most, if nothing is refused."""
        return -(-self.proposals // self.batch_size)


class Plan(Closing):
    """A dry run's result: the differences by entity; `report` says how the planning went.

    Closing it deletes its temporary file.
    """

    def __init__(
        self,
        report: Report,
        store: PlanStore,
        batch_size: int = MAX_REQUEST_ITEMS,
        next_removals: Sequence[str] = (),
    ) -> None:
        """Take the result of the planning run; a write request has up to `batch_size` proposals.

        `next_removals` go if the next complete pass lacks them, too.
        """
        self.next_removals = next_removals
        self.report = report
        self.totals = _Totals(batch_size)
        self._store = store

    def entities(self) -> Iterator[EntityDiff]:
        """Yield what would happen to each entity, by type and URN; `totals` counts them."""
        self.totals = _Totals(self.totals.batch_size)
        for diff in self._store.diffs():
            self.totals.add(diff)
            yield diff

    def feature_removals(self) -> Iterator[PlannedRemoval]:
        """Yield the feature tables and features that go with the run, then with the next pass."""
        for urn in self._store.removed_features():
            yield PlannedRemoval(urn, next_pass=False)
        for urn in self.next_removals:
            if entity_type_of(urn) in {"mlFeatureTable", "mlFeature"}:
                yield PlannedRemoval(urn, next_pass=True)

    def exit_code(self, *, tell_pending: bool, affects_models: bool = False) -> int:
        """Return the exit status: that of a run, but for what only writing can tell.

        With `tell_pending` it is 5 where `totals` have something to write, and where that
        `affects_models`.
        """
        if self.report.exit_code not in {EXIT_OK, EXIT_PARTIAL}:
            return self.report.exit_code
        if self.report.gate is not None and not self.report.gate.passed:
            return EXIT_TESTS
        is_pending = affects_models or (tell_pending and self.totals.entities)
        return EXIT_PENDING if is_pending else EXIT_OK

    def close(self) -> None:
        """Delete the file; safe to call twice."""
        self._store.close()


def make_plan(
    recipe: Recipe,
    sources: Sequence[Source[Any]],
    sink: Catalog,
    state: StateSession,
    *,
    progress: OnProgress | None = None,
    gate: QualityGateOptions | None = None,
    on_read: OnRead | None = None,
    adopt_since_ms: int | None = None,
) -> Plan:
    """Run the stages of a run and write nothing to `sink`; the caller closes the plan.

    The client evaluates the metadata tests of `gate`, and those whose verdicts the recipe shows, or
    showed in its last run, on the planned entities. `on_read` gets what the catalog holds of each
    batch of entities.
    """
    evaluate = EvaluateSpec(enabled=False)
    shown = showed_verdicts(known_tests(recipe.state.url, recipe.name))
    if gate is not None or recipe.evaluate.verdicts.digest or shown:
        evaluate = recipe.evaluate.model_copy(
            update={"where": "client", "should_push": False, "write_back": False}
        )
    options = RunOptions(
        recipe.model_copy(update={"evaluate": evaluate}),
        quality_gate=gate,
        state=state,
        adopt_since_ms=adopt_since_ms,
        doing="comparing with",
    )
    store = PlanStore()
    planned = PlannedCatalog(sink, store, on_read)
    run = PipelineRun(sources, planned, options, lambda context, _: PlannedDelivery(store, context))
    return Plan(run.execute(progress), store, sink.facts.first_batch_size, run.next_removals)
