"""Ingestion: a recipe made ready to run, its sources, its sink and its options put together."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.environment import package_version
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGateOptions
from mlcat_ingest.pipeline.report.catalog import RecipeListing
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.progress import OnProgress
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.run import OnReport, PipelineRun, RunOptions
from mlcat_ingest.pipeline.state.session import StateOptions, StatePolicy, StateSession, names_of
from mlcat_ingest.pipeline.write.delivery import Delivery, OnWritten
from mlcat_ingest.recipe import secrets
from mlcat_ingest.recipe.fields import content_of
from mlcat_ingest.recipe.model import Recipe, dead_letter_file
from mlcat_ingest.sources.base import Capability, Runs, Source
from mlcat_ingest.workflows.resolve import ResolvedRecipe, resolve

if TYPE_CHECKING:
    from mlcat_ingest.workflows.plan import Plan
    from mlcat_ingest.workflows.plan_impact import Impact
    from mlcat_ingest.workflows.retract import Retraction


@dataclass(frozen=True, slots=True)
class NamedRunsResult:
    """The outcome of an ingestion of named runs and registered models.

    No source found the `unknown` runs. Something of the `refused` runs and models did not arrive.
    """

    report: Report
    unknown: Sequence[str] = ()
    refused: frozenset[str] = frozenset()


class Pipeline:
    """A recipe made ready to run, as often as wanted.

    Examples:
        >>> report = Pipeline(Recipe.load("recipe.yml")).run()
        >>> report.exit_code, report.arrived
        (0, True)
    """

    def __init__(self, recipe: Recipe | ResolvedRecipe) -> None:
        """Resolve the recipe's types and check their configuration; nothing is contacted.

        Raises:
            RecipeError: a type is not installed, a configuration is wrong, or there is no sink.
        """
        resolved = recipe if isinstance(recipe, ResolvedRecipe) else resolve(recipe)
        if resolved.sink is None:
            raise RecipeError(
                f"the recipe {resolved.recipe.name!r} has no sink",
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
        adopt_since_ms: int | None = None,
        gate: QualityGateOptions | None = None,
        changes: OnWritten | None = None,
        run_id: str | None = None,
    ) -> Report:
        """Run once and return the report, which has the error of a failed run.

        `progress` is called from the calling thread, about five times a second, at least once;
        `keep` gets the current report at the start and every few seconds.
        `full` ignores checkpoints, and compares all with the catalog; `accept_renaming` allows a
        recipe whose naming options changed. `adopt_since_ms` takes over what other states of the
        recipe's name wrote that have not written since, and implies `full`. `gate` names the
        metadata tests that must not fail.
        `changes` gets each change that the catalog acknowledged. `run_id` is kept with each aspect
        that the run writes, in place of an identifier of its own.
        """
        recipe = self._resolved.recipe
        full |= adopt_since_ms is not None
        state_options = state_options_of(recipe, full=full, accept_renaming=accept_renaming)
        options = RunOptions(
            recipe,
            adopt_since_ms=adopt_since_ms,
            dead_letters=DeadLetters(recipe.dead_letter_file),
            state=StateSession(recipe.state.url, state_options),
            quality_gate=gate,
            listing=listing_of(self._resolved),
            run_id=run_id,
        )
        delivery = partial(Delivery, on_written=changes)
        run = PipelineRun(self.build_sources(), self.build_sink(), options, delivery)
        return run.execute(progress, keep)

    def run_named(
        self,
        named: Runs,
        *,
        dead_letters: Path | None = None,
        more: bool = False,
        changes: OnWritten | None = None,
    ) -> NamedRunsResult:
        """Bring named runs and registered models into the catalog, as a run of the recipe would.

        Of `deleted` models what MLflow has no more is removed. It keeps no state and takes no lock,
        so it can be beside a run at work: the next run reads the same again. With `more`, a later
        call adds to `dead_letters` and deletes nothing there.
        """
        recipe = self._resolved.recipe
        letters: list[str] = []
        sink = self.build_sink()
        names = StateOptions(recipe.name, recipe.writer_ids or ())
        if sink.facts.keeps:
            names = names_of(recipe.state.url, names, sink.address)
        options = RunOptions(
            recipe,
            dead_letters=DeadLetters(dead_letters, letters.append, add=more),
            state=StateSession(None, names),
            scope=named,
        )
        able = {Capability.RUNS, Capability.FEATURES}
        sources = [source for source in self.build_sources() if able & source.capabilities]
        run = PipelineRun(sources, sink, options, partial(Delivery, on_written=changes))
        report = run.execute()
        unknown = [run_id for run_id in named.ids if run_id not in run.found_ids]
        return NamedRunsResult(report, unknown, _refused_names(named, letters))

    def plan(
        self,
        progress: OnProgress | None = None,
        *,
        full: bool = False,
        accept_renaming: bool = False,
        adopt_since_ms: int | None = None,
        gate: QualityGateOptions | None = None,
    ) -> "Plan":
        """Find what `run` would write, and write nothing anywhere; the caller closes the plan.

        It runs the stages of a run on a copy of the recipe's state, and reads the same records.
        Its report has the error of a failed plan. `gate` names metadata tests that must not fail:
        the client evaluates them on the planned entities.
        """
        from mlcat_ingest.workflows.plan import make_plan

        recipe = self._resolved.recipe
        full |= adopt_since_ms is not None
        state_options = state_options_of(recipe, full=full, accept_renaming=accept_renaming)
        state = StateSession(recipe.state.url, state_options, StatePolicy.COPY)
        return make_plan(
            recipe,
            self.build_sources(),
            self.build_sink(),
            state,
            progress=progress,
            gate=gate,
            adopt_since_ms=adopt_since_ms,
        )

    def impacts(self, plan: "Plan") -> "Iterator[Impact]":
        """Return which models use each feature table and feature that `plan` removes.

        Raises:
            RecipeError: the sink holds nothing that could be asked.
            MlcatError: the catalog cannot be reached, or does not answer.
        """
        sink = self.build_sink()
        if not sink.facts.keeps:
            raise RecipeError(
                "the sink keeps no models, so the users of a feature are unknown",
                hint="omit --impact, or use a catalog as the sink",
            )
        return _impacts(sink, plan)

    def retraction(
        self, name: str | None = None, adopt_since_ms: int | None = None
    ) -> "Retraction":
        """Return what takes back what this recipe wrote, to be used as a context.

        With `name` it is what the recipe of that name wrote to the same catalog; no source is read
        for that, since that recipe may no longer exist. `adopt_since_ms` is as for `run`.

        Raises:
            RecipeError: the sink holds nothing that could be taken back.
        """
        from mlcat_ingest.workflows.retract import Retraction

        recipe = self._resolved.recipe
        named = recipe.name if name is None else name
        is_own = named == recipe.name
        return Retraction(
            named,
            self.build_sources() if is_own else [],
            self.build_sink(),
            recipe.state.url,
            recipe.dead_letter_file if is_own else dead_letter_file(recipe.base_dir, named),
            recipe.writer_ids if is_own else None,
            adopt_since_ms,
        )

    def build_sources(self) -> list[Source[Any]]:
        """Return the recipe's sources, in the order in which they are read; none is contacted."""
        sources = [source.build() for source in self._resolved.sources]
        # Links from runs are checked against the features that this run wrote.
        sources.sort(key=lambda source: Capability.FEATURES not in source.capabilities)
        return sources

    def build_sink(self) -> Catalog:
        """Return the recipe's catalog; nothing is contacted."""
        return self._sink.build()


