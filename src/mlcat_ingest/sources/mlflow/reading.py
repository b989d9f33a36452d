"""One workspace, read and joined: groups first, then runs, then versions without a run."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from mlcat_ingest.sources.mlflow.joins import (
    LoggedModels,
    RecentModels,
    Versions,
    logged_model_id,
)
from mlcat_ingest.sources.mlflow.mapping.model import is_removed
from mlcat_ingest.sources.mlflow.mapping.records import (
    JoinedExperiment,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
    Scope,
)
from mlcat_ingest.sources.mlflow.model_files import ModelFiles
from mlcat_ingest.sources.mlflow.reader import ALL_MODELS, ModelFilter, Reader, RunFilter
from mlcat_ingest.sources.mlflow.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)
from mlcat_ingest.sources.mlflow.select import Selection, count_children

Page = Sequence[JoinedRecord]

_PAGE: Final = 500


class SomeRuns(Protocol):
    """Which runs, registered models and versions of a workspace are read where not all are."""

    def runs(
        self,
        experiments: Mapping[str, Experiment],
        versions: Versions,
        registered: Mapping[str, RegisteredModel],
    ) -> Iterator[list[Run]]:
        """Yield the runs to read in pages, each once."""
        ...

    def models(self, versions: Versions) -> Iterable[str]:
        """Return the names of registered models to read beside those of the runs."""
        ...

    def alone(
        self, versions: Versions, registered: Mapping[str, RegisteredModel], *, unread: bool
    ) -> Iterable[ModelVersion]:
        """Return the versions to read that have no readable run."""
        ...


class WorkspaceReading:
    """Reads one workspace once; `runs_read` counts the runs that were listed.

    With `changes`, experiments and registered models are read whole, and of runs what they say.
    With `only`, which holds ids of experiments, the runs of these are read and nothing else is
    told.

    Cost: the requests of the listings and no others; memory for a page of runs, the experiments'
    names, the registered models, and the versions and logged models whose run was not read yet.
    """

    def __init__(
        self,
        reader: Reader,
        scope: Scope,
        selection: Selection,
        changes: SomeRuns | None = None,
        *,
        only: Collection[str] | None = None,
    ) -> None:
        """Contact nothing yet."""
        self._only = only
        self.runs_read = 0
        self._changes = changes
        self._reader = reader
        self._scope = scope
        self._selection = selection
        self._experiments: dict[str, Experiment] = {}
        self._all_experiments = True
        self._registered: dict[str, RegisteredModel] = {}
        self._unsaid: dict[str, RegisteredModel] = {}
        self._versions = Versions(())
        self._of_removed: list[ModelVersion] = []
        self._files = ModelFiles(reader, model_files=selection.config.features.model_files)
        self._models: LoggedModels | RecentModels = (
            LoggedModels(self._list_models) if changes is None else RecentModels(self._list_models)
        )

    def pages(self, *, already_read: int = 0) -> Iterator[Page]:
        """Yield the records of the workspace in pages, groups before what belongs to them."""
        if self._only is not None:
            yield from self._read_only(self._only)
            return
        yield from self.read_experiments()
        self.read_registry()
        self._unsaid = dict(self._registered)
        if self._all_experiments:
            # Where only some experiments are asked for, models registered from others stay out.
            yield from _chunks(self._groups(self._registered))
        elif self._changes is not None:
            yield from _chunks(self._groups(self._changes.models(self._versions)))
        if self._experiments:
            yield from self.read_runs(already_read)
        yield from _chunks(self._versions_without_run())

    def _read_only(self, ids: Collection[str]) -> Iterator[Page]:
        for _ in self.read_experiments():
            pass
        self._experiments = {one: found for one, found in self._experiments.items() if one in ids}
        if self._experiments:
            self.read_registry()
            yield from self.read_runs()

    def read_registry(self) -> None:
        """Read the registered models and their versions, to be joined to runs."""
        for page in self._reader.registered_models():
            self._registered.update((model.name, model) for model in page)
        self._versions = Versions(self._reader.model_versions())

    def read_experiments(self) -> Iterator[Sequence[JoinedExperiment]]:
        """Yield the experiments that the recipe asks for, in pages."""
        for page in self._reader.experiments():
            wanted = [each for each in page if self._selection.experiment(each)]
            self._all_experiments &= len(wanted) == len(page)
            for each in wanted:
                # What a run needs of its experiment; descriptions and tags of all would add up.
                self._experiments[each.experiment_id] = Experiment(
                    each.experiment_id, each.name, lifecycle_stage=each.lifecycle_stage
                )
            yield [JoinedExperiment(self._scope, each) for each in wanted]

    def _groups(self, names: Iterable[str]) -> Iterator[JoinedRecord]:
        """Yield those registered models of `names` that were not yielded before."""
        for name in names:
            model = self._unsaid.pop(name, None)
            if model is not None:
                yield JoinedRegisteredModel(self._scope, model, self._versions.newest(name))

    def _list_models(self, only: ModelFilter = ALL_MODELS) -> Iterator[list[LoggedModel]]:
        return self._reader.logged_models(list(self._experiments), only=only)

    def read_runs(self, already_read: int = 0) -> Iterator[Page]:
        """Yield the runs in pages, registered models before those that their versions are from."""
        only = self._selection.listing(already_read=already_read)
        children: Mapping[str, int] = {}
        if self._selection.collapses:
            children = count_children(self._reader.runs(list(self._experiments), only=only))
        for page in self._run_pages(only):
            self.runs_read += len(page)
            self._models.load(page)
            joined = []
            for run in page:
                versions = self._versions.take(run)
                if self._selection.run(run, registered=bool(versions)):
                    joined.append(self._joined(run, versions, children))
                else:
                    self._models.forget(run)
            groups = self._groups(version.name for run in joined for version in run.versions)
            yield [*groups, *joined]

    def _run_pages(self, only: RunFilter) -> Iterator[list[Run]]:
        if self._changes is None:
            return self._reader.runs(list(self._experiments), only=only)
        return self._changes.runs(self._experiments, self._versions, self._registered)

    def _joined(
        self, run: Run, versions: tuple[ModelVersion, ...], children: Mapping[str, int]
    ) -> JoinedRun:
        record = JoinedRun(
            self._scope,
            run,
            self._experiments.get(run.experiment_id),
            versions=versions,
            registered=self._registered,
            models=self._models.of(run),
            children=children.get(run.run_id),
            abandoned=self._selection.abandoned(run, self._reader.clock_ms),
        )
        if not versions or not is_removed(record):
            return self._files.with_files(record)
        # The run is in the trash, but what was registered from it lives on as a model of its own.
        self._of_removed.extend(versions)
        return JoinedRun(self._scope, run, record.experiment, models=record.models)

    def _versions_without_run(self) -> Iterator[JoinedRecord]:
        left = list(self._of_removed)
        if self._all_experiments and self._selection.config.limit is None:
            # With runs left unread by the recipe's filters, an unread run may well be readable.
            unread = self._selection.reads_every_run
            left.extend(
                self._versions.without_run(also_unread=unread)
                if self._changes is None
                else self._changes.alone(self._versions, self._registered, unread=unread)
            )
        for version in left:
            yield from self._groups((version.name,))
            registered = self._registered.get(version.name)
            yield JoinedVersion(self._scope, version, registered, self._model_of(version))

    def _model_of(self, version: ModelVersion) -> LoggedModel | None:
        """Return the logged model behind a version without a run; nothing else tells of it."""
        model_id = logged_model_id(version)
        if model_id is None or version.run_id or not self._experiments:
            return None
        return self._models.find(model_id, version.created_at_ms)


def _chunks(records: Iterator[JoinedRecord]) -> Iterator[Page]:
    page: list[JoinedRecord] = []
    for record in records:
        page.append(record)
        if len(page) >= _PAGE:
            yield page
            page = []
    if page:
        yield page
