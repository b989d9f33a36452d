"""What a pass reads that looks for changes only: which runs, and why no others.

MLflow tells when a run started and ended, but not when it was edited. So a run is read again that

- started or ended since the last pass, less an overlap for the clocks of those who log runs;
- had not ended when it was last seen, whatever its end says now;
- is in the trash, or was there and is not any more;
- has other versions, aliases or stages than before, or a logged model that changed;
- could not be mapped, or was refused by the catalog;
- belongs to an experiment that is new, or was renamed, deleted or restored.

What is left, edits long after the end, is found by the next full pass.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mlcat_ingest.sources.base import PartState
from mlcat_ingest.sources.mlflow.joins import Versions, logged_model_id
from mlcat_ingest.sources.mlflow.listing import chunks
from mlcat_ingest.sources.mlflow.reader import IDS_A_LISTING, ModelFilter, Reader, RunFilter
from mlcat_ingest.sources.mlflow.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)
from mlcat_ingest.sources.mlflow.traces import (
    ALONE,
    EXPERIMENT,
    OPEN,
    RUN,
    TRASH,
    VERSION,
    digest_of,
    experiment_mark,
    version_id,
)

log = logging.getLogger(__name__)

OPEN_RUNS: Final = 1_000
"""Runs without an end that a pass reads again, those that started last."""

TRASHED_RUNS: Final = 2_000
"""Runs in the trash that a pass lists, those that started last."""

RUNS_BY_ID: Final = 2_000
"""Runs that a pass asks for by their ids; where there are more it lists all runs."""

_SAFE_ID: Final = re.compile(r"[\w.-]+")


@dataclass(frozen=True, slots=True)
class Since:
    """From when on to look for changes, epoch milliseconds by the server's clock."""

    last_ms: int
    overlap_ms: int

    @property
    def start_ms(self) -> int:
        """The last pass, less the overlap."""
        return self.last_ms - self.overlap_ms


