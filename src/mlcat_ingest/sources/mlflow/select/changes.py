"""Selects the runs of an incremental pass, which looks for changes since the last checkpoint.

MLflow tells when a run started and ended, but not when it was edited. A run is read again if it

- started or ended since the last pass, less an overlap for the clocks of those who log runs;
- had not ended when it was last read;
- is running again after its end, which MLflow keeps;
- is in the trash, or was there and is not any more;
- has other versions than before, or one of them or its logged model changed;
- is the child of a run that is read again, and that the recipe did not take before;
- could not be mapped, or was refused by the catalog;
- belongs to an experiment that is new, or was renamed, deleted or restored;
- belongs to an experiment with new runs that have old dates (see `known`).

A registered model or version that is not listed any more is asked for by its name.

MLflow also does not tell when metrics, parameters or tags were added to a logged model. So the
newest external models are read again, besides those that were made or finished since the last pass,
and the versions of all these.

Edits long after the end of a run are found by the next full pass. Versions and registered
models are listed whole: a version is read again with its run, and by itself if it changed.

Runs that are new and have old dates, such as imports, are found by counts: MLflow does not report
when a run was created. Each pass saves how many runs of each experiment started before it. The
reader of a database saves a digest of their ids. If the next pass finds another number or digest,
the experiment is listed whole.
"""

import logging
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import unquote

from mlcat_ingest.core.paging import chunks
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.metadata.aliases import Sighting, listing
from mlcat_ingest.sources.base import PartitionState
from mlcat_ingest.sources.mlflow.read.listing import EXPERIMENTS_A_LISTING, id_pieces
from mlcat_ingest.sources.mlflow.read.reader import ModelFilter, Reader, RunFilter
from mlcat_ingest.sources.mlflow.select.scopes import ALIASES_LISTED, EveryRun
from mlcat_ingest.sources.mlflow.values.joined import (
    EXPERIMENT,
    LOGGED_MODEL,
    NO_TRACE,
    REGISTERED,
    RUN,
    VERSION,
    experiment_fingerprint,
    names_fingerprint,
    storable,
    traces_in,
    version_fingerprint,
    version_id,
)
from mlcat_ingest.sources.mlflow.values.records import (
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)

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
        self._counts = defaultdict[str, int](int)
        self._purged: Mapping[str, int]
        self._requests_left: int

    def checkpoint(self) -> Mapping[str, object]:
        """Return what the next pass compares with."""
        runs = self._counts if self._digests is None else self._digests
        return {_BEFORE: self.before_ms, _RUNS: dict(runs), _FROM: self._from_ms}

    def runs(
        self,
        experiment_ids: Sequence[str],
        only: RunFilter,
        moved: Iterable[str] = (),
        purged: Mapping[str, int] = MappingProxyType({}),
    ) -> Iterator[list[Run]]:
        """Yield the runs of `only` that started since the last pass in pages; asked once.

        Before them all runs, oldest first, of the experiments that are `moved` or unknown, or have
        other runs than before. `purged` are the numbers of runs that were in the trash, and were
        deleted for good since the last full pass.
        """
        self._purged = purged
        whole = dict.fromkeys((*moved, *self._changed(experiment_ids)))
        self._counts.update((id_, purged.get(id_, 0)) for id_ in whole)
        if not self._last:
            self._from_ms = only.since_ms
        if whole:
            yield from self._list(list(whole), only, None, whole)
        if self.last_ms is not None:
            rest = frozenset(experiment_ids).difference(whole)
            yield from self._list(experiment_ids, only, self.last_ms, rest)

    def _changed(self, experiment_ids: Sequence[str]) -> list[str]:
        """Return the experiments, among all, that are unknown, or have other runs than before."""
        last = self._last
        moments = (self.last_ms or self.before_ms, self.before_ms)
        digests = self._reader.run_digests(experiment_ids, moments)
        if digests is not None:
            before, self._digests = digests
            return [id_ for id_ in experiment_ids if last.get(id_) != before[id_]]
        # A digest is that of another reader of the same store.
        known = [id_ for id_ in experiment_ids if isinstance(last.get(id_), int)]
        self._counts.update((id_, last[id_]) for id_ in known)
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

    def _list(
        self,
        experiment_ids: Sequence[str],
        only: RunFilter,
        since_ms: int | None,
        counted: Container[str],
    ) -> Iterator[list[Run]]:
        """Yield the runs of `only` that started at `since_ms` or later, and count them."""
        listed = only
        if self._digests is None:
            # A number of runs in one status would change with each run that ends.
            listed = replace(only, statuses=(), since_ms=self._from_ms)
        moments = [moment for moment in (since_ms, listed.since_ms) if moment is not None]
        listed = replace(listed, since_ms=max(moments, default=None))
        for page in self._reader.runs(experiment_ids, only=listed):
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


