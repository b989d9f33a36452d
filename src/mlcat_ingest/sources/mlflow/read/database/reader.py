"""A `Reader` over MLflow's own tables, where the tracking URI is that of a database."""

import logging
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Self

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import MlcatError, ProtocolMismatchError
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.sources.mlflow.config import MlflowConfig, RunSelect
from mlcat_ingest.sources.mlflow.read.assets import prompts
from mlcat_ingest.sources.mlflow.read.checks import MlflowFeature, findings, links_finding
from mlcat_ingest.sources.mlflow.read.database.access import (
    Database,
    IdQuery,
    Sql,
    pages_of_ids,
    where,
)
from mlcat_ingest.sources.mlflow.read.database.rows import (
    WorkspaceTables,
    load_logged_models,
    load_runs,
    workspace_names,
)
from mlcat_ingest.sources.mlflow.read.database.schema import LOGGED_MODELS, RUNS
from mlcat_ingest.sources.mlflow.read.decode import Aliases, Refusals, is_prompt
from mlcat_ingest.sources.mlflow.read.listing import (
    ENTRIES_A_SLICE,
    EXPERIMENTS_A_LISTING,
    EXPERIMENTS_PAGE,
    FIRST_SLICE,
    MODELS_PAGE,
    RUNS_A_SLICE,
    PageSize,
    entries_of,
)
from mlcat_ingest.sources.mlflow.read.reader import (
    ALL_MODELS,
    ALL_RUNS,
    FileLocation,
    MlflowObject,
    ModelFilter,
    RunFilter,
    identity,
    local_text,
)
from mlcat_ingest.sources.mlflow.values.assets import PROMPT, Asset
from mlcat_ingest.sources.mlflow.values.records import (
    EXTERNAL_TAG,
    HISTORY_TAG,
    PARENT_TAG,
    Experiment,
    LoggedModel,
    ModelVersion,
    RegisteredModel,
    Run,
)
from mlcat_ingest.sources.paging import drain_slices

log = logging.getLogger(__name__)


