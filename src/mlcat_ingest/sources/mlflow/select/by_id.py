"""Some runs of one workspace, by their ids, with what belongs to them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import IDS_A_LISTING, Reader, RunFilter
from mlcat_ingest.sources.mlflow.select.joins import VersionsByOrigin
from mlcat_ingest.sources.mlflow.select.parents import ParentRuns
from mlcat_ingest.sources.mlflow.select.selection import RunSelection
from mlcat_ingest.sources.mlflow.select.workspace import WorkspaceReading
from mlcat_ingest.sources.mlflow.values.joined import JoinedRecord, JoinedRun, WorkspaceScope
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)


class RunsById:
    """The runs of one workspace that have one of some ids, as `ChangedRuns` are those that changed.

    Cost: a request for each 100 ids.
    """

    def __init__(self, reader: Reader, only: RunFilter, run_ids: Sequence[str]) -> None:
        """Read those of `run_ids` that `only` lets through, whatever its limit."""
        self._reader = reader
        self._only = replace(only, limit=None)
        self._run_ids = run_ids

    def runs(
        self,
        experiments: Mapping[str, Experiment],
        versions: VersionsByOrigin,
    ) -> Iterator[list[Run]]:
        """Yield the runs in pages."""
        del versions
        for some in chunks(self._run_ids, IDS_A_LISTING):
            only = replace(self._only, run_ids=tuple(some))
            yield from self._reader.runs(list(experiments), only=only)

    def models(self, versions: VersionsByOrigin) -> Iterable[str]:
        """Return nothing: registered models come with their runs."""
        del versions
        return ()

    def stale(
        self,
        experiments: Mapping[str, Experiment],
        versions: VersionsByOrigin,
        registered: Mapping[str, RegisteredModel],
    ) -> Iterable[ModelVersion]:
        """Return all versions: those below one of these runs' may be new to the catalog, too."""
        del experiments, registered
        return versions.every()

    def external_models(
        self, experiments: Mapping[str, Experiment]
    ) -> Iterable[Sequence[LoggedModel]]:
        """Return nothing: no run has made them."""
        del experiments
        return ()


class RunsByIdReading(WorkspaceReading):
    """Reads some runs of one workspace; experiments and registered models come with their runs.

    So do the versions made from them, each after all lower ones of its registered model.

    `found_ids` are those of the runs that were read.

    Cost: the listings of experiments, registered models and versions, and of the runs see
    `RunsById`; all runs are listed too where children are collapsed into their parents.
    """

    def __init__(
        self,
        reader: Reader,
        scope: WorkspaceScope,
        selection: RunSelection,
        run_ids: Sequence[str],
        *,
        parents: ParentRuns,
        listed_only: bool = False,
    ) -> None:
        """Read those of `run_ids` that the recipe asks for."""
        named = RunsById(reader, selection.listing(), run_ids)
        super().__init__(reader, scope, selection, named, parents=parents, listed_only=listed_only)
        self.found_ids: set[str] = set()

    def _pages(self, already_read: int) -> Iterator[Sequence[JoinedRecord]]:
        del already_read
        pending: dict[str, JoinedRecord] = {
            one.experiment.experiment_id: one for page in self.read_experiments() for one in page
        }
        self.read_registry()
        self._pending_models = dict(self._registered)
        for page in self.read_runs() if pending else ():
            runs = [one.run for one in page if isinstance(one, JoinedRun)]
            self.found_ids.update(one.run_id for one in runs)
            ids = {one.experiment_id for one in runs}
            yield [*(pending.pop(one) for one in sorted(ids & pending.keys())), *page]
        yield from self._versions_left(())

    def _has_children(self, run: Run) -> bool | None:
        found = self._parents.has_children(run)
        return found or (None if self._selection.leaves_children_out else found)


def all_pages(
    reading: WorkspaceReading, *, already_read: int = 0
) -> Iterator[Sequence[JoinedRecord]]:
    """Yield the pages of a reading; parents that it found too late come once more at the end.

    Cost: that of `RunsByIdReading`, for these parents.
    """
    yield from reading.pages(already_read=already_read)
    yield from reading.corrected_parents(RunsByIdReading)
