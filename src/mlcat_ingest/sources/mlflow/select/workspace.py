"""One workspace, read and joined: groups first, then runs, each followed by its versions."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import (
    ALL_MODELS,
    IDS_A_LISTING,
    ModelFilter,
    Reader,
    RunFilter,
)
from mlcat_ingest.sources.mlflow.select.joins import (
    LoggedModels,
    ModelFiles,
    RecentModels,
    VersionOrder,
    VersionsByOrigin,
    logged_model_id,
)
from mlcat_ingest.sources.mlflow.select.selection import RunSelection, count_children
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedExperiment,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
    WorkspaceScope,
)
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
    number_of,
)

RecordT = TypeVar("RecordT")

_PAGE: Final = 500


class RunSubset(Protocol):
    """A subset of the runs, registered models and versions of a workspace."""

    def runs(
        self,
        experiments: Mapping[str, Experiment],
        versions: VersionsByOrigin,
    ) -> Iterator[list[Run]]:
        """Yield the runs to read in pages, each once."""
        ...

    def models(self, versions: VersionsByOrigin) -> Iterable[str]:
        """Return the names of registered models to read, whatever their versions' runs."""
        ...

    def stale(
        self,
        experiments: Mapping[str, Experiment],
        versions: VersionsByOrigin,
        registered: Mapping[str, RegisteredModel],
    ) -> Iterable[ModelVersion]:
        """Return the versions that may be new to the catalog, or changed; asked before `runs`."""
        ...