class DatabaseReader:
    """A `Reader` of one workspace by SQL.

    Records equal those that an MLflow server of the same database lists, but for
    `MlflowFeature.OUTPUTS_IN_LISTINGS`. Where no cost is named, it is one statement.
    """

    def __init__(
        self,
        config: MlflowConfig,
        database: Database,
        workspace: str = DEFAULT_WORKSPACE,
    ) -> None:
        """Share `database` with the readers of other workspaces.

        Raises: see `Database.schema`.
        """
        self._config = config
        self.connection = database
        features = database.schema.features
        self._has_workspaces = MlflowFeature.WORKSPACES in features
        self._has_logged_models = MlflowFeature.LOGGED_MODELS in features
        self.workspace = workspace
        self.refusals = Refusals()
        here = workspace if self._has_workspaces else None
        self._tables = WorkspaceTables(database, self.refusals, here)
        self._experiments: list[Experiment] | None = None
        self._models: list[RegisteredModel] | None = None
        self._prompts: frozenset[str] = frozenset()

    def server_id(self) -> str:
        """Return the identity of the store, by experiment 0 of the default workspace."""
        return identity(self._config, self._tables.first_created_ms, self.connection.in_schema)

    def workspaces(self) -> Sequence[Self]:
        """Return a reader of each workspace; this one for its own, which may be listed already."""
        if not self._has_workspaces:
            return (self,)
        names = workspace_names(self.connection)
        shared = self._config, self.connection
        return [self if name == self.workspace else type(self)(*shared, name) for name in names]

    def experiments(self) -> Iterator[list[Experiment]]:
        """Yield all experiments in pages; listed once and kept."""
        if self._experiments is None:
            self._experiments = self._tables.experiments()
        yield from map(list, chunks(self._experiments, EXPERIMENTS_PAGE))

    def registered_models(self) -> Iterator[list[RegisteredModel]]:
        """Yield all registered models in pages, without prompts; listed once and kept."""
        if self._models is None:
            models = self._tables.registered_models()
            self._prompts = frozenset(model.name for model in models if is_prompt(model.tags))
            self._models = [model for model in models if model.name not in self._prompts]
        yield from map(list, chunks(self._models, MODELS_PAGE))

    def narrow_registry(self, names: Sequence[str]) -> None:
        """List only the registered models with these names from now on."""
        self._tables.names = names

    def model_versions(self) -> Iterator[list[ModelVersion]]:
        """Yield the versions of all registered models in pages, prompts left out."""
        models = [model for page in self.registered_models() for model in page]
        for page in self._tables.model_versions(Aliases(models)) if models else ():
            yield [v for v in page if v.name not in self._prompts and not is_prompt(v.tags)]

    def assets(self, kind: str) -> Sequence[Asset] | None:
        """Return all assets of a kind; None where the schema has no such tables."""
        if kind == PROMPT:
            models = [one for one in self._tables.registered_models() if is_prompt(one.tags)]
            pages = self._tables.model_versions(Aliases(models), of_prompts=True)
            versions = chain.from_iterable(pages if models else ())
            return prompts(models, (one for one in versions if is_prompt(one.tags)))
        try:
            return self._tables.assets(kind)
        except ProtocolMismatchError:
            return None

    def logged_models(
        self, experiment_ids: Sequence[str], *, only: ModelFilter = ALL_MODELS
    ) -> Iterator[list[LoggedModel]]:
        """Yield the logged models of some experiments in pages; none where the schema has none.

        Cost: four statements a page, and a walk over all logged models for each 10,000.
        """
        if not self._has_logged_models:
            return
        left = only.newest_external
        for ids in chunks(experiment_ids, EXPERIMENTS_A_LISTING):
            wanted = tuple(_wanted_models(ids, only))
            ordered = IdQuery(
                LOGGED_MODELS,
                "model_id",
                "creation_timestamp_ms",
                wanted,
                newest_first=only.newest_external is not None,
            )
            for model_ids in pages_of_ids(self.connection, ordered, left):
                with self.connection.page() as read:
                    page = load_logged_models(read, self.refusals, model_ids)
                left = None if left is None else left - len(page)
                yield page

    def runs(
        self, experiment_ids: Sequence[str], *, only: RunFilter = ALL_RUNS
    ) -> Iterator[list[Run]]:
        """Yield the runs of some experiments in slices of a page, in the order of their start.

        Cost: five to eight statements for 100 runs, or for fewer where these are large, and a walk
        over all runs for each 10,000.
        """
        outputs, left = self._has_logged_models, only.limit
        slices = PageSize(RUNS_A_SLICE, ENTRIES_A_SLICE, FIRST_SLICE)
        for ids in chunks(experiment_ids, EXPERIMENTS_A_LISTING):
            wanted = tuple(_wanted_runs(ids, only, outputs=outputs))
            newest_first = only.limit is not None
            ordered = IdQuery(RUNS, "run_uuid", "start_time", wanted, newest_first, only.skip)
            for page in pages_of_ids(self.connection, ordered, left):
                while run_ids := page[: slices.runs]:
                    del page[: slices.runs]
                    with self.connection.page() as read:
                        loaded = load_runs(read, self.refusals, run_ids, outputs=outputs)
                    slices.learn(len(loaded), entries_of(loaded))
                    left = None if left is None else left - len(loaded)
                    yield from drain_slices(loaded, RUNS_A_SLICE)

    def parents(self, experiment_ids: Sequence[str], *, only: RunFilter) -> Collection[str]:
        """Return the ids that the runs of some experiments name as their parents.

        Cost: one statement for each 2,000 experiments, which walks over all child runs.
        """
        every = replace(only, select="all")
        named = "SELECT DISTINCT value FROM tags JOIN runs ON tags.run_uuid = runs.run_uuid"
        child = Sql("tags.key = ? AND value <> tags.run_uuid", (PARENT_TAG,))
        parents: set[str] = set()
        for ids in chunks(experiment_ids, EXPERIMENTS_A_LISTING):
            wanted = _wanted_runs(ids, every, outputs=self._has_logged_models)
            listed, values = where([child, *wanted])
            with self.connection.page() as read:
                rows = list(read(f"{named}{listed}", *values))
            parents.update(parent for (parent,) in rows)
        return parents

    def run_digests(
        self, experiment_ids: Sequence[str], before_ms: Sequence[int]
    ) -> Sequence[Mapping[str, str]]:
        """Return a digest of the ids of the runs that started before each moment.

        Cost: a statement for each 2,000 experiments, which walks over all their runs.
        """
        sums = [Counter[int]() for _ in before_ms]
        columns = "SELECT experiment_id, run_uuid, start_time FROM runs"
        for ids in chunks(experiment_ids, EXPERIMENTS_A_LISTING):
            statement = f"{columns} WHERE {_is_one_of('experiment_id', ids).text}"
            with self.connection.page() as read:
                for experiment_id, run_id, started in read(statement, stream=True):
                    # MLflow's ids are random, so that their sum is as good as a hash.
                    number = int.from_bytes(run_id.encode())
                    # SQLite may hold other types; such a run is refused when it is read.
                    started_ms = started if isinstance(started, int) else 0
                    for moment, sum_of in zip(before_ms, sums, strict=True):
                        if started_ms < moment:
                            sum_of[experiment_id] += number
        return [
            {id_: f"{sum_of[int(id_)] % 2**128:x}" for id_ in experiment_ids} for sum_of in sums
        ]

    def is_gone(self, target: MlflowObject) -> bool:
        """Return whether no row of its table is of this object, in the trash or not."""
        return not self._tables.is_there(target)

    def text_of(self, place: FileLocation, path: str) -> str | None:
        """Return what a file on this machine holds."""
        return local_text(place, path)

    def check(self) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing."""
        schema = self.connection.schema
        text = f"{self.connection.shown} is readable: {schema.label}"
        yield Finding("MLflow database", "ok" if schema.releases else "warning", text)
        try:
            closed = self.connection.unreadable(schema.tables)
        except MlcatError as error:
            yield Finding("MLflow database", "failed", error.message, error.hint)
            return
        for name in closed:
            hint = "grant the user SELECT on it"
            yield Finding("MLflow tables", "failed", f"no permission to read {name}", hint)
        if not closed:
            yield from findings(
                self,
                self._config,
                version=schema.releases,
                how="credentials of the address",
                read_by="database",
            )
            yield links_finding(self._config)


def _wanted_runs(experiment_ids: Sequence[str], only: RunFilter, *, outputs: bool) -> Iterator[Sql]:
    """Yield the conditions for the runs of some experiments that `only` wants.

    `outputs`: whether the schema has the models that runs logged.
    """
    yield _is_one_of("runs.experiment_id", experiment_ids)
    for field, operator, time_ms in only.times():
        yield Sql(f"runs.{field} {operator} ?", (time_ms,))
    if only.statuses:
        yield Sql("runs.status IN ?", (list(only.statuses),))
    if only.run_ids is not None:
        yield Sql("runs.run_uuid IN ?", (list(only.run_ids),))
    if only.deleted:
        yield Sql("runs.lifecycle_stage = 'deleted'")
    if only.select != "all":
        yield _may_have_model(only.select, outputs=outputs)


def _wanted_models(experiment_ids: Sequence[str], only: ModelFilter) -> Iterator[Sql]:
    """Yield the conditions for the logged models of some experiments that `only` wants."""
    yield _is_one_of("experiment_id", experiment_ids)
    yield Sql("lifecycle_stage <> 'deleted'")
    if only.updated_since_ms is not None:
        yield Sql("last_updated_timestamp_ms >= ?", (only.updated_since_ms,))
    if only.run_ids is not None:
        yield Sql("source_run_id IN ?", (list(only.run_ids),))
    if only.model_ids is not None:
        yield Sql("model_id IN ?", (list(only.model_ids),))
    if only.newest_external is not None:
        tagged = "SELECT model_id FROM logged_model_tags WHERE tag_key = ? AND tag_value = 'true'"
        yield Sql(f"model_id IN ({tagged})", (EXTERNAL_TAG,))


def _may_have_model(chosen: RunSelect, *, outputs: bool) -> Sql:
    """Return a condition that holds for all runs that the recipe selects, and for some others.

    A version can name its run, or a logged model that the run made.
    """
    ids = [
        "SELECT run_id FROM model_versions WHERE run_id IS NOT NULL",
        "SELECT substr(source, 7, 32) FROM model_versions WHERE substr(source, 1, 6) = 'runs:/'",
    ]
    if outputs:
        ids.append("SELECT source_id FROM inputs WHERE source_type = 'RUN_OUTPUT'")
    if chosen == "with_model":
        ids.append(f"SELECT run_uuid FROM tags WHERE tags.key = '{HISTORY_TAG}'")
    return Sql(f"({' OR '.join(f'runs.run_uuid IN ({run_ids})' for run_ids in ids)})")


def _is_one_of(column: str, ids: Sequence[str]) -> Sql:
    """Return the condition that a number in a column is one of `ids`."""
    # Spelled out: SQLite takes fewer parameters than there can be experiments.
    return Sql(f"{column} IN ({', '.join(str(int(id_)) for id_ in ids)})")


def open_database(config: MlflowConfig) -> DatabaseReader:
    """Return a reader of the tracking URI's database.

    Raises:
        MissingExtraError, RecipeError: the driver, the file or the database is missing.
        SourceUnavailableError, AuthenticationError, NotAuthorizedError: it does not answer, or does
            not let us in.
        ProtocolMismatchError: see `Database.schema`.

    Cost: a connection, which stays open, and three statements.
    """
    database = Database(config.tracking_uri, timeout_s=config.timeout_s)
    log.info("reading the %s in %s", database.schema.label, database.shown)
    return DatabaseReader(config, database)
