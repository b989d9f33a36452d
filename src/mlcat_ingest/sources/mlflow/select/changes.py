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

MLflow also does not tell when metrics, parameters or tags were added to a logged model. So the
newest external models are read again, besides those that were made or finished since the last pass.

Edits long after the end of a run are found by the next full pass. Versions and registered
models are listed whole: a version is read again with its run, and by itself if it changed.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mlcat_ingest.core.text import plural
from mlcat_ingest.sources.base import PartitionState
from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import (
    IDS_A_LISTING,
    SAFE_ID,
    ModelFilter,
    Reader,
    RunFilter,
)
from mlcat_ingest.sources.mlflow.select.joins import VersionsByOrigin, logged_model_id
from mlcat_ingest.sources.mlflow.select.known import KnownRuns
from mlcat_ingest.sources.mlflow.values.joined import (
    EXPERIMENT,
    LOGGED_MODEL,
    OPEN,
    RUN,
    TRASH,
    VERSION,
    experiment_fingerprint,
    lacking_parents,
    names_fingerprint,
    names_in,
    version_fingerprint,
    version_id,
)
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)

log = logging.getLogger(__name__)

OPEN_RUNS: Final = 1_000
"""Runs without an end that a pass reads again, those that started last."""

TRASHED_RUNS: Final = 2_000
"""Runs in the trash that a pass lists, those that started last."""

RESUMED: Final = "RUNNING"
"""The status of a run that was resumed."""

RUNS_BY_ID: Final = 2_000
"""Runs that a pass asks for by their ids; where there are more it lists all runs."""