def _impacts(sink: Catalog, plan: "Plan") -> "Iterator[Impact]":
    from mlcat_ingest.workflows.plan_impact import find_impacts

    try:
        sink.open(read_only=True)
        yield from find_impacts(sink, plan.feature_removals())
    finally:
        sink.close(complete=False)


def listing_of(resolved: ResolvedRecipe) -> RecipeListing | None:
    """Return how the catalog lists a run, None where the recipe does not want that."""
    if resolved.sink is None or not resolved.recipe.report_to_catalog:
        return None
    return RecipeListing(
        sources=tuple(source.type for source in resolved.sources),
        sink=resolved.sink.type,
        version=f"mlcat-ingest {package_version()}",
    )


def state_options_of(recipe: Recipe, *, full: bool, accept_renaming: bool) -> StateOptions:
    """Return the options by which a run trusts its state.

    Mapping and merge are part of the program, so its version is among the settings.
    """
    return StateOptions(
        recipe=recipe.name,
        writer_ids=recipe.writer_ids,
        settings=content_hash([secrets.comparable(content_of(recipe)), package_version()]),
        full_every_s=recipe.state.full_every.seconds,
        full=full,
        accept_renaming=accept_renaming,
    )


def _refused_names(named: Runs, letters: Iterable[str]) -> frozenset[str]:
    """Return the runs and registered models that dead letters are about, by the names in them.

    All are returned where one says nothing of that, such as that of an experiment: it may be of
    any.
    """
    refused: set[str] = set()
    for letter in letters:
        about = [run_id for run_id in named.ids if run_id in letter]
        # The name of a model may be a part of another.
        about += [
            name for name in named.models if re.search(rf"\b{re.escape(name)}(?=_|\b)", letter)
        ]
        if not about:
            return frozenset((*named.ids, *named.models))
        refused.update(about)
    return frozenset(refused)