class WorkspaceReading:
    """Reads one workspace once; `runs_read` counts the runs that were listed.

    With `changes`, experiments and registered models are read whole, and of runs what they say.
    With `only`, which holds ids of experiments, the runs of these are read and nothing else.
    With `listed_only`, the records of runs say that no more is mapped of them. A registered model
    is read with all its versions: those whose run is not read come without it.

    Cost: the requests of the listings and no others; memory for a page of runs, the experiments'
    names, the registered models, the versions and logged models whose run was not read yet, and
    what `VersionOrder` holds.
    """

    def __init__(
        self,
        reader: Reader,
        scope: WorkspaceScope,
        selection: RunSelection,
        changes: RunSubset | None = None,
        *,
        only: Collection[str] | None = None,
        listed_only: bool = False,
    ) -> None:
        """Read with `reader`, which lists one workspace."""
        self._only = only
        self._listed_only = listed_only
        self.runs_read = 0
        self._changes = changes
        self._reader = reader
        self._scope = scope
        self._selection = selection
        self._experiments: dict[str, Experiment] = {}
        self._all_experiments = True
        self._registered: dict[str, RegisteredModel] = {}
        self._pending_models: dict[str, RegisteredModel] = {}
        self._versions = VersionsByOrigin(())
        self._order = VersionOrder((), self._without_run)
        self._started_models: dict[str, None] = {}
        self._files = ModelFiles(reader, model_files=selection.config.features.model_files)
        self._models: LoggedModels | RecentModels = (
            LoggedModels(self._list_models) if changes is None else RecentModels(self._list_models)
        )

    def pages(self, *, already_read: int = 0) -> Iterator[Sequence[JoinedRecord]]:
        """Yield the records of the workspace in pages, groups before what belongs to them."""
        if self._only is not None:
            yield from self._read_only(self._only)
            return
        yield from self.read_experiments()
        self.read_registry()
        self._pending_models = dict(self._registered)
        names: Iterable[str] = self._models_to_read()
        yield from _chunks(self._groups(names))
        if self._experiments:
            yield from self.read_runs(already_read)
        if self._all_experiments:
            names = self._versions.names()
        # A limit is one of runs: of versions it leaves theirs, and those below them.
        limited = self._selection.config.limit is not None
        yield from self._versions_left(() if limited else (*names, *self._started_models))

    def _models_to_read(self) -> Sequence[str]:
        """Return the names of the registered models that are read whatever runs there are."""
        if self._all_experiments:
            return list(self._registered)
        # Where only some experiments are asked for, models registered from others stay out.
        return [] if self._changes is None else list(self._changes.models(self._versions))

    def _read_only(self, ids: Collection[str]) -> Iterator[Sequence[JoinedRecord]]:
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
        self._versions = VersionsByOrigin(self._reader.model_versions())
        if self._only is not None:
            return  # versions of one model are made from runs of several experiments
        expected = (
            self._versions.every()
            if self._changes is None
            else self._changes.stale(self._experiments, self._versions, self._registered)
        )
        self._order = VersionOrder(expected, self._without_run)

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
            model = self._pending_models.pop(name, None)
            if model is not None:
                yield JoinedRegisteredModel(self._scope, model, self._versions.newest(name))

    def _list_models(self, only: ModelFilter = ALL_MODELS) -> Iterator[list[LoggedModel]]:
        return self._reader.logged_models(list(self._experiments), only=only)

    def read_runs(self, already_read: int = 0) -> Iterator[Sequence[JoinedRecord]]:
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
                    joined.append(self._join(run, versions, children))
                else:
                    self._models.forget(run)
            groups = self._groups(version.name for run in joined for version in run.versions)
            yield [*groups, *joined, *self._with_models(list(self._versions_of(joined)))]

    def _run_pages(self, only: RunFilter) -> Iterator[list[Run]]:
        if self._changes is None:
            return self._reader.runs(list(self._experiments), only=only)
        return self._changes.runs(self._experiments, self._versions)

    def _join(
        self, run: Run, versions: tuple[ModelVersion, ...], children: Mapping[str, int]
    ) -> JoinedRun:
        record = JoinedRun(
            self._scope,
            run,
            self._experiments.get(run.experiment_id),
            versions=versions,
            models=self._models.of(run),
            children=children.get(run.run_id),
            abandoned=self._selection.is_abandoned(run, self._reader.clock_ms),
            listed_only=self._listed_only,
        )
        return self._files.with_files(record)

    def _versions_of(self, runs: Iterable[JoinedRun]) -> Iterator[JoinedVersion]:
        """Yield the versions made from `runs`, and others that these were waiting for."""
        if self._only is not None:
            return
        for run in runs:
            for version in sorted(run.versions, key=lambda one: number_of(one.version)):
                self._started_models[version.name] = None
                model = run.models.get(logged_model_id(version) or "")
                yield from self._order.add(
                    replace(self._without_run(version), model=model, run=run)
                )

    def _versions_left(self, names: Iterable[str]) -> Iterator[Sequence[JoinedRecord]]:
        """Yield the versions of the models `names` that were not yielded, and those held back."""
        for page in _chunks(self._order.rest(names)):
            yield self._with_models(page)

    def _without_run(self, version: ModelVersion) -> JoinedVersion:
        return JoinedVersion(self._scope, version, self._registered.get(version.name))

    def _with_models(self, versions: Sequence[JoinedVersion]) -> list[JoinedVersion]:
        """Return `versions` with their logged models, of those too to which no run has led."""
        ids = [None if one.model else logged_model_id(one.version) for one in versions]
        if not self._experiments or not any(ids):
            return list(versions)
        self._models.load_named([one for one in ids if one])
        return [
            replace(one, model=self._models.find(model_id, one.version.created_at_ms))
            if model_id
            else one
            for one, model_id in zip(versions, ids, strict=True)
        ]


def _chunks(records: Iterable[RecordT]) -> Iterator[list[RecordT]]:
    page: list[RecordT] = []
    for record in records:
        page.append(record)
        if len(page) >= _PAGE:
            yield page
            page = []
    if page:
        yield page


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


class RunsByIdReading(WorkspaceReading):
    """Reads some runs of one workspace; experiments and registered models come with their runs.

    So do the versions made from them, each after all lower ones of its registered model.

    `found_ids` are those of the runs that were read.

    Cost: the listings of experiments, registered models and versions, and of the runs see
    `RunsById`; all runs are listed too where children are collapsed into their parents.
    """

    def __init__(
        self, reader: Reader, scope: WorkspaceScope, selection: RunSelection, run_ids: Sequence[str]
    ) -> None:
        """Read those of `run_ids` that the recipe asks for."""
        super().__init__(reader, scope, selection, RunsById(reader, selection.listing(), run_ids))
        self.found_ids: set[str] = set()

    def pages(self, *, already_read: int = 0) -> Iterator[Sequence[JoinedRecord]]:
        """Yield the records in pages, groups before what belongs to them."""
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
