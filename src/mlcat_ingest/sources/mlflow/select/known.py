"""Finds new runs with old dates, such as imports: MLflow does not report when a run was created.

Each pass saves how many runs of each experiment started before it. The reader of a database saves
a digest of their ids. If the next pass finds another number or digest, the experiment is listed
whole.
"""

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.sources.mlflow.read.listing import EXPERIMENTS_A_LISTING, chunks
from mlcat_ingest.sources.mlflow.read.reader import Reader, RunFilter
from mlcat_ingest.sources.mlflow.values.records import Run

log = logging.getLogger(__name__)

COUNTS_A_LISTING: Final = 40
"""Requests for numbers of runs of 2,000 experiments; where these do not suffice, more experiments
than necessary are listed whole."""

_BEFORE: Final = "before_ms"
_RUNS: Final = "runs"
_FROM: Final = "runs_from_ms"


class KnownRuns:
    """The number or digest of the runs of each experiment that started before this pass.

    Over MLflow's API a number is tested by one request for any number of experiments: is there a
    run at the position of the last one, and none behind it? If as many runs were added as others
    were deleted for good, that no pass had seen in the trash, only digests show it.

    `last_ms` is the `before_ms` of the last pass, None where everything has to be read.

    Cost: a request for each 2,000 experiments, and two for each halving of those with another
    number; for a database one statement.
    """

    def __init__(
        self, reader: Reader, before_ms: int, checkpoint: Mapping[str, Any] | None = None
    ) -> None:
        """Count the runs before `before_ms`; compare with the `checkpoint` of the last pass."""
        last = checkpoint or {}
        self.before_ms = before_ms
        self.last_ms: int | None = last.get(_BEFORE)
        self._reader = reader
        self._last: Mapping[str, Any] = last.get(_RUNS) or {}
        self._from_ms: int | None = last.get(_FROM)
        self._digests: Mapping[str, str] | None = None
        self._counts: dict[str, int] = {}
        self._purged: Mapping[str, int] = {}
        self._listed: frozenset[str] = frozenset()
        self._requests_left = 0

    def checkpoint(self) -> Mapping[str, object]:
        """Return what the next pass compares with."""
        runs = self._counts if self._digests is None else self._digests
        return {_BEFORE: self.before_ms, _RUNS: dict(runs), _FROM: self._from_ms}

    def changed(
        self, experiment_ids: Sequence[str], purged: Mapping[str, int] = MappingProxyType({})
    ) -> list[str]:
        """Return the experiments, among all, that are unknown, or have other runs than before.

        `purged` are the numbers of runs that were in the trash, and were deleted for good since the
        last full pass.
        """
        self._purged = purged
        last = self._last
        moments = (self.last_ms or 0, self.before_ms)
        digests = self._reader.run_digests(experiment_ids, moments)
        if digests is not None:
            before, self._digests = digests
            return [id_ for id_ in experiment_ids if last.get(id_) != before[id_]]
        # A digest is that of another reader of the same store.
        known = [id_ for id_ in experiment_ids if isinstance(last.get(id_), int)]
        self._counts = {id_: last[id_] for id_ in known}
        different = [id_ for id_ in experiment_ids if id_ not in self._counts]
        try:
            for ids in chunks(known, EXPERIMENTS_A_LISTING):
                self._requests_left = COUNTS_A_LISTING
                different += self._with_other_numbers(ids)
        except ProtocolMismatchError as error:
            log.info(
                "cannot count runs; the next full pass reads new ones with old dates: %s", error
            )
        return different

    def whole(self, experiment_ids: Collection[str], only: RunFilter) -> Iterator[list[Run]]:
        """Yield all runs of `only` of some experiments in pages, oldest first; asked once."""
        self._listed = frozenset(experiment_ids)
        self._counts.update((id_, self._purged.get(id_, 0)) for id_ in experiment_ids)
        if not self._last:
            self._from_ms = only.since_ms
        return self._list(experiment_ids, only, 0, self._listed)

    def later(self, experiment_ids: Collection[str], only: RunFilter) -> Iterator[list[Run]]:
        """Yield the runs of `only` that started since the last pass in pages; asked last."""
        rest = frozenset(experiment_ids) - self._listed
        return self._list(experiment_ids, only, self.last_ms or 0, rest)

    def _list(
        self,
        experiment_ids: Collection[str],
        only: RunFilter,
        since_ms: int,
        counted: Collection[str],
    ) -> Iterator[list[Run]]:
        """Yield the runs of `only` that started at `since_ms` or later, and count them."""
        ids = list(experiment_ids)
        if self._digests is not None:
            later = max(since_ms, only.since_ms or 0) or None
            yield from self._reader.runs(ids, only=replace(only, since_ms=later))
            return
        # A number of runs in one status would change with each run that ends.
        later = max(since_ms, self._from_ms or 0) or None
        for page in self._reader.runs(ids, only=replace(only, statuses=(), since_ms=later)):
            for run in page:
                if run.experiment_id in counted and (run.start_time_ms or 0) < self.before_ms:
                    self._counts[run.experiment_id] += 1
            yield [run for run in page if only.accepts(run)]

    def _with_other_numbers(self, ids: Sequence[str], *, differ: bool = False) -> Iterator[str]:
        """Yield those of some experiments that have another number of runs than before.

        That they `differ` together may be known already.
        """
        if self._requests_left and not differ and self._has_same_number(ids):
            return
        if len(ids) == 1 or not self._requests_left:
            yield from ids
            return
        half = len(ids) // 2
        first = list(self._with_other_numbers(ids[:half]))
        yield from first
        yield from self._with_other_numbers(ids[half:], differ=not first)

    def _has_same_number(self, ids: Sequence[str]) -> bool:
        number = sum(self._counts[id_] - self._purged.get(id_, 0) for id_ in ids)
        last = RunFilter(
            since_ms=self._from_ms, before_ms=self.last_ms, skip=max(number - 1, 0), limit=2
        )
        self._requests_left -= 1
        return sum(map(len, self._reader.runs(ids, only=last))) == min(number, 1)
