"""Which experiments and runs a recipe asks for."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import RunFilter
from mlcat_ingest.sources.mlflow.values.names import HISTORY_TAG, PARENT_TAG
from mlcat_ingest.sources.mlflow.values.records import UNENDED, Experiment, Run


@dataclass(frozen=True, slots=True)
class RunSelection:
    """The recipe's filters.

    `collapse` and `skip` leave child runs out, but for those behind a registered version: a
    registered model keeps all its versions. `collapse` counts them on their top-most parent.
    """

    config: MlflowConfig

    def experiment(self, experiment: Experiment) -> bool:
        """Return whether an experiment is asked for."""
        return self.config.experiments.allows(experiment.name)

    def run(self, run: Run, *, registered: bool) -> bool:
        """Return whether a run is asked for; `registered` says if a version was made from it."""
        if registered:
            return True
        chosen = self.config.runs
        if chosen.children != "include" and run.tags.get(PARENT_TAG):
            return False
        if chosen.select == "with_model":
            return bool(run.model_outputs) or HISTORY_TAG in run.tags
        return chosen.select == "all"

    @property
    def collapses(self) -> bool:
        """Whether child runs are counted on their parents."""
        return self.config.runs.children == "collapse"

    def listing(self, *, already_read: int = 0) -> RunFilter:
        """Return what the server can filter itself."""
        chosen, limit = self.config.runs, self.config.limit
        # A limit is of runs listed, and children are counted whether their parent is taken or not.
        every = limit is not None or self.collapses
        return RunFilter(
            since_ms=chosen.since_ms(),
            statuses=tuple(chosen.statuses),
            limit=None if limit is None else limit - already_read,
            select="all" if every else chosen.select,
        )

    def abandoned(self, run: Run, clock_ms: Callable[[], int]) -> bool:
        """Return whether a run has not ended for longer than the recipe gives it.

        The clock is asked only where it matters: for a database that is a transaction.
        """
        after = self.config.runs.stale_running_after
        if after is None or run.status not in UNENDED or run.start_time_ms is None:
            return False
        return clock_ms() - run.start_time_ms > 1000 * after.seconds

    @property
    def reads_changes(self) -> bool:
        """Whether what changed is enough to know about, if the rest was read before."""
        config = self.config
        return config.incremental.enabled and config.limit is None and not self.collapses


def count_children(pages: Iterable[Sequence[Run]]) -> Mapping[str, int]:
    """Return how many active runs stand below each top-most parent, at any depth.

    Cost: holds two ids a child run until all pages are read.
    """
    parents: dict[str, str] = {}
    for page in pages:
        for run in page:
            parent = run.tags.get(PARENT_TAG)
            if parent and run.lifecycle_stage != "deleted":
                parents[run.run_id] = parent
    return Counter(_top(child, parents) for child in parents)


def _top(child: str, parents: Mapping[str, str]) -> str:
    seen = {child}
    top = parents[child]
    while top in parents and top not in seen:  # a loop of parents would never end
        seen.add(top)
        top = parents[top]
    return top
