"""One workspace, read and joined: groups first, then runs, each followed by its versions."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, TypeVar

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.sources.base import NamedGroup, Runs
from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import (
    IDS_A_LISTING,
    SAFE_ID,
    ModelFilter,
    Reader,
    RunFilter,
)
from mlcat_ingest.sources.mlflow.select.changes import ChangedRuns, KnownRuns
from mlcat_ingest.sources.mlflow.select.joins import (
    ParentRuns,
    RelatedRun,
    VersionOrder,
    VersionsByOrigin,
    with_origins,
)
from mlcat_ingest.sources.mlflow.select.models import (
    EXTERNAL_MODELS,
    ExternalModels,
    LoggedModels,
    ModelFiles,
    RecentModels,
    of_one_run,
    with_signature_tables,
)
from mlcat_ingest.sources.mlflow.select.selection import RunSelection
from mlcat_ingest.sources.mlflow.values.joined import (
    REGISTERED,
    JoinedExperiment,
    JoinedLoggedModel,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedVersion,
    WorkspaceScope,
    is_removed,
)
from mlcat_ingest.sources.mlflow.values.records import (
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
    name_of,
    number_of,
    parent_of,
)

RecordT = TypeVar("RecordT")

_PAGE: Final = 500
_GENERATIONS: Final = 20
"""Generations of copies of versions whose names are asked for."""


class WorkspaceReading:
    """Reads one workspace once; `runs_read` and `experiments_listed` count what was listed.

    With `changes`, experiments and registered models are read whole, and only the changed runs.
    `groups` are those of registered models of which something may be deleted.
    With `only`, which holds ids of experiments, the runs of these are read and nothing else.
    With `listed_only`, runs are only listed, and mapped to bare entities. A registered model
    is read with all its versions: those whose run is not read come without it. External models
    come with the runs, in a reading with a limit as many of the newest.

    Cost: the requests of the listings and no others; memory for a page of runs, the experiments'
    names, the registered models, the versions and logged models whose run was not read yet, and
    what `VersionOrder` holds.
    """

    def __init__(
        self,
        reader: Reader,
        scope: WorkspaceScope,
        selection: RunSelection,
        changes: ChangedRuns | None = None,
        *,
        parents: ParentRuns,
        known: KnownRuns | None = None,
        only: Collection[str] | None = None,
        listed_only: bool = False,
    ) -> None:
        """Read with `reader`, which lists one workspace; count all runs for the next pass."""
        self._known = known
        self._parents = parents
        self._only = only
        self._listed_only = listed_only
        self.groups: Sequence[NamedGroup] = ()
        self.runs_read = 0
        self.experiments_listed = 0
        self._changes = changes
        self._reader = reader
        self._scope = scope
        self._selection = selection
        self._filter = selection.listing()
        self._experiments: dict[str, Experiment] = {}
        self._experiment_ids: Sequence[str] = ()
        self._all_experiments = True
        self._registered: dict[str, RegisteredModel] = {}
        self._pending_models: dict[str, RegisteredModel] = {}
        self._versions = VersionsByOrigin(())
        self._order = VersionOrder((), self._without_run)
        self._started_models: dict[str, None] = {}
        self._files = ModelFiles(reader, model_files=selection.config.features.model_files)
        self._since_ms = selection.config.runs.since_ms()
        self._external = ExternalModels(keep=only is None)
        limited = selection.config.limit is not None
        self._reads_all = changes is None
        self._models: LoggedModels | RecentModels = (
            LoggedModels(self._list_models, self._external, self._awaits)
            if changes is None and not limited
            else RecentModels(self._list_models, self._external)
        )

    def pages(self, *, already_read: int = 0) -> Iterator[Sequence[JoinedRecord]]:
        """Yield the records of the workspace in pages, groups before what belongs to them."""
        pages, links = self._pages(already_read), self._scope.options.links
        if links is None or not links.from_signature:
            yield from pages
            return
        yield from with_signature_tables(pages)

    @property
    def experiments_read(self) -> int:
        """How many of the listed experiments the recipe asks for."""
        return len(self._experiments)

    @property
    def lists_every_table(self) -> bool:
        """True if the feature tables of all signatures came up: nothing was left out or unread."""
        links, every_run = self._scope.options.links, self._selection.takes_every_run
        all_read = self._all_experiments and self._files.failure is None
        return links is not None and every_run and all_read

    def _pages(self, already_read: int) -> Iterator[Sequence[JoinedRecord]]:
        if self._only is not None:
            yield from self._read_only(self._only)
            return
        yield from self.read_experiments()
        self.read_registry()
        self._pending_models = dict(self._registered)
        names: Iterable[str] = self._models_to_read()
        yield from _chunks(self._groups(names))
        if self._experiments:
            yield from self._recent_external_models()
            yield from self.read_runs(already_read)
            yield from self._external_models_left()
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
        self._experiments = {
            id_: experiment for id_, experiment in self._experiments.items() if id_ in ids
        }
        if self._experiments:
            self.read_registry()
            yield from self.read_runs()

    def read_registry(self) -> None:
        """Read the registered models and their versions, to be joined to runs."""
        other: set[str] = set()
        for page in self._reader.registered_models():
            other.update(model.name for model in page if self._is_of_another(model))
            self._registered.update((m.name, m) for m in page if m.name not in other)
        versions = with_origins(self._listed_versions())
        self._versions = VersionsByOrigin([[v for v in versions if v.name not in other]])
        if self._only is not None:
            return  # versions of one model are made from runs of several experiments
        expected = (
            self._versions.every()
            if self._changes is None
            else self._changes.stale(self._experiments, self._versions, self._registered)
        )
        self.groups = list(self._named_groups(self._lost()))
        self._order = VersionOrder(expected, self._without_run)

    def _is_of_another(self, model: RegisteredModel) -> bool:
        """Return whether the URNs of a model are of one in another workspace; refuse it if so."""
        scope, firsts = self._scope, set[str]()
        with suppress(InvalidUrnError):
            urns = scope.registered_group(model.name).urn, scope.naming.version(model.name, "0").urn
            firsts.update(scope.taken.setdefault(urn, scope.source_key) for urn in urns)
        firsts.discard(scope.source_key)
        for first in firsts:
            reason = f"a model of {first} has the same URN; rename one of the two"
            self._reader.refusals.refuse(REGISTERED, [model.name], reason)
        return bool(firsts)

    def _named_groups(self, names: Iterable[str]) -> Iterator[NamedGroup]:
        """Yield the groups of registered models of which something may be deleted."""
        scope, listed = self._scope, {name: set[str]() for name in names}
        for version in self._versions.every() if listed else ():
            with suppress(InvalidUrnError):
                if version.name in listed:
                    urn = scope.naming.version(version.name, version.version).urn
                    listed[version.name].add(urn)
        for name, urns in listed.items():
            with suppress(InvalidUrnError):
                group = scope.registered_group(name).urn
                there = {group} if name in self._registered else set()
                yield NamedGroup(scope.source_key, group, there | urns)

    def _listed_versions(self) -> list[ModelVersion]:
        return [version for page in self._reader.model_versions() for version in page]

    def read_experiments(self) -> Iterator[Sequence[JoinedExperiment]]:
        """Yield the experiments that the recipe asks for, in pages, those in the trash last.

        Of several that have one name, the first is the group: folder stores may hold such, and so
        may a workspace beside `default`, whose names can begin as those of the other do.
        """
        trash: list[Experiment] = []
        for page in self._reader.experiments():
            self.experiments_listed += len(page)
            wanted = [experiment for experiment in page if self._selection.experiment(experiment)]
            self._all_experiments &= len(wanted) == len(page)
            for experiment in wanted:
                # What a run needs of its experiment; descriptions and tags of all would add up.
                self._experiments[experiment.experiment_id] = Experiment(
                    experiment.experiment_id,
                    experiment.name,
                    lifecycle_stage=experiment.lifecycle_stage,
                )
            trash += (one for one in wanted if one.lifecycle_stage == "deleted")
            live = [one for one in wanted if one.lifecycle_stage != "deleted"]
            yield [self._with_namesake(experiment) for experiment in live]
        yield from _chunks(self._with_namesake(experiment) for experiment in trash)
        self._experiment_ids = list(self._experiments)

    def _with_namesake(self, experiment: Experiment) -> JoinedExperiment:
        first = id_ = experiment.experiment_id
        with suppress(InvalidUrnError):
            first = self._scope.taken.setdefault(self._scope.experiment_group(experiment).urn, id_)
        return JoinedExperiment(self._scope, experiment, None if first == id_ else first)

    def _groups(self, names: Iterable[str]) -> Iterator[JoinedRecord]:
        """Yield those registered models of `names` that were not yielded before."""
        for name in names:
            model = self._pending_models.pop(name, None)
            if model is not None:
                yield JoinedRegisteredModel(self._scope, model, self._versions.newest(name))

    def _list_models(self, only: ModelFilter) -> Iterator[list[LoggedModel]]:
        return self._reader.logged_models(list(self._experiments), only=only)

    def _awaits(self, model: LoggedModel) -> bool:
        """Return whether a run may still come for a model, or a version."""
        if model.model_id in self._versions.model_ids:
            return True
        is_old = self._since_ms is not None and (model.created_at_ms or 0) < self._since_ms
        return not (is_old or model.is_external)

    def _recent_external_models(self) -> Iterator[Sequence[JoinedLoggedModel]]:
        """Yield the external models that changed, and the newest, where not all are listed."""
        if isinstance(self._models, LoggedModels):
            return
        seen: set[str] = set()
        count = self._selection.config.limit or EXTERNAL_MODELS
        newest = self._models.newest_external(count)
        changes = self._changes
        pages = newest if changes is None else changes.external_models(self._experiments, newest)
        for page in pages:
            self._external.add(model for model in page if model.model_id not in seen)
            seen.update(model.model_id for model in page)
            yield list(self._joined_external_models())

    def _external_models_left(self) -> Iterator[Sequence[JoinedLoggedModel]]:
        if isinstance(self._models, LoggedModels):
            for _ in self._models.read_rest(self._versions.model_ids):
                yield list(self._joined_external_models())

    def _joined_external_models(self) -> Iterator[JoinedLoggedModel]:
        for model in self._external.take():
            experiment = self._experiments.get(model.experiment_id)
            named = model.model_id in self._versions.model_ids
            chosen = self._selection.external_model(model, self._since_ms, named=named)
            if experiment is not None and chosen:
                yield JoinedLoggedModel(self._scope, model, experiment)

    def read_runs(self, already_read: int = 0) -> Iterator[Sequence[JoinedRecord]]:
        """Yield the runs in pages, registered models before those that their versions are from."""
        only = self._selection.listing(already_read=already_read)
        children = self._read_families(only)
        for page in self._run_pages(only):
            self.runs_read += len(page)
            self._models.load(page)
            self._relate(page)
            joined = []
            for run in page:
                versions = self._versions.take(run)
                if self._takes(run, registered=bool(versions)):
                    joined.append(self._join(run, versions, children))
                else:
                    self._models.forget(run)
            groups = self._groups(version.name for run in joined for version in run.versions)
            versions_of_page = self._with_models(list(self._versions_of(joined)))
            yield [*groups, *joined, *versions_of_page, *self._joined_external_models()]

    def _read_families(self, only: RunFilter) -> Mapping[str, int]:
        """Settle which runs are parents where that can be known at once; return the collapsed."""
        children: Counter[str] = Counter()
        if self._selection.collapses:
            for page in self._reader.runs(list(self._experiments), only=only):
                self._relate(page)
                active = (run.run_id for run in page if run.lifecycle_stage != "deleted")
                children.update(filter(None, map(self._parents.top_of, active)))
            self._parents.settle()
        elif self._reads_all:
            parents = self._reader.parents(self._experiment_ids, only=only)
            if parents is not None:
                self._parents.settle(parents)
        return children

    def _relate(self, page: Sequence[Run]) -> None:
        """Find the parents of the runs of a page; where runs are only listed, of removed ones."""
        every = not self._listed_only or not self._selection.includes_children
        written = every or any(
            is_removed(run, self._experiments.get(run.experiment_id)) for run in page
        )
        self._parents.add(page, self._described, self._runs_by_id if written else None)

    def _described(self, run: Run) -> RelatedRun:
        experiment = self._experiments.get(run.experiment_id)
        registered = self._versions.has(run)
        chosen = self._selection.run(run, registered=registered)
        return RelatedRun(
            name_of(run),
            parent_of(run),
            is_deleted=is_removed(run, experiment),
            is_chosen=chosen and self._filter.accepts(run),
            is_registered=registered,
        )

    def _takes(self, run: Run, *, registered: bool) -> bool:
        """Return whether a run is asked for; `registered` if a version was made from it."""
        if registered:
            return True
        is_left_out = (
            not self._selection.includes_children and self._parents.top_of(run.run_id) is not None
        )
        return not is_left_out and self._selection.run(run, registered=False)

    def _runs_by_id(self, only: RunFilter) -> Iterator[list[Run]]:
        return self._reader.runs(self._experiment_ids, only=only)

    def corrected_parents(
        self, by_id: Callable[..., "WorkspaceReading"]
    ) -> Iterator[Sequence[JoinedRecord]]:
        """Yield once more the runs that turned out to be parents, or not to be, after all pages.

        `by_id` makes the reading of runs by their ids.
        """
        if self._selection.config.limit is not None:
            return  # the newest runs come first, so children come before their parents
        complete = self._reads_all and not self._selection.leaves_children_out
        run_ids = self._parents.corrections(complete=complete)
        if not run_ids:
            return
        again = (self._reader, self._scope, self._selection, Runs(run_ids))
        reading = by_id(*again, parents=self._parents, listed_only=self._listed_only)
        for page in reading.pages():
            runs = (record for record in page if isinstance(record, JoinedRun))
            yield [record for record in runs if record.run.experiment_id in self._experiments]

    def _lost(self) -> Iterable[str]:
        """Return the names of the registered models of which something may be deleted."""
        changes = self._changes
        return () if changes is None else changes.lost(self._versions, self._registered)

    def _run_pages(self, only: RunFilter) -> Iterator[list[Run]]:
        ids = list(self._experiments)
        if self._changes is not None:
            return self._changes.runs(self._experiments, self._versions)
        if self._known is None:
            return self._reader.runs(ids, only=only)
        return self._known.runs(ids, only)

    def _join(
        self,
        run: Run,
        versions: tuple[ModelVersion, ...],
        children: Mapping[str, int],
    ) -> JoinedRun:
        record = JoinedRun(
            self._scope,
            run,
            self._experiments.get(run.experiment_id),
            versions=versions,
            models=self._models.of(run),
            parent_id=self._parents.parent_taken(
                run, include_children=self._selection.includes_children
            ),
            parent_name=self._parents.name_of_parent(run),
            has_children=self._has_children(run),
            children=children.get(run.run_id),
            abandoned=self._selection.is_abandoned(run, self._reader.connection.clock_ms),
            listed_only=self._listed_only,
            measures=() if versions else self._models.measured_by(run),
        )
        return self._files.with_files(record)

    def _has_children(self, run: Run) -> bool | None:
        known = self._parents.has_children(run)
        return known or (None if self._selection.leaves_children_out else False)

    def _versions_of(self, runs: Iterable[JoinedRun]) -> Iterator[JoinedVersion]:
        """Yield the versions made from `runs`, and others that these were waiting for."""
        if self._only is not None:
            return
        for run in runs:
            for version in sorted(run.versions, key=lambda made: number_of(made.version)):
                self._started_models[version.name] = None
                model = run.models.get(version.model_id or "")
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
        """Return `versions` with logged models and files, of those too to which no run has led."""
        ids = [None if version.model else version.version.model_id for version in versions]
        if not self._experiments or not any(ids):
            return list(map(self._files.with_document, versions))
        self._models.load_named([model_id for model_id in ids if model_id])
        found = [
            self._models.find(model_id, version.version.created_at_ms) if model_id else None
            for version, model_id in zip(versions, ids, strict=True)
        ]
        apart = self._apart(filter(None, found))
        return [
            self._files.with_document(
                replace(version, model=apart.get(model.model_id, model)) if model else version
            )
            for version, model in zip(versions, found, strict=True)
        ]

    def _apart(self, models: Iterable[LoggedModel]) -> Mapping[str, LoggedModel]:
        """Return those of `models` that a run made, and others of that run, told apart."""
        measured = (model for model in models if model.metrics and not model.is_external)
        run_ids = {model.source_run_id or "" for model in measured}
        result: dict[str, LoggedModel] = {}
        for piece in chunks(sorted(filter(SAFE_ID.fullmatch, run_ids)), IDS_A_LISTING):
            made: defaultdict[str | None, list[LoggedModel]] = defaultdict(list)
            for page in self._list_models(ModelFilter(run_ids=tuple(piece))):
                for model in page:
                    made[model.source_run_id].append(model)
            for of_run in made.values():
                result.update(of_one_run(of_run))
        return result


def _chunks(records: Iterable[RecordT]) -> Iterator[list[RecordT]]:
    page: list[RecordT] = []
    for record in records:
        page.append(record)
        if len(page) >= _PAGE:
            yield page
            page = []
    if page:
        yield page


class RunsByIdReading(WorkspaceReading):
    """Reads some runs of one workspace; experiments and registered models come with their runs.

    So do the versions made from them, each after all lower ones of its registered model. Named
    registered models come with all their versions, those without a run that is read, without it.
    Where the recipe leaves experiments out, they come only with the runs that it selects.

    `found_ids` are those of the runs that were read.

    Cost: the listings of experiments, registered models and versions, of few named models alone
    where no run is read; a request for each 100 ids. All runs are listed too where children are
    collapsed into their parents.
    """

    def __init__(
        self,
        reader: Reader,
        scope: WorkspaceScope,
        selection: RunSelection,
        named: Runs,
        *,
        parents: ParentRuns,
        listed_only: bool = False,
    ) -> None:
        """Read what is `named`, as far as the recipe asks for it."""
        super().__init__(reader, scope, selection, parents=parents, listed_only=listed_only)
        self._reads_all = False
        self._models = RecentModels(self._list_models, self._external)
        self._run_ids, self._deleted = named.ids, named.deleted
        self._named, self._is_narrow = named.models, False
        self.found_ids: set[str] = set()

    def _pages(self, already_read: int) -> Iterator[Sequence[JoinedRecord]]:
        del already_read
        pending: dict[str, JoinedRecord] = {
            record.experiment.experiment_id: record
            for page in self.read_experiments()
            for record in page
        }
        self._is_narrow = bool(self._named and self._all_experiments and not self._run_ids)
        if self._is_narrow:
            self._reader.narrow_registry(self._named)
        self.read_registry()
        versions = [version for version in self._versions.every() if version.name in self._named]
        self._pending_models = dict(self._registered)
        if self._all_experiments:
            yield from _chunks(self._groups(self._named))
        else:
            made_from = (version.run_id for version in versions if version.run_id)
            self._run_ids = list(dict.fromkeys((*self._run_ids, *made_from)))
        for page in self.read_runs() if pending else ():
            runs = [record.run for record in page if isinstance(record, JoinedRun)]
            self.found_ids.update(run.run_id for run in runs)
            ids = {run.experiment_id for run in runs}
            yield [*(pending.pop(id_) for id_ in sorted(ids & pending.keys())), *page]
        yield from self._versions_left(
            name for name in self._named if self._all_experiments or name in self._started_models
        )

    def _run_pages(self, only: RunFilter) -> Iterator[list[Run]]:
        """Yield the runs of the ids that `only` selects, without its limit."""
        ids = list(self._experiments)
        for piece in chunks(self._run_ids, IDS_A_LISTING):
            yield from self._reader.runs(ids, only=replace(only, limit=None, run_ids=tuple(piece)))

    def _lost(self) -> Iterable[str]:
        return self._deleted

    def _listed_versions(self) -> list[ModelVersion]:
        """Return the listed versions and, where not all are, those that they are copies of."""
        versions = super()._listed_versions()
        known = {*self._named, *(version.name for version in versions)}
        for _ in range(_GENERATIONS if self._is_narrow else 0):
            named = {version.copied_name[0] for version in versions if version.copied_name}
            missing = sorted(named - known)
            if not missing:
                break
            self._reader.narrow_registry(missing)
            known.update(missing)
            versions += super()._listed_versions()
        return versions

    def _has_children(self, run: Run) -> bool | None:
        known = self._parents.has_children(run)
        return known or (None if self._selection.leaves_children_out else known)


def all_pages(
    reading: WorkspaceReading, *, already_read: int = 0
) -> Iterator[Sequence[JoinedRecord]]:
    """Yield the pages of a reading; parents that it found too late come once more at the end.

    Cost: that of `RunsByIdReading`, for these parents.
    """
    yield from reading.pages(already_read=already_read)
    yield from reading.corrected_parents(RunsByIdReading)