class Changes:
    """The runs and versions of one workspace that one pass reads again.

    Cost: four listings that are short where little changed, and a request for each 100 runs that
    are asked for by id. Memory for the ids of the runs that are read again.
    """

    def __init__(self, reader: Reader, state: PartState, only: RunFilter, since: Since) -> None:
        """Read what `only` lets through and changed `since` the pass that `state` remembers."""
        self._reader = reader
        self._state = state
        self._only = only
        self._since = since
        self._seen: set[str] = set()
        self._asked: set[str] = set()
        self._asked_models: set[str] = set()
        self._touched_models: set[str] = set()
        self._marks = state.marks(RUN)

    def runs(
        self,
        experiments: Mapping[str, Experiment],
        versions: Versions,
        registered: Mapping[str, RegisteredModel],
    ) -> Iterator[list[Run]]:
        """Yield the runs to read again in pages, each once."""
        ids, only, start_ms = list(experiments), self._only, self._since.start_ms
        moved = self._moved(experiments)
        if moved:
            yield from self._listed(moved, only)
        since_ms = max(start_ms, only.since_ms or 0)
        yield from self._listed(ids, replace(only, since_ms=since_ms))
        yield from self._listed(ids, replace(only, ended_since_ms=start_ms, before_ms=start_ms))
        restored: set[str] = set()
        yield from self._trash(ids, restored)
        wanted = {
            *self._open(),
            *restored,
            *self._registered_anew(versions, registered),
            *self._of_models(ids, versions),
            *self._state.dirty(RUN),
        }
        yield from self._by_id(ids, wanted - self._seen)

    def models(self, versions: Versions) -> Iterator[str]:
        """Yield the names of registered models with a version of a run that was read before."""
        read = self._state.joins(RUN).keys() | self._in_trash()
        for run_id, found in versions.by_run().items():
            if run_id in read:
                yield from (version.name for version in found)

    def alone(
        self, versions: Versions, registered: Mapping[str, RegisteredModel], *, unread: bool
    ) -> Iterator[ModelVersion]:
        """Yield the changed versions that have no readable run.

        With `unread` those too whose run was asked for just now and is not there.
        """
        known, digests = self._state.marks(VERSION), self._state.joins(VERSION)
        claimed = self._state.joins(RUN)
        for version in versions.without_run(also_unread=True):
            name, model_id = version_id(version), logged_model_id(version)
            if version.run_id in claimed:
                continue
            if (version.run_id or model_id) and known.get(name) != ALONE:
                looked_for = version.run_id in self._asked or model_id in self._asked_models
                if not (unread and looked_for and version.run_id not in self._seen):
                    continue
            digest = digest_of([version], {version.name: registered.get(version.name)})
            if digests.get(name) != digest or model_id in self._touched_models:
                yield version

    def _listed(self, ids: Sequence[str], only: RunFilter) -> Iterator[list[Run]]:
        for page in self._reader.runs(ids, only=only):
            fresh = [run for run in page if run.run_id not in self._seen]
            self._seen.update(run.run_id for run in fresh)
            if fresh:
                yield fresh

    def _moved(self, experiments: Mapping[str, Experiment]) -> list[str]:
        marks = self._state.marks(EXPERIMENT)
        return [
            one for one, found in experiments.items() if marks.get(one) != experiment_mark(found)
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
            restored |= self._in_trash() - listed

    def _in_trash(self) -> set[str]:
        return {one for one, mark in self._marks.items() if mark == TRASH}

    def _open(self) -> list[str]:
        marks = self._marks
        unended = sorted(
            (one for one, mark in marks.items() if mark.startswith(OPEN)),
            key=lambda one: marks[one],
            reverse=True,
        )
        if len(unended) > OPEN_RUNS:
            log.info("%d runs have not ended; reading the latest %d", len(unended), OPEN_RUNS)
        return unended[:OPEN_RUNS]

    def _registered_anew(
        self, versions: Versions, registered: Mapping[str, RegisteredModel]
    ) -> Iterator[str]:
        """Yield the runs whose versions, aliases or stages are others than before."""
        before, now = self._state.joins(RUN), versions.by_run()
        for run_id, found in now.items():
            if run_id in before:
                if digest_of(found, registered) != before[run_id]:
                    yield run_id
            # Of another experiment, or gone: what was not found by the last full pass.
            elif self._marks.get(run_id) != TRASH and any(map(self._touched, found)):
                yield run_id
        yield from before.keys() - now.keys()

    def _touched(self, version: ModelVersion) -> bool:
        at_ms = version.last_updated_at_ms or version.created_at_ms
        return at_ms is None or at_ms >= self._since.start_ms

    def _of_models(self, ids: Sequence[str], versions: Versions) -> Iterator[str]:
        """Yield the runs that made logged models which changed, or which were registered anew."""
        touched = ModelFilter(updated_since_ms=self._since.start_ms)
        for model in self._models(ids, touched):
            self._touched_models.add(model.model_id)
            if model.source_run_id:
                yield model.source_run_id
        named = versions.by_model().items()
        self._asked_models = {one for one, found in named if any(map(self._touched, found))}
        for some in chunks(sorted(filter(_SAFE_ID.fullmatch, self._asked_models)), IDS_A_LISTING):
            for model in self._models(ids, ModelFilter(model_ids=tuple(some))):
                if model.source_run_id:
                    yield model.source_run_id

    def _models(self, ids: Sequence[str], only: ModelFilter) -> Iterator[LoggedModel]:
        for page in self._reader.logged_models(ids, only=only):
            yield from page

    def _by_id(self, ids: Sequence[str], wanted: Iterable[str]) -> Iterator[list[Run]]:
        safe = sorted(filter(_SAFE_ID.fullmatch, wanted))
        self._asked.update(safe)
        if len(safe) > RUNS_BY_ID:
            yield from self._listed(ids, self._only)
            return
        for some in chunks(safe, IDS_A_LISTING):
            yield from self._listed(ids, replace(self._only, run_ids=tuple(some)))