log = logging.getLogger(__name__)

OPEN_RUNS: Final = 1_000
"""Runs without an end that a pass reads again, those that started last."""

TRASHED_RUNS: Final = 2_000
"""Runs in the trash that a pass lists, those that started last."""

RESUMED: Final = "RUNNING"
"""The status of a run that was resumed."""

ANY_END_MS: Final = -(10**15)
"""A time before every end: clocks were wrong, and imports have dates before 1970."""

RUNS_BY_ID: Final = 2_000
"""Runs that a pass asks for by their ids; where there are more it lists all runs."""


class ChangedRuns(EveryRun):
    """The runs and versions of one workspace that a pass reads again.

    Cost: six listings that are short where little changed, and a request for each 100 runs that
    are asked for by id. Memory for the ids of the runs that are read again.
    """

    lists_all = False

    def __init__(
        self, reader: Reader, only: RunFilter, known: KnownRuns, state: PartitionState
    ) -> None:
        """Read the runs of `only` that changed since the last pass, which `state` remembers."""
        super().__init__(reader, only)
        self._known = known
        self._state = state
        self._seen: set[str] = set()
        self._stale: list[ModelVersion] = []
        self._runs_of_models: set[str] = set()
        self._touched_external: list[LoggedModel] = []
        self._traces = traces_in(state.fingerprints(RUN))

    def runs(self) -> Iterator[list[Run]]:
        """Yield the runs to read again in pages, each once."""
        ids, only, since_ms = list(self.experiments), self.only, self._known.last_ms
        purged: Mapping[str, int] = {}
        trash: set[str] = set()
        for page in self._reader.runs(ids, only=replace(only, deleted=True, limit=TRASHED_RUNS)):
            trash.update(run.run_id for run in page)
            yield from self._unseen([page])
        if len(trash) < TRASHED_RUNS:
            before = {run_id: trace.trash for run_id, trace in self._traces.items() if trace.trash}
            yield from self._by_id(before.keys() - trash)
            purged = Counter(before[run_id] for run_id in before.keys() - trash - self._seen)
        moved = self._changed_experiments()
        yield from self._unseen(self._known.runs(ids, only, moved, purged))
        yield from self._list_runs(replace(only, ended_since_ms=since_ms, before_ms=since_ms))
        if not only.statuses or RESUMED in only.statuses:
            resumed = replace(only, statuses=(RESUMED,), ended_since_ms=ANY_END_MS)
            yield from self._list_runs(resumed)
        wanted = {
            *self._open(),
            *self._registered_anew(),
            *self._runs_of_models,
            *self._state.dirty(RUN),
        }
        yield from self._by_id(wanted - self._seen)
        seen = self._seen - {""}
        children = {run_id for run_id, trace in self._traces.items() if trace.lacks in seen}
        yield from self._by_id(children - seen)

    def models(self) -> Sequence[str]:
        """Return the names of the models to read, where not all those with a run of before."""
        if self.is_whole:
            return super().models()
        return [
            version.name
            for run_id, versions in self.versions.by_run.items()
            if self._traces.get(run_id, NO_TRACE).versions
            for version in versions
        ]

    def awaited(self) -> Sequence[ModelVersion]:
        """Return the versions that are others than before, or whose logged model changed.

        Those that could not be mapped, or were refused by the catalog, are among them.
        """
        ids = list(self.experiments)
        only = ModelFilter(updated_since_ms=self._known.last_ms)
        touched = self._reader.logged_models(ids, only=only)
        touched_models = self._add_runs_of(touched, self._touched_external)
        before, dirty = self._state.joined_fingerprints(VERSION), set(self._state.dirty(VERSION))
        for version in self.versions.every():
            name, model = version_id(version), self.registered.get(version.name)
            if (
                name in dirty
                or before.get(name) != version_fingerprint(version, model)
                or version.model_id in touched_models
            ):
                self._stale.append(version)
        named = {version.model_id or "" for version in self._stale if not version.run_id}
        for model_ids in id_pieces(named - touched_models):
            only = ModelFilter(model_ids=model_ids)
            self._add_runs_of(self._reader.logged_models(ids, only=only))
        return self._stale

    def sightings(self, model: RegisteredModel) -> Iterable[Sighting]:
        """Return where the aliases of a listed model were seen: by this listing, and the last."""
        now = super().sightings(model)
        match (self._state.checkpoint or {}).get(ALIASES_LISTED):
            case [int(begin_ms), int(end_ms), dict(aliases)] if model.name in aliases:
                return (*listing(aliases[model.name], begin_ms, end_ms), *now)
        return now

    def lost(self) -> set[str]:
        """Return the names of registered models that are not listed now, or not every version."""
        known = {*self._state.joined_fingerprints(VERSION), *self._state.fingerprints(REGISTERED)}
        known.difference_update(map(version_id, self.versions.every()))
        known.difference_update(map(storable, self.registered))
        return {unquote(id_.partition("/")[0], errors="surrogatepass") for id_ in known}

    def external_models(
        self, newest: Iterable[Sequence[LoggedModel]]
    ) -> Iterator[Sequence[LoggedModel]]:
        """Yield the external models to read again in pages, some twice; asked after `awaited`.

        They include the `newest` ones, if a pass has read any before. Their versions are added to
        those of `awaited`, since they have what the model has.
        """
        for page in self._external_pages(newest):
            if ids := {model.model_id for model in page} & self.versions.model_ids:
                self._stale += (one for one in self.versions.every() if one.model_id in ids)
            yield page

    def _external_pages(
        self, newest: Iterable[Sequence[LoggedModel]]
    ) -> Iterator[Sequence[LoggedModel]]:
        yield self._touched_external
        moved = self._changed_experiments()
        if moved:
            yield from self._reader.logged_models(moved)
        for model_ids in id_pieces(self._state.dirty(LOGGED_MODEL)):
            only = ModelFilter(model_ids=model_ids)
            yield from self._reader.logged_models(list(self.experiments), only=only)
        if self._state.fingerprints(LOGGED_MODEL):
            yield from newest

    def _list_runs(self, only: RunFilter) -> Iterator[list[Run]]:
        return self._unseen(self._reader.runs(list(self.experiments), only=only))

    def _unseen(self, pages: Iterable[Sequence[Run]]) -> Iterator[list[Run]]:
        for page in pages:
            fresh = [run for run in page if run.run_id not in self._seen]
            self._seen.update(run.run_id for run in fresh)
            yield fresh

    def _changed_experiments(self) -> list[str]:
        before = self._state.fingerprints(EXPERIMENT)
        return [
            experiment_id
            for experiment_id, experiment in self.experiments.items()
            if before.get(experiment_id) != experiment_fingerprint(experiment)
        ]

    def _open(self) -> list[str]:
        starts = {
            run_id: trace.open_ms
            for run_id, trace in self._traces.items()
            if trace.open_ms is not None
        }
        if len(starts) > OPEN_RUNS:
            log.info("%s unfinished; reading the latest %d", plural(len(starts), "run"), OPEN_RUNS)
        return sorted(starts, key=starts.__getitem__, reverse=True)[:OPEN_RUNS]

    def _registered_anew(self) -> Iterator[str]:
        """Yield the runs that have other versions than before, or one that changed."""
        now = self.versions.by_run
        yield from (version.run_id for version in self._stale if version.run_id)
        for run_id, trace in self._traces.items():
            if trace.versions and names_fingerprint(now.get(run_id, ())) != trace.versions:
                yield run_id

    def _add_runs_of(
        self, pages: Iterable[Sequence[LoggedModel]], external: list[LoggedModel] | None = None
    ) -> set[str]:
        """Have the runs read that made models; return the ids of these, keep the `external`."""
        ids: set[str] = set()
        for model in chain.from_iterable(pages):
            ids.add(model.model_id)
            if not model.is_external:
                self._runs_of_models.add(model.source_run_id or "")
            elif external is not None:
                external.append(model)
        return ids

    def _by_id(self, wanted: Iterable[str]) -> Iterator[list[Run]]:
        pieces = list(id_pieces(wanted))
        if sum(map(len, pieces)) > RUNS_BY_ID:
            yield from self._list_runs(self.only)
            return
        for run_ids in pieces:
            yield from self._list_runs(replace(self.only, run_ids=run_ids))
