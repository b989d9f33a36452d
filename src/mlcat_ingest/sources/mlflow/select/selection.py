"""Filters of the experiments and runs that a recipe asks for, and their division into shards."""

import logging
from collections.abc import Callable, Collection, Iterator
from typing import Final
from urllib.parse import quote

from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.sources.base import Shard
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import Reader, RunFilter
from mlcat_ingest.sources.mlflow.values.records import HISTORY_TAG, UNENDED, Run

log = logging.getLogger(__name__)
_FIRST_STEP: Final = 32
"""Experiments with fewer runs than this are taken for equal."""


def is_chosen(config: MlflowConfig, run: Run) -> bool:
    """Return whether a run is asked for, were it no child, nor a registered version's."""
    chosen = config.runs.select
    has_model = bool(run.model_outputs) or HISTORY_TAG in run.tags
    return chosen == "all" or (chosen == "with_model" and has_model)


def takes_every_run(config: MlflowConfig) -> bool:
    """Return whether no filter leaves runs of the chosen experiments out."""
    chosen = config.runs
    filters = chosen.statuses or chosen.since is not None or config.limit is not None
    return (chosen.select, chosen.children) == ("all", "include") and not filters


def reads_changes(config: MlflowConfig) -> bool:
    """Return whether an incremental pass is enough, once everything was read."""
    every = config.limit is not None or config.runs.children == "collapse"
    return config.incremental.enabled and not every


def listed_runs(config: MlflowConfig, *, already_read: int) -> RunFilter:
    """Return what the server can filter itself."""
    chosen, limit = config.runs, config.limit
    # A limit is of runs listed, and children are counted whether their parent is taken or not.
    every = limit is not None or chosen.children == "collapse"
    return RunFilter(
        since_ms=chosen.since_ms(),
        statuses=tuple(chosen.statuses),
        limit=None if limit is None else limit - already_read,
        select="all" if every else chosen.select,
    )


def is_abandoned(config: MlflowConfig, run: Run, clock_ms: Callable[[], int]) -> bool:
    """Return whether a run has not ended for longer than the recipe gives it.

    The time counts from the start, or from the former end of a run that was resumed.
    The clock is asked only where it matters: for a database that is a transaction.
    """
    after = config.runs.stale_running_after
    if after is None or run.status not in UNENDED or run.start_time_ms is None:
        return False
    since_ms = max(run.start_time_ms, run.end_time_ms or run.start_time_ms)
    return clock_ms() - since_ms > 1000 * after.seconds


def check_divisible(config: MlflowConfig) -> None:
    """Return if runs of different experiments can be read apart.

    Raises:
        RecipeError: the recipe counts over all of them.
    """
    counting = "limit" if config.limit is not None else ""
    if config.runs.children == "collapse":
        counting = "runs.children: collapse"
    if counting:
        raise RecipeError(
            f"the source mlflow cannot be read in shards with `{counting}`: it spans experiments",
            hint=f"run the recipe as a whole, or delete `{counting}`",
        )


def shards_of(reader: Reader, config: MlflowConfig) -> Iterator[Shard]:
    """Yield the experiments of a workspace that are asked for and have runs.

    Cost: the listing of experiments; for each, one request and one for each doubling of its runs
    beyond 32.
    """
    counts = True
    for page in reader.experiments():
        for experiment in page:
            if not config.experiments.allows(experiment.name):
                continue
            size = 1
            if counts:
                try:
                    size = _about(reader, experiment.experiment_id)
                except ProtocolMismatchError as error:
                    counts = False
                    log.info("cannot count runs; giving experiments equal size: %s", error)
            if size:
                key = _key(reader.workspace, experiment.experiment_id)
                yield Shard(key, experiment.name, size)


def _about(reader: Reader, experiment_id: str) -> int:
    """Return how many runs an experiment has, no more than a third off where they are many."""
    if not _has_more_runs(reader, experiment_id, 0):
        return 0
    bound = _FIRST_STEP
    while _has_more_runs(reader, experiment_id, bound):
        bound *= 2
    return bound * 3 // 4


def _has_more_runs(reader: Reader, experiment_id: str, count: int) -> bool:
    return any(reader.runs([experiment_id], only=RunFilter(limit=1, skip=count)))


def _key(workspace: str, experiment_id: str) -> str:
    return f"{quote(workspace, safe='')}/{experiment_id}"


def experiment_ids_of(keys: Collection[str], workspace: str) -> frozenset[str]:
    """Return the ids of the experiments of a workspace that are in the shards `keys`."""
    start = _key(workspace, "")
    return frozenset(key.removeprefix(start) for key in keys if key.startswith(start))
