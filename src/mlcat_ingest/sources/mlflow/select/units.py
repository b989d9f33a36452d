"""The units of an MLflow server: its experiments, each with about how many runs it has."""

import logging
from collections.abc import Collection, Iterator
from typing import Final
from urllib.parse import quote

from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.sources.base import Unit
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.reader import Reader
from mlcat_ingest.sources.mlflow.select.selection import RunSelection

log = logging.getLogger(__name__)

_FIRST_STEP: Final = 32
"""Experiments with fewer runs than this are taken for equal."""


def refuse_to_split(config: MlflowConfig) -> None:
    """Return if runs of different experiments can be read apart.

    Raises:
        RecipeError: the recipe counts over all of them.
    """
    counting = "limit" if config.limit is not None else ""
    if config.runs.children == "collapse":
        counting = "runs.children: collapse"
    if counting:
        raise RecipeError(
            f"`{counting}` of the source mlflow counts runs of all experiments, so it cannot be "
            "read in shards",
            hint="run the recipe as a whole, or leave that out",
        )


def units_of(reader: Reader, selection: RunSelection) -> Iterator[Unit]:
    """Yield the experiments of a workspace that are asked for and have runs.

    Cost: the listing of experiments; for each, one request and one for each doubling of its runs
    beyond 32.
    """
    counts = True
    for page in reader.experiments():
        for one in filter(selection.experiment, page):
            size = 1
            if counts:
                try:
                    size = _about(reader, one.experiment_id)
                except ProtocolMismatchError as error:
                    counts = False
                    log.info("runs cannot be counted, so experiments count as equal: %s", error)
            if size:
                yield Unit(_key(reader.workspace, one.experiment_id), one.name, size)


def _about(reader: Reader, experiment_id: str) -> int:
    """Return how many runs an experiment has, no more than a third off where they are many."""
    if not reader.has_run(experiment_id, 0):
        return 0
    bound = _FIRST_STEP
    while reader.has_run(experiment_id, bound):
        bound *= 2
    return bound * 3 // 4


def _key(workspace: str, experiment_id: str) -> str:
    return f"{quote(workspace, safe='')}/{experiment_id}"


def ids_in(keys: Collection[str], workspace: str) -> frozenset[str]:
    """Return the ids of the experiments of a workspace that are among the units `keys`."""
    start = _key(workspace, "")
    return frozenset(key.removeprefix(start) for key in keys if key.startswith(start))
