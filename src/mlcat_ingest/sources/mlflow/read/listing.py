"""How MLflow's listings are asked for: page sizes, order, filters, for every reader alike."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar

from mlcat_ingest.sources.mlflow.read.reader import ModelFilter, RunFilter
from mlcat_ingest.sources.mlflow.values.records import Run

ItemT = TypeVar("ItemT")

EXPERIMENTS_A_LISTING: Final = 2_000
"""Experiments named in one listing. MLflow puts them into one SQL statement, and of the databases
it runs on, SQL Server takes the fewest parameters: 2,100."""

EXPERIMENTS_PAGE: Final = 1_000
MODELS_PAGE: Final = 1_000
"""The most that MLflow gives in a page of registered models."""
VERSIONS_PAGE: Final = 10_000
FIRST_RUNS: Final = 50
"""Runs in the first page of a listing, which is asked for before it is known what a run takes."""
RUNS_A_SLICE: Final = 100
"""Runs of a page that are made records at a time: few, since records wait between all stages."""
PAGE_BYTES: Final = 6 * 1024 * 1024
SLICE_BYTES: Final = 2 * 1024 * 1024
"""What a page and a slice are kept to where runs are large; 500 of 20 parameters and 20 metrics are
3 MiB."""
ENTRIES_A_PAGE: Final = 40_000
ENTRIES_A_SLICE: Final = 10_000
"""The same in parameters, metrics and tags, where there are no bytes to count."""
LOGGED_MODELS_PAGE: Final = 1_000
LOGGED_MODELS_ORDER: Final = [{"field_name": "creation_timestamp", "ascending": True}]
"""In the order they were made, as runs are listed: what runs need comes up as they are read."""


def chunks(items: Sequence[ItemT], size: int) -> Iterator[Sequence[ItemT]]:
    """Yield `items` in pieces of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def models_filter(only: ModelFilter) -> str:
    """Return a filter of logged models in MLflow's search language."""
    clauses = []
    if only.updated_since_ms is not None:
        clauses.append(f"last_updated_timestamp >= {only.updated_since_ms}")
    if only.run_ids is not None:
        clauses.append(f"source_run_id IN {_quoted(only.run_ids)}")
    if only.model_ids is not None:
        clauses.append(f"model_id IN {_quoted(only.model_ids)}")
    return " AND ".join(clauses)


def _quoted(ids: Sequence[str]) -> str:
    listed = ", ".join(f"'{one}'" for one in ids)
    return f"({listed})"


def entries_of(runs: Iterable[Run]) -> int:
    """Return how many parameters, metrics and tags `runs` have."""
    return sum(len(run.params) + len(run.metrics) + len(run.tags) for run in runs)


class PageSize:
    """How many runs to take at a time: `most`, and fewer where these would weigh too much.

    A run may have thousands of parameters and metrics, and what a page takes depends on those. What
    the last page weighed tells how many runs fit into the next.
    """

    def __init__(self, most: int, weight: int) -> None:
        """Keep pages to `most` runs and about `weight`, in whatever unit `saw` is told."""
        self._most = most
        self._weight = weight
        self.runs = min(most, FIRST_RUNS)

    def saw(self, runs: int, weight: int) -> None:
        """Learn from so many runs that weighed so much."""
        if runs:
            self.runs = max(1, min(self._most, self._weight * runs // max(weight, 1)))


class RunsQuery:
    """One reading of runs: what is asked of the server, and what is left for us to do.

    Without a limit runs come oldest first: then new ones appear behind the place that is read,
    and offsets do not move. With a limit they come newest first.
    """

    def __init__(self, only: RunFilter, page_size: int) -> None:
        """Take a filter, and the most runs to ask for in one page."""
        self._only = only
        self._left = only.limit
        # MLflow compares a status with one value only, and has no "or".
        self._statuses = frozenset(only.statuses) if len(only.statuses) > 1 else None
        exact = self._statuses is None and only.limit is not None
        self.page_size = min(page_size, only.limit) if exact and only.limit else page_size
        self._exact = exact

    @property
    def filter(self) -> str:
        """The filter in MLflow's search language."""
        only, clauses = self._only, []
        if only.since_ms is not None:
            clauses.append(f"attributes.start_time >= {only.since_ms}")
        if only.before_ms is not None:
            clauses.append(f"attributes.start_time < {only.before_ms}")
        if only.ended_since_ms is not None:
            clauses.append(f"attributes.end_time >= {only.ended_since_ms}")
        if len(only.statuses) == 1:
            clauses.append(f"attributes.status = '{only.statuses[0]}'")
        if only.run_ids is not None:
            clauses.append(f"attributes.run_id IN {_quoted(only.run_ids)}")
        return " AND ".join(clauses)

    @property
    def view(self) -> Literal["ALL", "DELETED_ONLY"]:
        """MLflow's name for the life-cycle stages that are listed."""
        return "DELETED_ONLY" if self._only.deleted else "ALL"

    @property
    def order_by(self) -> list[str]:
        """The order in MLflow's search language; MLflow breaks ties by the run's id."""
        return [f"attributes.start_time {'ASC' if self._only.limit is None else 'DESC'}"]

    def body(self, experiment_ids: Sequence[str], count: int) -> Mapping[str, Any]:
        """Return the body of `runs/search` for a page of `count` runs, without a page token."""
        return {
            "experiment_ids": list(experiment_ids),
            "run_view_type": self.view,
            "max_results": count,
            "order_by": self.order_by,
            **({"filter": self.filter} if self.filter else {}),
        }

    def want(self) -> int | None:
        """Return how many runs a listing needs at most, None where that is not known."""
        return self._left if self._exact else None

    def taken(self, runs: list[Run]) -> list[Run]:
        """Return those of a page that are wanted, and count them."""
        if self._statuses is not None:
            runs = [run for run in runs if run.status in self._statuses]
        if self._left is not None:
            runs = runs[: self._left]
            self._left -= len(runs)
        return runs

    def satisfied(self) -> bool:
        """Return whether the limit is reached."""
        return self._left == 0
