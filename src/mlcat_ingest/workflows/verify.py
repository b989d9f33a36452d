"""Verification: a full plan that writes nothing and ignores the state, summed up.

The plan reads each entity of the sources by name. A search of the catalog should list those that
are stored and live, too: a page of the catalog shows only what the search finds.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from tempfile import TemporaryDirectory
from typing import Any, Final

from mlcat_ingest.core.resources import Closing
from mlcat_ingest.core.text import plural, printable
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.pipeline.report.progress import OnProgress
from mlcat_ingest.pipeline.report.render import note_lines
from mlcat_ingest.pipeline.report.report import EXIT_OK, EXIT_PARTIAL, UNREAD, UNSEEN, Report
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession, known_writer_ids
from mlcat_ingest.pipeline.write.searchable import SHOWN, LiveEntities, SearchResult
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.plan import Plan, make_plan
from mlcat_ingest.workflows.plan_diff import EntityDiff
from mlcat_ingest.workflows.plan_render import Line, first_entity_lines
from mlcat_ingest.workflows.resolve import ResolvedRecipe

_NOUNS: Final = {
    "dataProcessInstance": ("process instance",),
    "mlFeature": ("feature",),
    "mlFeatureTable": ("feature table",),
    "mlModel": ("model",),
    "mlModelGroup": ("group of models", "groups of models"),
    "mlPrimaryKey": ("primary key",),
}


class Verification(Closing):
    """A verification: the plan behind it, and what of it is a difference.

    Closing it deletes the plan's temporary file.
    """

    def __init__(self, plan: Plan, search: SearchResult) -> None:
        self._plan = plan
        self.search = search
        for _ in plan.entities():
            pass  # `totals` counts them
        self.report: Report = plan.report
        self.compared = sum(
            counts.written + counts.unchanged + counts.still_removed
            for counts in plan.report.entities.values()
        )
        self.left_out = sum(counts.left_out for counts in plan.report.entities.values())
        actions = plan.totals.actions.values()
        self.missing = sum(counts["create"] + counts["revive"] for counts in actions)
        updates = sum(counts["update"] for counts in actions)
        self.stale = updates - plan.totals.bookkeeping.total()
        removals = sum(counts["remove"] for counts in actions)
        self.to_be_removed = removals + len(plan.next_removals)

    @property
    def exit_code(self) -> int:
        """0 where nothing differs, 4 where something does or was not compared, else the error's."""
        code = self.report.exit_code
        if code not in {EXIT_OK, EXIT_PARTIAL}:
            return code
        differing = self.missing or self.stale or self.to_be_removed or self.search.not_searchable
        return EXIT_PARTIAL if differing else code

    def differing(self) -> Iterator[EntityDiff]:
        """Yield the entities of which more than this package's own keys differ."""
        for entity in self._plan.entities():
            if entity.aspects or entity.action != "update":
                yield entity

    def lines(self, *, details: bool = False) -> Iterator[Line]:
        """Yield the summary, then the first entities that differ.

        If nothing differs, the summary is a sentence; the numbers are `details`.
        """
        is_ok = self.exit_code == EXIT_OK and self.search.not_searchable == 0 and self.compared
        if is_ok:
            all_known = (UNSEEN | UNREAD).isdisjoint(self.report.notes)
            values = "all their values" if all_known else "their values"
            far = "" if all_known else ", as far as they were listed and read"
            yield Line(f"OK: {self._contents()} and {values} are in the catalog{far}.")
        if details or not is_ok:
            yield Line(self._summary())
        yield from map(Line, note_lines(self.report, UNSEEN | UNREAD))
        yield from first_entity_lines(self.differing())
        for urn in self._plan.next_removals[:SHOWN]:
            yield Line(printable(f"- remove {urn} with the next pass"), "removed")
        for urn in self.search.lacking:
            yield Line(printable(f"! not searchable now: {urn}"), "changed")
        if self.search.lacking:
            yield Line("a full pass (--full) writes them again, so that the search finds them")

    def _contents(self) -> str:
        """Return the counted entities, those that were removed apart: `19 models, 1 removed`."""
        parts: list[str] = []
        for entity_type, counts in self.report.entities.items():
            there = counts.written + counts.unchanged
            if there or counts.still_removed:
                parts.append(plural(there, *_NOUNS.get(entity_type, (entity_type,))))
            if counts.still_removed:
                parts.append(f"{counts.still_removed:,} removed")
        return ", ".join(parts)

    def _summary(self) -> str:
        text = (
            f"{plural(self.compared, 'entity', 'entities')} compared, {self.missing:,} missing, "
            f"{self.stale:,} stale, {self.to_be_removed:,} to be removed"
        )
        if self.left_out:
            text += f", {self.left_out:,} left out"
        unread = self.report.failed_records + self.report.rejected
        if unread:
            text += f", {unread:,} not comparable"
        search = self.search
        if search.problem is not None:
            return f"{text}; stored but not searchable now: not known, {search.problem}"
        if search.recent:
            text += f", {search.recent:,} on their way into the search index"
        return f"{text}, {search.not_searchable:,} stored but not searchable now"

    def data(self) -> dict[str, Any]:
        """Return the summary as JSON data."""
        return {
            "kind": "verification",
            "name": self.report.name,
            "compared": self.compared,
            "missing": self.missing,
            "stale": self.stale,
            "to_be_removed": self.to_be_removed,
            "left_out": self.left_out,
            "not_searchable": self.search.not_searchable,
            "not_searchable_urns": list(self.search.lacking),
            "stored": self.search.stored,
            "found": self.search.found,
            "index_is_behind": self.search.recent > 0,
            "failed_records": self.report.failed_records,
            "rejected": self.report.rejected,
        }

    def close(self) -> None:
        """Delete the plan's file; safe to call twice."""
        self._plan.close()


def verify(resolved: ResolvedRecipe, progress: OnProgress | None = None) -> Verification:
    """Compare the catalog of a recipe with all of its sources; the caller closes the result.

    Its report has the error of a plan that failed. Limits of the recipe do not end it.

    Raises:
        RecipeError: the recipe has no sink, or one that cannot be read.
        MlcatError: the catalog cannot be searched for lack of an answer.

    Cost: a full reading of the sources, a request to the catalog for each batch of entities, and
    one for each 1,000 that a search lists.
    """
    pipeline, recipe = Pipeline(resolved), resolved.recipe
    sink = pipeline.build_sink()
    if not sink.facts.keeps:
        raise RecipeError(
            "the sink of the recipe cannot be read, so there is nothing to verify",
            hint="set `sink` to a catalog, of type `rest` or `embedded`",
        )
    limits = recipe.limits.model_copy(update={"max_new_entities": 2**63, "max_removed_ratio": 1.0})
    ids = recipe.writer_ids or known_writer_ids(recipe.state.url, recipe.name)
    options = StateOptions(recipe.name, ids, full=True)
    with LiveEntities() as live, TemporaryDirectory(prefix="mlcat-") as folder:
        plan = make_plan(
            recipe.model_copy(update={"limits": limits}),
            pipeline.build_sources(),
            sink,
            # An empty state of its own: without any, no entity would be to be removed.
            StateSession(f"sqlite:///{folder}/state.db", options),
            progress=progress,
            on_read=live.add,
        )
        with ExitStack() as unless_returned:
            unless_returned.callback(plan.close)
            search = SearchResult(problem="the plan was not completed")
            if plan.report.failure is None and not plan.report.interrupted:
                with closing(pipeline.build_sink()) as catalog:
                    catalog.open(read_only=True)
                    search = live.search(catalog, time.sleep)
            unless_returned.pop_all()
            return Verification(plan, search)
