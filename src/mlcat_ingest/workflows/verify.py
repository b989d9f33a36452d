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
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_GROUP_PROPERTIES, ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.naming import Naming, Templates
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.read.listing import chunks
from mlcat_ingest.sources.mlflow.read.open import open_reader
from mlcat_ingest.sources.mlflow.read.reader import Reader, RunFilter
from mlcat_ingest.sources.mlflow.values.records import (
    HISTORY_TAG,
    NAME_TAG,
    NOTE_TAG,
    Experiment,
    LoggedModel,
    PropertyKey,
    Run,
    SubType,
)
from mlcat_ingest.workflows.resolve import ResolvedRecipe
from mlcat_ingest.workflows.verify_entities import EntityComparison, option_against
from mlcat_ingest.workflows.verify_kinds import KIND_ASPECTS, ComparedRun, KindComparison
from mlcat_ingest.workflows.verify_models import (
    ExternalComparison,
    compare_made_models,
    with_models,
)
from mlcat_ingest.workflows.verify_orphans import Listing, OrphanSearch, has_models_of_others
from mlcat_ingest.workflows.verify_registry import (
    LinkComparison,
    RegistryComparison,
    metrics_of_models,
    models_made_by,
)
from mlcat_ingest.workflows.verify_result import VerifyResult
from mlcat_ingest.workflows.verify_sample import sampled_runs, spread

ItemT = TypeVar("ItemT")
OnRuns = Callable[[VerifyResult], None]