class ChangedRuns:
    """The runs and versions of one workspace that a pass reads again.

    Cost: six listings that are short where little changed, and a request for each 100 runs that
    are asked for by id. Memory for the ids of the runs that are read again.
    """

    def __init__(
        self, reader: Reader, state: PartitionState, only: RunFilter, known: KnownRuns
    ) -> None:
        """Read the runs of `only` that changed since the last pass, which `state` remembers."""
        self._reader = reader
        self._state = state
        self._only = only
        self._known = known
        self._since_ms = known.last_ms or 0
        self._seen: set[str] = set()
        self._stale: list[ModelVersion] = []
        self._runs_of_models: set[str] = set()
        self._touched_external: list[LoggedModel] = []
        self._fingerprints = state.fingerprints(RUN)

    def runs(
        self,
        experiments: Mapping[str, Experiment],
        versions: VersionsByOrigin,
    ) -> Iterator[list[Run]]:
        """Yield the runs to read again in pages, each once."""
        ids, only, since_ms = list(experiments), self._only, self._since_ms
        restored: set[str] = set()
        yield from self._trash(ids, restored)
        yield from self._by_id(ids, restored)
        in_trash = self._in_trash()
        purged = Counter(in_trash[run_id] for run_id in restored - self._seen)
        moved = {*self._changed_experiments(experiments), *self._known.changed(ids, purged)}
        if moved:
            yield from self._unseen(self._known.whole(moved, only))
        yield from self._unseen(self._known.later(ids, only))
        yield from self._list_runs(ids, replace(only, ended_since_ms=since_ms, before_ms=since_ms))
        if not only.statuses or RESUMED in only.statuses:
            resumed = replace(only, statuses=(RESUMED,), ended_since_ms=0)
            yield from self._list_runs(ids, resumed)
        wanted = {
            *self._open(),
            *self._registered_anew(versions),
            *self._runs_of_models,
            *self._state.dirty(RUN),
        }
        yield from self._by_id(ids, wanted - self._seen)
        lacking = lacking_parents(self._state.joined_fingerprints(RUN))
        children = {child for parent in lacking.keys() & self._seen for child in lacking[parent]}
        yield from self._by_id(ids, children - self._seen)

    def models(self, versions: VersionsByOrigin) -> Iterator[str]:
        """Yield the names of registered models with a version of a run that was read before."""
        read = names_in(self._state.joined_fingerprints(RUN))
        for run_id, made in versions.by_run().items():
            if run_id in read:
                yield from (version.name for version in made)

    def stale(
        self,
        experiments: Mapping[str, Experiment],
        versions: VersionsByOrigin,
        registered: Mapping[str, RegisteredModel],
    ) -> Sequence[ModelVersion]:
        """Return the versions that are others than before, or whose logged model changed.

        Those that could not be mapped, or were refused by the catalog, are among them.
        """
        ids = list(experiments)
        touched = self._models(ids, ModelFilter(updated_since_ms=self._since_ms))
        touched_models = self._add_runs_of(touched, self._touched_external)
        before, dirty = self._state.joined_fingerprints(VERSION), set(self._state.dirty(VERSION))
        for version in versions.every():
            name = version_id(version)
            if (
                name in dirty
                or before.get(name) != version_fingerprint(version, registered.get(version.name))
                or logged_model_id(version) in touched_models
            ):
                self._stale.append(version)
        named = {logged_model_id(version) for version in self._stale if not version.run_id}
        model_ids = {
            model_id
            for model_id in named - touched_models
            if model_id and SAFE_ID.fullmatch(model_id)
        }
        for piece in chunks(sorted(model_ids), IDS_A_LISTING):
            self._add_runs_of(self._models(ids, ModelFilter(model_ids=tuple(piece))))
        return self._stale

    def external_models(
        self, experiments: Mapping[str, Experiment], newest: Iterable[Sequence[LoggedModel]]
    ) -> Iterator[Sequence[LoggedModel]]:
        """Yield the external models to read again in pages, some twice; asked after `stale`.

        They include the `newest` ones, if a pass has read any before.
        """
        yield self._touched_external
        moved = self._changed_experiments(experiments)
        if moved:
            yield from self._reader.logged_models(moved)
        dirty = sorted(filter(SAFE_ID.fullmatch, self._state.dirty(LOGGED_MODEL)))
        for piece in chunks(dirty, IDS_A_LISTING):
            only = ModelFilter(model_ids=tuple(piece))
            yield from self._reader.logged_models(list(experiments), only=only)
        if self._state.fingerprints(LOGGED_MODEL):
            yield from newest

    def _list_runs(self, ids: Sequence[str], only: RunFilter) -> Iterator[list[Run]]:
        return self._unseen(self._reader.runs(ids, only=only))

    def _unseen(self, pages: Iterable[Sequence[Run]]) -> Iterator[list[Run]]:
        for page in pages:
            fresh = [run for run in page if run.run_id not in self._seen]
            self._seen.update(run.run_id for run in fresh)
            if fresh:
                yield fresh

    def _changed_experiments(self, experiments: Mapping[str, Experiment]) -> list[str]:
        before = self._state.fingerprints(EXPERIMENT)
        return [
            experiment_id
            for experiment_id, experiment in experiments.items()
            if before.get(experiment_id) != experiment_fingerprint(experiment)
        ]

    def _trash(self, ids: Sequence[str], restored: set[str]) -> Iterator[list[Run]]:
        """Yield the runs in the trash, and put those that are not there any more in `restored`."""
        listed: set[str] = set()
        only = replace(self._only, deleted=True, limit=TRASHED_RUNS)
        for page in self._reader.runs(ids, only=only):
            listed.update(run.run_id for run in page)
            fresh = [run for run in page if run.run_id not in self._seen]
            self._seen.update(run.run_id for run in fresh)
            yield fresh
        if len(listed) < TRASHED_RUNS:
            restored |= self._in_trash().keys() - listed

    def _in_trash(self) -> Mapping[str, str]:
        """Return the experiments of the runs that were in the trash, by the ids of the runs."""
        return {
            run_id: fingerprint.removeprefix(TRASH)
            for run_id, fingerprint in self._fingerprints.items()
            if fingerprint.startswith(TRASH)
        }

    def _open(self) -> list[str]:
        fingerprints = self._fingerprints
        unended = sorted(
            (
                run_id
                for run_id, fingerprint in fingerprints.items()
                if fingerprint.startswith(OPEN)
            ),
            key=lambda run_id: fingerprints[run_id],
            reverse=True,
        )
        if len(unended) > OPEN_RUNS:
            log.info("%s unfinished; reading the latest %d", plural(len(unended), "run"), OPEN_RUNS)
        return unended[:OPEN_RUNS]

    def _registered_anew(self, versions: VersionsByOrigin) -> Iterator[str]:
        """Yield the runs that have other versions than before, or one that changed."""
        before, now = names_in(self._state.joined_fingerprints(RUN)), versions.by_run()
        yield from (version.run_id for version in self._stale if version.run_id)
        for run_id in before.keys() & now.keys():
            if names_fingerprint(now[run_id]) != before[run_id]:
                yield run_id
        yield from before.keys() - now.keys()

    def _add_runs_of(
        self, models: Iterable[LoggedModel], external: list[LoggedModel] | None = None
    ) -> set[str]:
        """Have the runs read that made `models`; return the ids of these, keep the `external`."""
        ids: set[str] = set()
        for model in models:
            ids.add(model.model_id)
            if not model.is_external:
                self._runs_of_models.add(model.source_run_id or "")
            elif external is not None:
                external.append(model)
        return ids

    def _models(self, ids: Sequence[str], only: ModelFilter) -> Iterator[LoggedModel]:
        for page in self._reader.logged_models(ids, only=only) if ids else ():
            yield from page

    def _by_id(self, ids: Sequence[str], wanted: Iterable[str]) -> Iterator[list[Run]]:
        safe = sorted(filter(SAFE_ID.fullmatch, wanted))
        if len(safe) > RUNS_BY_ID:
            yield from self._list_runs(ids, self._only)
            return
        for piece in chunks(safe, IDS_A_LISTING):
            yield from self._list_runs(ids, replace(self._only, run_ids=tuple(piece)))
