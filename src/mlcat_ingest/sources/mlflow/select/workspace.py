"""One workspace, read and joined: groups first, then runs, each followed by its versions."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final

from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.sources.base import NamedGroup, Runs
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.listing import id_pieces
from mlcat_ingest.sources.mlflow.read.reader import ModelFilter, Reader
from mlcat_ingest.sources.mlflow.select.changes import KnownRuns
from mlcat_ingest.sources.mlflow.select.joins import (
    PARENTS,
    ParentRuns,
    RelatedRun,
    VersionsByOrigin,
    with_origins,
)
from mlcat_ingest.sources.mlflow.select.models import (
    EXTERNAL_MODELS,
    LoggedModels,
    ModelFiles,
    RecentModels,
    of_one_run,
)
from mlcat_ingest.sources.mlflow.select.scopes import ALIASES_LISTED, EveryRun, NamedRuns
from mlcat_ingest.sources.mlflow.select.selection import (
    is_abandoned,
    is_chosen,
    takes_every_run,
)
from mlcat_ingest.sources.mlflow.values.joined import (
    REGISTERED,
    JoinedExperiment,
    JoinedLoggedModel,
    JoinedRecord,
    JoinedRegisteredModel,
    JoinedRun,
    JoinedSignature,
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
    parent_of,
)
from mlcat_ingest.sources.mlflow.values.signatures import signature_tables

_PAGE: Final = 500


class WorkspaceReading:
    """Reads one workspace once; counts the runs it reads, and the experiments listed and asked for.

    Which runs are read, and what comes with them, `runs` decides. `groups` are those of registered
    models of which something may be deleted. A registered model is read with all its versions:
    those whose run is not read come without it. External models come with the runs, in a reading
    with a limit as many of the newest.

    Cost: the requests of the listings and no others; memory for a page of runs, the experiments'
    names, and the registered models, versions and logged models whose run was not read yet.
    """

    def __init__(
        self,
        reader: Reader,
        scope: WorkspaceScope,
        config: MlflowConfig,
        runs: EveryRun,
        parents: ParentRuns,
    ) -> None:
        """Read `runs` with `reader`, which lists one workspace."""
        self._parents = parents
        self.groups: Sequence[NamedGroup]
        self.runs_read = 0
        self.experiments_listed = 0
        self.experiments_read = 0
        self._runs = runs
        self._reader = reader
        self._scope = scope
        self._config = config
        self._includes_children = config.runs.children == "include"
        # Whether children of a run that is read may not be listed.
        self._leaves_children_out = bool(config.runs.statuses) or config.runs.since is not None
        self._pending_models: dict[str, RegisteredModel] = {}
        self._awaited: dict[tuple[str, str], ModelVersion]
        self._started_models: dict[str, None] = {}
        self._files = ModelFiles(
            reader, model_files=config.features.model_files, model_cards=config.model_cards
        )
        keeps_external = runs.shard is None
        self._models = (
            LoggedModels(self._list_models, self._awaits, keeps_external=keeps_external)
            if runs.lists_all and runs.only.limit is None
            else RecentModels(self._list_models, keeps_external=keeps_external)
        )

    def pages(self) -> Iterator[Sequence[JoinedRecord]]:
        """Yield the records of the workspace in pages, groups before what belongs to them.

        Parents that it found too late come once more at the end.

        Cost: that of `NamedRuns`, for these parents.
        """
        pages = self._pages()
        pages = self._runs.with_runs(pages) if isinstance(self._runs, NamedRuns) else pages
        yield from _with_signature_tables(pages)
        yield from self._corrected_parents()

    def checkpoint(self, known: KnownRuns) -> Mapping[str, object]:
        """Return the checkpoint of the pass: the runs, the parents left out, the aliases listed."""
        aliases = {m.name: m.aliases for m in self._runs.registered.values() if m.aliases}
        return {
            **known.checkpoint(),
            PARENTS: self._parents.left_out,
            ALIASES_LISTED: [*self._runs.listed_ms, aliases],
        }

    @property
    def lists_every_table(self) -> bool:
        """True if the feature tables of all signatures came up: nothing was left out or unread."""
        every_run = self._runs.is_whole and takes_every_run(self._config)
        return every_run and self._files.failure is None

    def _pages(self) -> Iterator[Sequence[JoinedRecord]]:
        runs = self._runs
        for page in self._read_experiments():
            if runs.shard is None:
                yield page
        if runs.shard is not None:
            if runs.experiments:
                self._read_registry()
                yield from self._read_runs()
            return
        self._read_registry()
        awaited = runs.awaited()
        self.groups = list(self._named_groups(runs.lost()))
        self._pending_models = dict(runs.registered)
        names = runs.models()
        yield from chunks(self._groups(names), _PAGE)
        yield from self._recent_external_models()
        self._awaited = {(one.name, one.version): one for one in awaited}
        if runs.experiments:
            yield from self._read_runs()
        if runs.experiments and isinstance(self._models, LoggedModels):
            for _ in self._models.read_rest(runs.versions.model_ids):
                yield list(self._joined_external_models())
        left = frozenset(runs.models_left(names, self._started_models))
        alone = (version for version in self._awaited.values() if version.name in left)
        yield from map(self._with_models, chunks(map(self._without_run, alone), _PAGE))

    def _read_registry(self) -> None:
        """Read the registered models and their versions, to be joined to runs."""
        models, versions = self._runs.registry()
        other = {model.name for model in models if self._is_of_another(model)}
        self._runs.registered.update((m.name, m) for m in models if m.name not in other)
        joined = (one for one in with_origins(versions) if one.name not in other)
        self._runs.versions = VersionsByOrigin(joined)

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
        for version in self._runs.versions.every():
            if version.name in listed:
                with suppress(InvalidUrnError):
                    urn = scope.naming.version(version.name, version.version).urn
                    listed[version.name].add(urn)
        for name, urns in listed.items():
            with suppress(InvalidUrnError):
                group = scope.registered_group(name).urn
                there = {group} if name in self._runs.registered else set()
                yield NamedGroup(scope.source_key, group, there | urns)

    def _read_experiments(self) -> Iterator[Sequence[JoinedExperiment]]:
        """Yield the experiments that the recipe asks for, in pages, those in the trash last.

        Of several that have one name, the first is the group: folder stores may hold such, and so
        may a workspace beside `default`, whose names can begin as those of the other do.
        """
        trash: list[Experiment] = []
        for page in self._reader.experiments():
            self.experiments_listed += len(page)
            wanted = [one for one in page if self._config.experiments.allows(one.name)]
            self.experiments_read += len(wanted)
            self._runs.is_whole &= len(wanted) == len(page)
            for experiment in wanted:
                self._runs.experiment_ids.append(experiment.experiment_id)
                if self._runs.shard is None or experiment.experiment_id in self._runs.shard:
                    # What a run needs of it; descriptions and tags of all would add up.
                    self._runs.experiments[experiment.experiment_id] = Experiment(
                        experiment.experiment_id,
                        experiment.name,
                        lifecycle_stage=experiment.lifecycle_stage,
                    )
            trash += (one for one in wanted if one.lifecycle_stage == "deleted")
            live = [one for one in wanted if one.lifecycle_stage != "deleted"]
            yield [self._with_namesake(experiment) for experiment in live]
        yield from chunks(map(self._with_namesake, trash), _PAGE)

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
                newest = self._runs.versions.newest.get(name)
                versions = () if newest is None else (newest,)
                sightings = tuple(self._runs.sightings(model))
                yield JoinedRegisteredModel(self._scope, model, versions, sightings)

    def _list_models(self, only: ModelFilter) -> Iterator[list[LoggedModel]]:
        return self._reader.logged_models(list(self._runs.experiments), only=only)

    def _awaits(self, model: LoggedModel) -> bool:
        """Return whether a run may still come for a model, or a version."""
        if model.model_id in self._runs.versions.model_ids:
            return True
        since_ms = self._runs.only.since_ms
        is_old = since_ms is not None and (model.created_at_ms or 0) < since_ms
        return not (is_old or model.is_external)

    def _recent_external_models(self) -> Iterator[Sequence[JoinedLoggedModel]]:
        """Yield the external models that changed, and the newest, where not all are listed."""
        lists_all = isinstance(self._models, LoggedModels)
        if lists_all or self._runs.by_ids or not self._runs.experiments:
            return
        seen: set[str] = set()
        newest = self._models.newest_external(self._config.limit or EXTERNAL_MODELS)
        for page in self._runs.external_models(newest):
            self._models.add_external(model for model in page if model.model_id not in seen)
            seen.update(model.model_id for model in page)
            yield list(self._joined_external_models())

    def _joined_external_models(self) -> Iterator[JoinedLoggedModel]:
        runs, since_ms = self._runs, self._runs.only.since_ms
        for model in self._models.take_external():
            experiment = runs.experiments.get(model.experiment_id)
            named = model.model_id in runs.versions.model_ids
            is_old = since_ms is not None and (model.created_at_ms or 0) < since_ms
            is_chosen = named or self._config.runs.select != "registered"
            if experiment is not None and is_chosen and not is_old:
                yield JoinedLoggedModel(self._scope, model, experiment)

    def _read_runs(self) -> Iterator[Sequence[JoinedRecord]]:
        """Yield the runs in pages, registered models before those that their versions are from."""
        children = self._read_families()
        for page in self._runs.runs():
            self.runs_read += len(page)
            self._models.load(page)
            self._relate(page)
            joined = []
            versions_of_page = []
            for run in page:
                versions = self._runs.versions.take(run)
                if not versions and not self._takes(run):
                    continue
                record = self._join(run, versions, children)
                joined.append(record)
                for version in versions if self._runs.shard is None else ():
                    self._started_models[version.name] = None
                    self._awaited.pop((version.name, version.version), None)
                    alone, model = self._without_run(version), record.model_of(version)
                    versions_of_page.append(replace(alone, model=model, run=record))
            groups = self._groups(version.name for run in joined for version in run.versions)
            with_models = self._with_models(versions_of_page)
            yield [*groups, *joined, *with_models, *self._joined_external_models()]

    def _read_families(self) -> Mapping[str, int]:
        """Settle which runs are parents where that can be known at once; return the collapsed."""
        children: Counter[str] = Counter()
        if self._config.runs.children == "collapse":
            for page in self._reader.runs(list(self._runs.experiments), only=self._runs.only):
                self._relate(page)
                active = (run.run_id for run in page if run.lifecycle_stage != "deleted")
                children.update(filter(None, map(self._parents.top_of, active)))
            self._parents.settle()
        elif self._runs.lists_all:
            parents = self._reader.parents(self._runs.experiment_ids, only=self._runs.only)
            if parents is not None:
                self._parents.settle(parents)
        return children

    def _relate(self, page: Sequence[Run]) -> None:
        """Find the parents of the runs of a page; where runs are only listed, of removed ones."""
        runs = self._runs
        every = not runs.listed_only or not self._includes_children
        written = every or any(
            is_removed(run, runs.experiments.get(run.experiment_id)) for run in page
        )
        by_id = partial(self._reader.runs, runs.experiment_ids) if written else None
        self._parents.add(page, self._described, by_id)

    def _described(self, run: Run) -> RelatedRun:
        experiment = self._runs.experiments.get(run.experiment_id)
        registered = self._runs.versions.has(run)
        chosen = registered or is_chosen(self._config, run)
        return RelatedRun(
            name_of(run),
            parent_of(run),
            is_deleted=is_removed(run, experiment),
            is_chosen=chosen and self._runs.only.accepts(run),
            is_registered=registered,
        )

    def _takes(self, run: Run) -> bool:
        """Return whether a run without a registered version is asked for."""
        is_child = not self._includes_children and self._parents.top_of(run.run_id) is not None
        return not is_child and is_chosen(self._config, run)

    def _corrected_parents(self) -> Iterator[Sequence[JoinedRecord]]:
        """Yield once more the runs that turned out to be parents, or not to be, after all pages."""
        runs = self._runs
        if runs.only.limit is not None:
            return  # the newest runs come first, so children come before their parents
        complete = runs.lists_all and not self._leaves_children_out
        run_ids = self._parents.corrections(complete=complete)
        if not run_ids:
            return
        named = NamedRuns(self._reader, runs.only, Runs(run_ids), listed_only=runs.listed_only)
        again = (self._reader, self._scope, self._config, named, self._parents)
        for page in WorkspaceReading(*again).pages():
            yield [
                record
                for record in page
                if isinstance(record, JoinedRun)
                and record.run.experiment_id in self._runs.experiments
            ]

    def _join(
        self,
        run: Run,
        versions: tuple[ModelVersion, ...],
        children: Mapping[str, int],
    ) -> JoinedRun:
        parent_name, parent_id = self._parents.parent_of(
            run, include_children=self._includes_children
        )
        has_children = self._parents.has_children(run)
        if has_children is None and not self._runs.by_ids:
            has_children = False
        if not has_children and self._leaves_children_out:
            has_children = None
        record = JoinedRun(
            self._scope,
            run,
            self._runs.experiments.get(run.experiment_id),
            versions=versions,
            models=self._models.of(run),
            parent_id=parent_id,
            parent_name=parent_name,
            has_children=has_children,
            children=children.get(run.run_id),
            abandoned=is_abandoned(self._config, run, self._reader.connection.clock_ms),
            listed_only=self._runs.listed_only,
            measures=() if versions else self._models.measured_by(run),
        )
        return self._files.with_files(record)

    def _without_run(self, version: ModelVersion) -> JoinedVersion:
        return JoinedVersion(self._scope, version, self._runs.registered.get(version.name))

    def _with_models(self, versions: Sequence[JoinedVersion]) -> list[JoinedVersion]:
        """Return `versions` with logged models and files, of those too to which no run has led."""
        ids = [None if version.model else version.version.model_id for version in versions]
        self._models.load_named([model_id for model_id in ids if model_id])
        found = [self._models.find(model_id) if model_id else None for model_id in ids]
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
        for piece in id_pieces(run_ids):
            made: defaultdict[str | None, list[LoggedModel]] = defaultdict(list)
            for page in self._list_models(ModelFilter(run_ids=piece)):
                for model in page:
                    made[model.source_run_id].append(model)
            for of_run in made.values():
                result.update(of_one_run(of_run))
        return result


def _with_signature_tables(
    pages: Iterable[Sequence[JoinedRecord]],
) -> Iterator[Sequence[JoinedRecord]]:
    """Yield the pages, each feature table of a signature before the first record that links to it.

    Cost: holds the names of the tables.
    """
    names: set[str] = set()
    for page in pages:
        records: list[JoinedRecord] = []
        for record in page:
            signatures: Sequence[JoinedSignature] = ()
            if isinstance(record, JoinedRun | JoinedVersion):
                signatures = signature_tables(record)
            for signature in signatures:
                if signature.table.table not in names:
                    names.add(signature.table.table)
                    is_listed = isinstance(record, JoinedRun) and record.listed_only
                    records.append(replace(signature, listed_only=is_listed))
            records.append(record)
        yield records