PLATFORM: Final = "mlflow"


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
            hint="add a source of `type: mlflow`",
        )
    result.notes += [
        f"the source {one.type} is not compared: only MLflow sources are"
        for one in resolved.sources
        if not isinstance(one.config, MlflowConfig)
    ]
    with closing(resolved.sink.build()) as catalog:
        if not catalog.facts.keeps:
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
        result.notes.append("orphans are not checked with --sample")
    if left is not None:
        result.notes.append(f"only the newest runs are compared: `limit` is {left:,}")
    reader = open_reader(config)
    with closing(reader.connection):
        for here in reader.workspaces():
            if not config.workspaces.allows(here.workspace):
                result.leave_out("workspace", "by `workspaces`")
                continue
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
        self._since_ms = config.runs.since_ms(reader.connection.clock_ms())
        self._links = LinkComparison(catalog, result)
        self._kinds = KindComparison(result, catalog, self._naming)
        self._external = ExternalComparison(
            reader, config, catalog, result, self._listing, self._kinds
        )

    def verify(self, sample: int | None, limit: int | None) -> None:
        """Compare groups, runs, then versions; at last look for orphans."""
        every = [one for page in self._reader.experiments() for one in page]
        wanted = [one for one in every if self._config.experiments.allows(one.name)]
        self._result.leave_out("experiment", "by `experiments`", len(every) - len(wanted))
        self._experiments = {one.experiment_id: one for one in wanted}
        registry = RegistryComparison(
            self._reader,
            self._config,
            self._catalog,
            self._result,
            self._naming,
            self._links,
            self._kinds,
        )
        self._listing.add_groups(every, registry.models)
        self._listing.add_versions(registry.versions)
        for experiments in chunks(spread(wanted, sample), MAX_REQUEST_ITEMS):
            self._compare_experiments(experiments)
        if wanted:
            for runs in _batches(self._runs(sample, limit)):
                self._compare_runs(runs, registry)
                self._notify(self._result)
            all_runs = sample is None and limit is None
            every_child = self._since_ms is None and not self._config.runs.statuses
            self._kinds.compare_parents(complete=all_runs and every_child)
            newest = limit if sample is None else sample if limit is None else min(sample, limit)
            named = registry.model_ids()
            compared = self._external.compare(self._experiments, self._since_ms, newest, named)
            for _ in compared:
                self._notify(self._result)
        whole = len(every) == len(wanted) and limit is None
        for _ in registry.compare(list(self._experiments), self._since_ms, sample, whole=whole):
            self._notify(self._result)
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
        aspects = [ML_MODEL_GROUP_PROPERTIES, STATUS, *KIND_ASPECTS]
        stored = self._catalog.read_many(urns, aspects)
        for urn, one in zip(urns, experiments, strict=True):
            entity = self._entity(urn, ML_MODEL_GROUP_PROPERTIES, stored)
            if one.lifecycle_stage == "deleted":
                hidden = entity.is_hidden("experiment")
                if not hidden and not has_models_of_others(self._catalog, urn, self._source):
                    entity.report("stale", "experiment", f"{STATUS}.removed", "true", "false")
            elif entity.is_live("experiment", one.name):
                entity.tags(one.tags, without={NOTE_TAG})
                entity.description(one.tags.get(NOTE_TAG))
                self._kinds.compare(urn, stored[urn], SubType.EXPERIMENT)

    def _compare_runs(self, runs: Sequence[Run], registry: RegistryComparison) -> None:
        self.runs_read += len(runs)
        self._kinds.add_children(runs)
        chosen: list[Run] = []
        for run in runs:
            self._listing.add(self._naming.model(run.run_id).urn)
            self._external.add_outputs(run)
            registered = registry.has_versions_of(run)
            reason = option_against(run, self._config.runs, self._since_ms, registered=registered)
            if reason:
                self._result.leave_out("run", f"by `{reason}`")
                continue
            chosen.append(run)
            registry.add_run(run)
        urns = [self._naming.model(run.run_id).urn for run in chosen]
        stored = self._catalog.read_many(urns, [ML_MODEL_PROPERTIES, STATUS, *KIND_ASPECTS])
        models = models_made_by(self._reader, chosen)
        entities = [self._entity(urn, ML_MODEL_PROPERTIES, stored) for urn in urns]
        compared: list[ComparedRun] = []
        for entity, run in zip(entities, chosen, strict=True):
            if self._is_in_trash(run):
                if not entity.is_hidden("run"):
                    entity.report("stale", "run", f"{STATUS}.removed", "true", "false")
                compared.append(ComparedRun(run, entity, live=False))
            elif entity.is_live("run", run.name or run.run_id):
                self._compare_run(entity, run, models)
                folder = self._experiments[run.experiment_id].name or run.experiment_id
                self._kinds.compare_run(entity, stored[entity.urn], run, folder)
                compared.append(ComparedRun(run, entity, live=True))
        if self._config.lineage.process_instances:
            self._kinds.compare_processes(compared)
        self._links.compare(entities)

    def _compare_run(
        self,
        entity: EntityComparison,
        run: Run,
        models: Mapping[str, LoggedModel],
    ) -> None:
        entity.fact("run", PropertyKey.STATUS, run.status)
        same_name = run.name is None or run.name == run.tags.get(NAME_TAG)
        without = {NOTE_TAG, HISTORY_TAG, *((NAME_TAG,) if same_name else ())}
        expected = with_models(run, models, without)
        entity.params(expected.params)
        made = metrics_of_models(run, models)
        entity.metrics(run.metrics, made, system=self._config.system_metrics)
        entity.tags(expected.tags, without=without)
        compare_made_models(entity, run, models)
        entity.description(run.tags.get(NOTE_TAG))
        entity.datasets(run.datasets)
        entity.membership(self._group_urn(self._experiments[run.experiment_id]))

    def _is_in_trash(self, run: Run) -> bool:
        experiment = self._experiments[run.experiment_id]
        return "deleted" in (run.lifecycle_stage, experiment.lifecycle_stage)

    def _group_urn(self, experiment: Experiment) -> str:
        return self._listing.group_urn(experiment)

    def _entity(
        self, urn: str, aspect: str, stored: Mapping[str, StoredEntity]
    ) -> EntityComparison:
        return EntityComparison(self._result, urn, aspect, stored.get(urn, {}))


def _batches(pages: Iterable[Sequence[ItemT]]) -> Iterator[list[ItemT]]:
    """Yield the items of `pages` by as many as one request to the catalog takes."""
    items = (item for page in pages for item in page)
    while batch := list(islice(items, MAX_REQUEST_ITEMS)):
        yield batch
