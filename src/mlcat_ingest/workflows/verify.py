"""Verification of a recipe: whether the catalog holds what MLflow holds.

It shares nothing with a run but the readers of MLflow and the client of the catalog: no state, no
mapping, no merge. MLflow is listed whole and the catalog is read in batches beside it, so memory
holds a batch of runs, the registry, and a hash for each URN.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from typing import Final, TypeVar
from urllib.parse import quote

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.errors import InvalidUrnError, RecipeError
from mlcat_ingest.metadata.aspects.common import STATUS, VERSION_PROPERTIES
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_GROUP_PROPERTIES, ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.naming import Naming, Templates
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.reader import (
    IDS_A_LISTING,
    ModelFilter,
    Reader,
    RunFilter,
    open_reader,
)
from mlcat_ingest.sources.mlflow.values.records import (
    HISTORY_TAG,
    NAME_TAG,
    NOTE_TAG,
    PARENT_TAG,
    Experiment,
    LoggedModel,
    ModelVersion,
    OwnKey,
    RegisteredModel,
    Run,
    aliases_of,
    number_of,
)
from mlcat_ingest.workflows.resolve import ResolvedRecipe
from mlcat_ingest.workflows.verify_entities import EntityComparison
from mlcat_ingest.workflows.verify_orphans import Listing, OrphanSearch, has_models_of_others
from mlcat_ingest.workflows.verify_result import VerifyResult
from mlcat_ingest.workflows.verify_sample import sampled_runs, spread

ItemT = TypeVar("ItemT")
OnRuns = Callable[[VerifyResult], None]

PLATFORM: Final = "mlflow"
KNOWN_FEATURES: Final = 50_000
"""Features of which it is kept whether the catalog has them."""


def verify(
    resolved: ResolvedRecipe, *, sample: int | None = None, on_progress: OnRuns | None = None
) -> VerifyResult:
    """Return how the catalog of a recipe differs from its MLflow sources; nothing is changed.

    With `sample` about so many runs and versions are compared, and orphans are not looked for.

    Raises:
        RecipeError: the recipe has no MLflow source, or no sink that can be read.
        RetryableError, FatalError, CatalogError: a side failed.

    Cost: the listings of MLflow, and a request to the catalog for each 200 entities; some 100 bytes
    of memory a run.
    """
    result = VerifyResult(resolved.recipe.name)
    configs = [one.config for one in resolved.sources if isinstance(one.config, MlflowConfig)]
    if not configs or resolved.sink is None:
        lacking = "MLflow source" if resolved.sink else "sink"
        raise RecipeError(
            f"the recipe {resolved.recipe.name} has no {lacking}, so there is nothing to verify",
            hint="verify compares the runs of `type: mlflow` with the catalog",
        )
    result.notes += [
        f"the source {one.type} is not compared: only MLflow sources are"
        for one in resolved.sources
        if not isinstance(one.config, MlflowConfig)
    ]
    with closing(resolved.sink.build()) as catalog:
        if not catalog.keeps:
            raise RecipeError(
                f"the sink {resolved.sink.type} cannot be read, so there is nothing to verify",
                hint="verify needs a `rest` or an `embedded` sink",
            )
        catalog.open(read_only=True)
        for config in configs:
            _verify_source(config, catalog, result, sample, on_progress or (lambda _: None))
    return result


def _verify_source(
    config: MlflowConfig,
    catalog: Catalog,
    result: VerifyResult,
    sample: int | None,
    notify: OnRuns,
) -> None:
    left = config.limit
    if sample is not None:
        result.notes.append("with --sample, orphans are not looked for")
    if left is not None:
        result.notes.append(f"only the newest {left:,} runs are compared, as `limit` says")
    with closing(open_reader(config)) as reader:
        for name in reader.workspaces():
            if not config.workspaces.allows(name):
                result.leave_out("workspace", "by `workspaces`")
                continue
            here = reader if name == reader.workspace else reader.in_workspace(name)
            place = _Workspace(here, config, catalog, result, notify)
            place.verify(sample, left)
            if left is not None:
                left = max(0, left - place.runs_read)


def naming_of(config: MlflowConfig, workspace: str) -> Naming:
    """Return the names of one workspace, by the recipe's rules.

    Raises:
        RecipeError: no names can be made by them.
    """
    templates = Templates(**config.naming.model_dump())
    shared = config.compat == "datahub"
    try:
        return Naming(PLATFORM, config.env, config.instance, workspace, templates, shared=shared)
    except ValueError as error:
        raise RecipeError(str(error)) from error


class _Registry:
    """The registered models of a workspace, and which runs and logged models have versions."""

    def __init__(self, reader: Reader) -> None:
        self.models = {one.name: one for page in reader.registered_models() for one in page}
        self.versions = [one for page in reader.model_versions() for one in page]
        self._origins: dict[str, list[ModelVersion]] = {}
        for version in self.versions:
            origin = version.run_id or _logged_model_id(version)
            if origin:
                self._origins.setdefault(origin, []).append(version)

    def of(self, run: Run) -> Iterator[ModelVersion]:
        """Yield the versions made from a run, or from a logged model that it made."""
        for origin in (run.run_id, *(output.model_id for output in run.model_outputs)):
            yield from self._origins.get(origin, ())


def _logged_model_id(version: ModelVersion) -> str | None:
    source = version.source or ""
    named = source.removeprefix("models:/").partition("/")[0]
    return version.model_id or (named if source.startswith("models:/m-") else None)


class _Workspace:
    """One workspace of one MLflow server, compared with the catalog."""

    def __init__(
        self,
        reader: Reader,
        config: MlflowConfig,
        catalog: Catalog,
        result: VerifyResult,
        notify: OnRuns,
    ) -> None:
        self.runs_read = 0
        self._reader = reader
        self._config = config
        self._catalog = catalog
        self._result = result
        self._notify = notify
        self._naming = naming_of(config, reader.workspace)
        workspace = quote(reader.workspace, safe="")
        self._source = f"{PLATFORM}:{reader.server_id()}:{workspace}"
        self._listing = Listing(reader, self._naming)
        self._experiments: dict[str, Experiment] = {}
        self._since_ms = config.runs.since_ms(reader.clock_ms())
        self._newest_from_runs: dict[str, ModelVersion] = {}
        self._features: dict[str, bool] = {}

    def verify(self, sample: int | None, limit: int | None) -> None:
        """Compare groups, runs, then versions; at last look for orphans."""
        every = [one for page in self._reader.experiments() for one in page]
        wanted = [one for one in every if self._config.experiments.allows(one.name)]
        self._result.leave_out("experiment", "by `experiments`", len(every) - len(wanted))
        self._experiments = {one.experiment_id: one for one in wanted}
        self._result.leave_out("prompt", "", self._reader.count_prompts())
        registry = _Registry(self._reader)
        self._listing.add_groups(every, registry.models)
        self._listing.add_versions(registry.versions)
        for experiments in chunks(spread(wanted, sample), MAX_REQUEST_ITEMS):
            self._compare_experiments(experiments)
        if wanted:
            for runs in _batches(self._runs(sample, limit)):
                self._compare_runs(runs, registry)
                self._notify(self._result)
        whole = len(every) == len(wanted) and limit is None
        self._compare_registry(registry, sample, whole=whole)
        if sample is None:
            search = OrphanSearch(self._catalog, self._result, self._listing, self._source)
            search.look(lambda: open_reader(self._config))

    def _runs(self, sample: int | None, limit: int | None) -> Iterator[list[Run]]:
        ids = list(self._experiments)
        if limit is None and sample is None:
            return self._reader.runs(ids)
        only = RunFilter(since_ms=self._since_ms, statuses=tuple(self._config.runs.statuses))
        return sampled_runs(self._reader, ids, only, sample, limit)

    def _compare_experiments(self, experiments: Sequence[Experiment]) -> None:
        urns = [self._group_urn(one) for one in experiments]
        stored = self._catalog.read_many(urns, [ML_MODEL_GROUP_PROPERTIES, STATUS])
        for urn, one in zip(urns, experiments, strict=True):
            entity = self._entity(urn, ML_MODEL_GROUP_PROPERTIES, stored)
            if one.lifecycle_stage == "deleted":
                hidden = entity.is_hidden("experiment")
                if not hidden and not has_models_of_others(self._catalog, urn, self._source):
                    entity.report("stale", "experiment", f"{STATUS}.removed", "true", "false")
            elif entity.is_live("experiment", one.name):
                entity.tags(one.tags, without={NOTE_TAG})
                entity.description(one.tags.get(NOTE_TAG))

    def _compare_runs(self, runs: Sequence[Run], registry: _Registry) -> None:
        self.runs_read += len(runs)
        chosen: list[Run] = []
        for run in runs:
            self._listing.add(self._naming.model(run.run_id).urn)
            versions = list(registry.of(run))
            reason = self._reason(run, registered=bool(versions))
            if reason:
                self._result.leave_out("run", f"by `{reason}`")
                continue
            chosen.append(run)
            for one in versions:
                newest = self._newest_from_runs.get(one.name, one)
                later = max(newest, one, key=lambda each: number_of(each.version))
                self._newest_from_runs[one.name] = later
        urns = [self._naming.model(run.run_id).urn for run in chosen]
        stored = self._catalog.read_many(urns, [ML_MODEL_PROPERTIES, STATUS])
        models = self._models_of(chosen)
        entities = [self._entity(urn, ML_MODEL_PROPERTIES, stored) for urn in urns]
        for entity, run in zip(entities, chosen, strict=True):
            self._compare_run(entity, run, models)
        self._compare_links(entities)

    def _reason(self, run: Run, *, registered: bool) -> str | None:
        """Return the option of the recipe that leaves a run out, None where it is wanted."""
        chosen = self._config.runs
        if self._since_ms is not None and (run.start_time_ms or 0) < self._since_ms:
            return "runs.since"
        if chosen.statuses and run.status not in chosen.statuses:
            return "runs.statuses"
        if registered:
            return None
        if chosen.children != "include" and run.tags.get(PARENT_TAG):
            return "runs.children"
        has_model = bool(run.model_outputs) or HISTORY_TAG in run.tags
        if chosen.select == "registered" or (chosen.select == "with_model" and not has_model):
            return "runs.select"
        return None

    def _compare_run(
        self, entity: EntityComparison, run: Run, models: Mapping[str, LoggedModel]
    ) -> None:
        experiment = self._experiments[run.experiment_id]
        if "deleted" in (run.lifecycle_stage, experiment.lifecycle_stage):
            if not entity.is_hidden("run"):
                entity.report("stale", "run", f"{STATUS}.removed", "true", "false")
            return
        if not entity.is_live("run", run.name or run.run_id):
            return
        entity.fact("run", OwnKey.STATUS, run.status)
        entity.params(run.params)
        made = [models[one.model_id] for one in run.model_outputs if one.model_id in models]
        entity.metrics(
            run.metrics,
            [metric for model in made for metric in model.metrics],
            system=self._config.system_metrics,
        )
        same_name = run.name is None or run.name == run.tags.get(NAME_TAG)
        entity.tags(run.tags, without={NOTE_TAG, HISTORY_TAG, *((NAME_TAG,) if same_name else ())})
        entity.description(run.tags.get(NOTE_TAG))
        entity.membership(self._group_urn(experiment))

    def _models_of(self, runs: Sequence[Run]) -> Mapping[str, LoggedModel]:
        """Return the logged models that runs made, by id, at a request for each 100 runs."""
        made = [run for run in runs if run.model_outputs]
        found: dict[str, LoggedModel] = {}
        for some in chunks(made, IDS_A_LISTING):
            only = ModelFilter(run_ids=tuple(run.run_id for run in some))
            experiments = sorted({run.experiment_id for run in some})
            for page in self._reader.logged_models(experiments, only=only):
                found.update((model.model_id, model) for model in page)
        return found

    def _compare_registry(self, registry: _Registry, sample: int | None, *, whole: bool) -> None:
        """Compare registered models and versions, where only some runs are read those of theirs."""
        versions = [one for one in registry.versions if whole or self._is_read(one)]
        names = {one.name for one in versions} if not whole else registry.models.keys()
        models = [registry.models[name] for name in sorted(names) if name in registry.models]
        left_out = len(registry.versions) - len(versions)
        self._result.leave_out("version", "of runs that the recipe does not read", left_out)
        for some in chunks(spread(models, sample), MAX_REQUEST_ITEMS):
            self._compare_models(some)
        for some_versions in chunks(spread(versions, sample), MAX_REQUEST_ITEMS):
            self._compare_versions(some_versions, registry)
            self._notify(self._result)

    def _is_read(self, version: ModelVersion) -> bool:
        """Return whether a version is read where only some runs are.

        It is, if it or another version of its model is made from one of them; with a `limit`, if
        that is a later one.
        """
        newest = self._newest_from_runs.get(version.name)
        if newest is None or self._config.limit is None:
            return newest is not None
        return number_of(version.version) <= number_of(newest.version)

    def _compare_models(self, models: Sequence[RegisteredModel]) -> None:
        urns = [self._naming.registered_group(whole_characters(one.name)).urn for one in models]
        stored = self._catalog.read_many(urns, [ML_MODEL_GROUP_PROPERTIES, STATUS])
        for urn, one in zip(urns, models, strict=True):
            entity = self._entity(urn, ML_MODEL_GROUP_PROPERTIES, stored)
            if entity.is_live("registered model", one.name):
                entity.tags(one.tags, without=())

    def _compare_versions(self, versions: Sequence[ModelVersion], registry: _Registry) -> None:
        urns = [self._listing.version_urn(one) for one in versions]
        stored = self._catalog.read_many(urns, [ML_MODEL_PROPERTIES, VERSION_PROPERTIES, STATUS])
        entities = [self._entity(urn, ML_MODEL_PROPERTIES, stored) for urn in urns]
        for entity, one in zip(entities, versions, strict=True):
            if not entity.is_live("version", f"{one.name} {one.version}"):
                continue
            entity.fact("version", OwnKey.RUN_ID, one.run_id)
            entity.fact("version", OwnKey.VERSION, one.version)
            entity.tags(one.tags, without=(), prefix="version.")
            entity.membership(self._naming.registered_group(whole_characters(one.name)).urn)
            model = registry.models.get(one.name)
            held = stored[entity.urn].get(VERSION_PROPERTIES)
            entity.aliases(
                {} if held is None else held.value,
                aliases_of(one, model),
                {} if model is None else model.aliases,
            )
        self._compare_links(entities)

    def _compare_links(self, entities: Iterable[EntityComparison]) -> None:
        """Report links to features that the catalog does not have.

        Cost: one request for each 200 features that were not asked for before.
        """
        links = [
            (entity, urn) for entity in entities for urn in entity.properties.get("mlFeatures", ())
        ]
        new = {urn for _, urn in links if urn not in self._features}
        if len(self._features) > KNOWN_FEATURES:
            self._features.clear()
            new = {urn for _, urn in links}
        for urns in chunks(sorted(filter(_is_feature, new)), MAX_REQUEST_ITEMS):
            key = key_aspect_name(entity_type_of(urns[0]))
            stored = self._catalog.read_many(urns, [key, STATUS])
            self._features.update((urn, key in stored.get(urn, {})) for urn in urns)
        for entity, urn in links:
            self._result.compared["feature link"] += 1
            if not self._features.get(urn):
                entity.report("dangling", "feature link", "mlFeatures", urn, None)

    def _group_urn(self, experiment: Experiment) -> str:
        return self._listing.group_urn(experiment)

    def _entity(
        self, urn: str, aspect: str, stored: Mapping[str, StoredEntity]
    ) -> EntityComparison:
        return EntityComparison(self._result, urn, aspect, stored.get(urn, {}))


def _is_feature(urn: str) -> bool:
    try:
        return entity_type_of(urn) == "mlFeature"
    except InvalidUrnError:
        return False


def _batches(pages: Iterable[Sequence[ItemT]]) -> Iterator[list[ItemT]]:
    """Yield the items of `pages` by as many as one request to the catalog takes."""
    items = (item for page in pages for item in page)
    while batch := list(islice(items, MAX_REQUEST_ITEMS)):
        yield batch
