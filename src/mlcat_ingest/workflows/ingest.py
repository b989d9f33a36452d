"""A recipe made ready to run: its sources, its sink and its options, put together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlcat_ingest
from mlcat_ingest.client.base import Catalog
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.pipeline.evaluate.gate import GateOptions
from mlcat_ingest.pipeline.report.catalog import RecipeListing
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import OnProgress, OnReport, PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.memory import StateOptions
from mlcat_ingest.pipeline.state.session import StatePolicy, StateSession
from mlcat_ingest.recipe import secrets
from mlcat_ingest.recipe.fields import content_of
from mlcat_ingest.recipe.model import EvaluateSpec, Recipe
from mlcat_ingest.sources.base import Capability, Runs, Source
from mlcat_ingest.workflows.named_runs import Brought, refused_among
from mlcat_ingest.workflows.plan.plan import Plan
from mlcat_ingest.workflows.plan.spool import PlanSpool
from mlcat_ingest.workflows.plan.stages import PlannedCatalog, PlannedDelivery
from mlcat_ingest.workflows.resolve import Resolved, resolve
from mlcat_ingest.workflows.retract.retraction import Retraction


class Pipeline:
    """A recipe made ready to run, as often as wanted.

    Example:
        `Pipeline(Recipe.load("recipe.yml")).run().exit_code`
    """

    def __init__(self, recipe: Recipe | Resolved) -> None:
        """Resolve the recipe's types and check their configuration; nothing is contacted.

        Raises:
            RecipeError: a type is not installed, a configuration is wrong, or there is no sink.
        """
        resolved = recipe if isinstance(recipe, Resolved) else resolve(recipe)
        if resolved.sink is None:
            raise RecipeError(
                f"the recipe {resolved.recipe.name!r} does not say where to write",
                hint="add `sink: {type: rest, config: {server: …}}`",
            )
        self._resolved = resolved
        self._sink = resolved.sink

    def run(
        self,
        progress: OnProgress | None = None,
        keep: OnReport | None = None,
        *,
        full: bool = False,
        accept_renaming: bool = False,
        gate: GateOptions | None = None,
    ) -> Report:
        """Run once and return the report; what ended it early is in it (`raise_for_failure`).

        `progress` is called from the calling thread, about five times a second, at least once;
        `keep` takes the report as it stands, at the start and every few seconds.
        `full` reads and compares everything, whatever is remembered; `accept_renaming` goes on
        where the recipe names things another way than before. `gate` names the metadata tests
        that must not fail.
        """
        recipe = self._resolved.recipe
        state_options = state_options_of(recipe, full=full, accept_renaming=accept_renaming)
        options = RunOptions(
            recipe,
            dead_letters=recipe.dead_letter_file,
            state=StateSession(recipe.state.url, state_options, mask=secrets.mask),
            gate=gate,
            listing=listing_of(self._resolved),
        )
        return PipelineRun(self._sources(), self._build_sink(), options).execute(progress, keep)

    def run_named(
        self, run_ids: Sequence[str], *, dead_letters: Path | None = None, more: bool = False
    ) -> Brought:
        """Bring these runs of MLflow into the catalog, as a run of the recipe would.

        It keeps no state and takes no lock, so it can be beside a run at work: nothing is removed,
        and the next run reads the same runs again. Where there are `more` of them than in one
        call, the later ones leave in `dead_letters` what is there.
        """
        recipe = self._resolved.recipe
        letters: list[str] = []
        options = RunOptions(
            recipe,
            dead_letters=dead_letters,
            add_dead_letters=more,
            on_dead_letter=letters.append,
            state=StateSession(
                recipe.state.url,
                StateOptions(recipe.name),
                StatePolicy.NAMES,
                secrets.mask,
            ),
            scope=Runs(run_ids),
        )
        able = {Capability.RUNS, Capability.FEATURES}
        sources = [one for one in self._sources() if able & one.capabilities]
        run = PipelineRun(sources, self._build_sink(), options)
        report = run.execute()
        unknown = [one for one in run_ids if one not in run.found_ids]
        return Brought(report, unknown, refused_among(run_ids, letters))

    def plan(
        self,
        progress: OnProgress | None = None,
        *,
        full: bool = False,
        accept_renaming: bool = False,
    ) -> Plan:
        """Find what `run` would write, and write nothing anywhere; the caller closes the plan.

        It goes through the stages of a run, with a copy of what the recipe remembers, so it reads
        what that run would read. What ended it early is in its report.
        """
        recipe = self._resolved.recipe
        state_options = state_options_of(recipe, full=full, accept_renaming=accept_renaming)
        options = RunOptions(
            recipe.model_copy(update={"evaluate": EvaluateSpec(enabled=False)}),
            state=StateSession(recipe.state.url, state_options, StatePolicy.COPY, secrets.mask),
            doing="comparing with",
        )
        sources, sink = self._sources(), self._build_sink()
        spool = PlanSpool()
        run = PipelineRun(
            sources, PlannedCatalog(sink, spool), options, lambda *_: PlannedDelivery(spool)
        )
        return Plan(run.execute(progress), spool, sink.batch_size)

    def retraction(self) -> Retraction:
        """Return what takes back what this recipe wrote, to be used as a context.

        Raises:
            RecipeError: the sink holds nothing that could be taken back.
        """
        recipe = self._resolved.recipe
        return Retraction(
            recipe.name,
            self._sources(),
            self._build_sink(),
            recipe.state.url,
            recipe.dead_letter_file,
            secrets.mask,
        )

    def _sources(self) -> list[Source[Any]]:
        sources = [source.build() for source in self._resolved.sources]
        # Links from runs are checked against the features that this run wrote.
        sources.sort(key=lambda source: Capability.FEATURES not in source.capabilities)
        return sources

    def _build_sink(self) -> Catalog:
        return self._sink.build()


def listing_of(resolved: Resolved) -> RecipeListing | None:
    """Return how the catalog lists a run, None where the recipe does not want that."""
    if resolved.sink is None or not resolved.recipe.report_to_catalog:
        return None
    return RecipeListing(
        sources=tuple(source.type for source in resolved.sources),
        sink=resolved.sink.type,
        version=f"mlcat-ingest {mlcat_ingest.__version__}",
    )


def state_options_of(recipe: Recipe, *, full: bool, accept_renaming: bool) -> StateOptions:
    """Return how far a run believes what is remembered."""
    return StateOptions(
        recipe=recipe.name,
        settings=content_hash(secrets.comparable(content_of(recipe))),
        full_every_s=recipe.state.full_every.seconds,
        full=full,
        accept_renaming=accept_renaming,
    )
