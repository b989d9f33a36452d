"""Parents of runs: which runs have children, and the names of those parents.

MLflow lists a parent before its children, and nothing about it says that it has any. So a parent is
known from the last pass, or by a child that was listed; one that was yielded before that is read
again by its id.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING, SAFE_ID, RunFilter
from mlcat_ingest.sources.mlflow.values.records import PARENT_TAG, Run, name_of

RECENT_NAMES: Final = 5_000
"""Runs whose names are held, those that were listed or asked for last: 1 MiB."""


class ParentRuns:
    """The runs of one workspace that have children, in the trash or not, as one pass finds them.

    Cost: one request for each 100 runs that have a parent whose name is not held; memory for the
    ids of all parents.
    """

    def __init__(self, before: Collection[str] = ()) -> None:
        """Start with the parents `before` this pass."""
        self._before = frozenset(before)
        self._seen: set[str] = set()
        self._yielded: set[str] = set()
        self._every: Collection[str] | None = None
        self._names: OrderedDict[str, str | None] = OrderedDict()

    def settle(self, every: Collection[str]) -> None:
        """Take `every` parent there is, whatever is listed from now on."""
        self._every = every

    def add(
        self, page: Sequence[Run], list_runs: Callable[[RunFilter], Iterator[Sequence[Run]]] | None
    ) -> None:
        """Take note of the parents of some runs; with `list_runs` find all their names."""
        named = {parent for run in page if (parent := run.tags.get(PARENT_TAG))}
        self._seen |= named
        if list_runs is None:
            return
        self._keep_names(page)
        for parent in named & self._names.keys():
            self._names.move_to_end(parent)
        missing = sorted(filter(SAFE_ID.fullmatch, named - self._names.keys()))
        for some in chunks(missing, IDS_A_LISTING):
            self._names.update(dict.fromkeys(some))
            for found in list_runs(RunFilter(run_ids=tuple(some))):
                self._keep_names(found)

    def _keep_names(self, runs: Sequence[Run]) -> None:
        for run in runs:
            self._names[run.run_id] = name_of(run)
        while len(self._names) > RECENT_NAMES:
            self._names.popitem(last=False)

    def name_of_parent(self, run: Run) -> str | None:
        """Return the name of the parent of a run of the page that was added last."""
        parent = run.tags.get(PARENT_TAG)
        return self._names.get(parent) if parent else None

    def has_children(self, run: Run) -> bool | None:
        """Return whether a run that is about to be yielded has children, None where it may have."""
        if self._every is not None:
            return run.run_id in self._every
        if run.run_id in self._seen or run.run_id in self._before:
            self._yielded.add(run.run_id)
            return True
        return None

    def corrections(self, *, complete: bool) -> list[str]:
        """Return the ids of runs of which too little or too much was said; it settles all.

        `complete` says that all children are listed, so a parent of which none is has none any
        more.
        """
        if self._every is not None:
            return []
        every = self._seen if complete else self._seen | self._before
        self.settle(every)
        known = self._yielded if complete else self._yielded | self._before
        return sorted(filter(SAFE_ID.fullmatch, every ^ known))
