"""Rows of MLflow's tables as records: runs and logged models by id, other listings as a whole.

Rows are joined in SQL, never by a name in Python. MySQL compares names without case: a tag can have
another spelling of its model's name.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from sqlite3 import Error as SqliteError
from sys import intern
from typing import Any, Final

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.sources.mlflow.read import fields
from mlcat_ingest.sources.mlflow.read.assets import asset, path_of
from mlcat_ingest.sources.mlflow.read.database.access import (
    Database,
    Read,
    Row,
    Sql,
    in_workspace,
    rows_of,
    where,
)
from mlcat_ingest.sources.mlflow.read.database.schema import (
    ASSETS,
    DATASETS,
    EXPERIMENT_TAGS,
    EXPERIMENTS,
    LATEST_METRICS,
    LOGGED_MODEL_METRICS,
    LOGGED_MODEL_PARAMS,
    LOGGED_MODEL_TAGS,
    LOGGED_MODELS,
    MODEL_VERSION_TAGS,
    MODEL_VERSIONS,
    PARAMS,
    REGISTERED_MODEL_ALIASES,
    REGISTERED_MODEL_TAGS,
    REGISTERED_MODELS,
    RUNS,
    TAGS,
    Table,
    plain,
)
from mlcat_ingest.sources.mlflow.read.decode import (
    NAME_AND_DIGEST,
    STEP_AND_ID,
    Aliases,
    Refusals,
    metric_order,
)
from mlcat_ingest.sources.mlflow.read.fields import moment
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject
from mlcat_ingest.sources.mlflow.values.assets import Asset
from mlcat_ingest.sources.mlflow.values.joined import (
    EXPERIMENT,
    LOGGED_MODEL,
    REGISTERED,
    RUN,
    VERSION,
)
from mlcat_ingest.sources.mlflow.values.records import (
    PROMPT_TAG,
    DatasetInput,
    Experiment,
    LoggedModel,
    Metric,
    ModelOutput,
    ModelVersion,
    RegisteredModel,
    Run,
)

_NAN: Final = float("nan")
_NAME: Final = itemgetter(1)


_INFOS: Final = rows_of(RUNS, "run_uuid")
_METRICS: Final = rows_of(LATEST_METRICS, "run_uuid")
# `json_group_object` cuts a key at its first NUL, from SQLite 3.45 on.
_OBJECTS: Final = (
    "SELECT run_uuid,"
    " '{' || group_concat(json_quote(key) || ':' || json_quote(coalesce(value, ''))) || '}'"
)


_USED: Final = "destination_type = 'RUN' AND destination_id IN ?"
_LINKS: Final = f"SELECT destination_id, source_id FROM inputs WHERE {_USED}"
# Many runs use the same few datasets, whose schema and profile can be long: each comes once.
_DATASETS: Final = (
    f"SELECT {plain(DATASETS)} FROM datasets"
    f" WHERE dataset_uuid IN (SELECT source_id FROM inputs WHERE {_USED})"
)
_DATASET_TAGS: Final = (
    "SELECT destination_id, source_id, input_tags.name, input_tags.value FROM inputs"
    f" JOIN input_tags ON input_tags.input_uuid = inputs.input_uuid WHERE {_USED}"
)
_OUTPUTS: Final = (
    "SELECT source_id, destination_id, step FROM inputs WHERE source_type = 'RUN_OUTPUT'"
    " AND source_id IN ? AND destination_type = 'MODEL_OUTPUT'"
)

_MODEL_INFOS: Final = rows_of(LOGGED_MODELS, "model_id")
_MODEL_PARAMS: Final = rows_of(LOGGED_MODEL_PARAMS, "model_id")
_MODEL_TAGS: Final = rows_of(LOGGED_MODEL_TAGS, "model_id")
_MODEL_METRICS: Final = rows_of(LOGGED_MODEL_METRICS, "model_id")

VERSIONS_A_PAGE: Final = 1_000

DELETED_STAGE: Final = "Deleted_Internal"
"""The stage by which MLflow marks a version as deleted; its listings leave it out."""

_RENAMED: Final = {"created_at": "creation_timestamp", "last_updated_at": "last_updated_timestamp"}
"""Columns that MLflow's JSON has other names for."""

_NUMBER: Final = re.compile(r"[0-9]{1,18}")

_TABLES: Final = {
    "run": (RUNS, "run_uuid"),
    "experiment": (EXPERIMENTS, "experiment_id"),
    "registered": (REGISTERED_MODELS, "name"),
    "version": (MODEL_VERSIONS, "name"),
    "logged_model": (LOGGED_MODELS, "model_id"),
}


def load_runs(read: Read, refusals: Refusals, ids: list[str], *, outputs: bool) -> list[Run]:
    """Return the runs of `ids` that are there, in the order of `ids`.

    `outputs`: whether the schema has logged models. The models that runs took in are left
    out, as in MLflow's own listings: a run is the same whoever reads it.

    Cost: five statements, seven where a run has datasets, and one for outputs.
    """
    infos = {row[0]: row for row in read(_INFOS, ids)}
    params = _texts(read, ids, PARAMS)
    tags = _texts(read, ids, TAGS)
    metrics: defaultdict[str, list[Row]] = defaultdict(list)
    for row in read(_METRICS, ids):
        metrics[row[0]].append(row)
    names = _SharedKeys()
    datasets = _datasets(read, ids)
    made = _outputs(read, ids) if outputs else {}

    def run(run_id: str) -> Run:
        return fields.RUN.of_row(
            infos[run_id],
            params.get(run_id) or {},
            _metrics(metrics[run_id], names) if run_id in metrics else (),
            tags.get(run_id) or {},
            datasets.get(run_id, ()),
            (),
            made.get(run_id, ()),
        )

    return refusals.usable(RUN, run, (id_ for id_ in ids if id_ in infos), lambda id_: (id_,))


class _SharedKeys(dict[Any, Any]):
    """Maps a key to one that is one text in memory for all records."""

    def __missing__(self, key: Any) -> Any:
        # SQLite may hold other types.
        shared = self[key] = intern(key) if type(key) is str else key
        return shared


def _texts(read: Read, ids: list[str], table: Table) -> Mapping[Any, dict[str, str]]:
    """Return the parameters or tags of runs; SQLite gives those of a run as one JSON text."""
    if read.dialect == "sqlite":
        try:
            rows = read(f"{_OBJECTS} FROM {table.name} WHERE run_uuid IN ? GROUP BY run_uuid", ids)
            return {owner: loads(text) for owner, text in rows}
        except (SqliteError, CodecError):
            pass  # there is a value that is no text, or SQLite has no JSON
    return _by_owner(read(rows_of(table, "run_uuid"), ids))


def _by_owner(rows: Iterable[tuple[Any, ...]]) -> Mapping[Any, dict[str, str]]:
    """Return rows of owner, key and value as a mapping for each owner; no value is no text.

    Keys that are equal are one text in memory: thousands of runs have the same few.
    """
    values: defaultdict[Any, dict[str, str]] = defaultdict(dict)
    keys = _SharedKeys()
    for owner, key, value in rows:
        values[owner][keys[key]] = "" if value is None else value
    return values


def _metrics(rows: list[Row], names: _SharedKeys) -> tuple[Metric, ...]:
    rows.sort(key=_NAME)
    return tuple(
        [
            # The class would make the same by a call in Python, a hundredth of a first ingest.
            tuple.__new__(
                Metric,
                (
                    names[key],
                    _NAN if is_nan else value,
                    time or None,
                    step or 0,
                    None,
                    None,
                    None,
                    None,
                ),
            )
            for _, key, value, is_nan, time, step in rows
        ]
    )


def _datasets(read: Read, ids: list[str]) -> Mapping[str, tuple[DatasetInput, ...]]:
    links = dict.fromkeys(read(_LINKS, ids))
    if not links:
        return {}
    datasets = {row[0]: row[1:] for row in read(_DATASETS, ids)}
    tags = _by_owner((row[:2], *row[2:]) for row in read(_DATASET_TAGS, ids))
    used: defaultdict[str, list[DatasetInput]] = defaultdict(list)
    for run_id, dataset_id in links:
        if dataset_id in datasets:
            name, digest, kind, source, schema, profile = datasets[dataset_id]
            used[run_id].append(
                DatasetInput(
                    name,
                    digest or "",
                    kind or "",
                    source or "",
                    schema or None,
                    profile or None,
                    tags.get((run_id, dataset_id)) or {},
                )
            )
    return {run_id: tuple(sorted(inputs, key=NAME_AND_DIGEST)) for run_id, inputs in used.items()}


def _outputs(read: Read, ids: list[str]) -> Mapping[str, tuple[ModelOutput, ...]]:
    outputs: defaultdict[str, list[ModelOutput]] = defaultdict(list)
    for run_id, model_id, step in read(_OUTPUTS, ids):
        outputs[run_id].append(ModelOutput(model_id, step or 0))
    return {run_id: tuple(sorted(made, key=STEP_AND_ID)) for run_id, made in outputs.items()}


def load_logged_models(read: Read, refusals: Refusals, ids: list[str]) -> list[LoggedModel]:
    """Return the logged models of `ids` that are there, in the order of `ids`.

    Cost: four statements.
    """
    infos = {row[0]: row for row in read(_MODEL_INFOS, ids)}
    params = _by_owner(read(_MODEL_PARAMS, ids))
    tags = _by_owner(read(_MODEL_TAGS, ids))
    metrics = _model_metrics(read(_MODEL_METRICS, ids))

    def model(model_id: str) -> LoggedModel:
        return fields.LOGGED_MODEL.of_row(
            infos[model_id],
            params.get(model_id) or {},
            tags.get(model_id) or {},
            tuple(sorted(metrics.get(model_id, ()), key=metric_order)),
        )

    there = (id_ for id_ in ids if id_ in infos)
    return refusals.usable(LOGGED_MODEL, model, there, lambda id_: (id_,))


def _model_metrics(rows: Iterable[Row]) -> Mapping[str, list[Metric]]:
    metrics: defaultdict[str, list[Metric]] = defaultdict(list)
    for model_id, key, value, timestamp, step, dataset, digest, run_id in rows:
        metrics[model_id].append(
            Metric(
                key,
                value or 0.0,
                timestamp or None,
                step or 0,
                model_id,
                dataset or None,
                digest or None,
                run_id or None,
            )
        )
    return metrics


class WorkspaceTables:
    """Reads what the tables hold of one workspace, None for a schema that has no workspaces."""

    def __init__(self, database: Database, refusals: Refusals, workspace: str | None) -> None:
        """Read from `database`."""
        self._database = database
        self._refusals = refusals
        self._workspace = workspace
        self.names: Sequence[str] | None = None
        """The names of the models to list; None for all."""

    def registered_models(self) -> list[RegisteredModel]:
        """Return all registered models, prompts among them, by name.

        Cost: three statements.
        """
        models = REGISTERED_MODELS
        listed, values = where(self._listed(models))
        tagged = self._select_tags(models, REGISTERED_MODEL_TAGS, "name")
        aliased = self._select_tags(models, REGISTERED_MODEL_ALIASES, "name")
        statement = f"SELECT {plain(models)} FROM registered_models{listed} ORDER BY name"
        with self._database.page() as read:
            rows = list(read(statement, *values))
            tags = _by_owner(read(f"{tagged}{listed}", *values))
            aliases = list(read(f"{aliased}{listed}", *values))
        versions: defaultdict[str, dict[str, str]] = defaultdict(dict)
        for name, alias, version in aliases:
            versions[name][alias] = str(version)

        def model(row: Row) -> RegisteredModel:
            name = row[0]
            others = tags.get(name) or {}, versions.get(name) or {}
            return fields.REGISTERED_MODEL.of_row(row, *others)

        return self._refusals.usable(REGISTERED, model, rows, lambda row: row[:1])

    def model_versions(
        self, aliases: Aliases, *, of_prompts: bool = False
    ) -> Iterator[list[ModelVersion]]:
        """Yield all versions in pages, by name and number, with the aliases of their models.

        As in MLflow's listing, none comes of a name that has a prompt among its versions; or only
        those come.

        Cost: two statements a page, and one.
        """
        versions = MODEL_VERSIONS
        number = "(model_versions.name, model_versions.version)"
        order = "model_versions.name, model_versions.version"
        page = (
            f"SELECT {plain(versions)}, coalesce(registered_models.name, model_versions.name)"
            f" FROM model_versions LEFT JOIN registered_models"
            f" ON {self._is_of(REGISTERED_MODELS, versions, 'name')}"
        )
        tagged = self._select_tags(versions, MODEL_VERSION_TAGS, "name", "version")
        listed = [
            *self._listed(versions),
            Sql("model_versions.current_stage <> ?", (DELETED_STAGE,)),
        ]
        prompts = self._names_of_prompts()
        beyond: list[Sql] = []
        while True:
            after, values = where([*listed, *beyond])
            statement = f"{page}{after} ORDER BY {order} LIMIT {VERSIONS_A_PAGE}"
            with self._database.page() as read:
                rows = list(read(statement, *values))
                if not rows:
                    return
                last = tuple(rows[-1][:2])
                tag_rows = list(read(f"{tagged}{after} AND {number} <= (?, ?)", *values, *last))
            tags = _by_owner((row[:2], *row[2:]) for row in tag_rows)

            def version(row: Row, tags: Mapping[Any, dict[str, str]] = tags) -> ModelVersion:
                name, number = row[-1], row[1]
                others = aliases.of(name, str(number)), tags.get(row[:2]) or {}
                return fields.MODEL_VERSION.of_row((name, *row[1:-1]), *others)

            listed_rows = (row for row in rows if (row[-1] in prompts) is of_prompts)
            yield self._refusals.usable(VERSION, version, listed_rows, itemgetter(-1, 1))
            beyond = [Sql(f"{number} > (?, ?)", last)]

    def experiments(self) -> list[Experiment]:
        """Return all experiments, in the order they were made.

        Cost: two statements.
        """
        listed, values = where(in_workspace(EXPERIMENTS, self._workspace))
        # The second key is that of MLflow's listing.
        order = "creation_time, experiments.experiment_id DESC"
        experiments = f"SELECT {plain(EXPERIMENTS)} FROM experiments{listed} ORDER BY {order}"
        tagged = (
            f"SELECT {plain(EXPERIMENT_TAGS)} FROM experiment_tags JOIN experiments"
            f" ON experiment_tags.experiment_id = experiments.experiment_id{listed}"
        )
        with self._database.page() as read:
            rows = list(read(experiments, *values))
            tags = _by_owner(read(tagged, *values))

        def experiment(row: Row) -> Experiment:
            return fields.EXPERIMENT.of_row(row, tags.get(row[0]) or {})

        return self._refusals.usable(EXPERIMENT, experiment, rows, lambda row: row[:1])

    def assets(self, kind: str) -> list[Asset]:
        """Return all MCP servers or skills, of the JSON that a server makes of them.

        Raises:
            ProtocolMismatchError: the schema has no such tables; and what `Database.page` raises.

        Cost: five or six statements.
        """
        with self._database.page() as read:
            every = [self._objects_of(read, kind, table) for table in ASSETS[kind]]
        items, tags, aliases, versions, version_tags, *endpoints = every

        def make(key: Row) -> Asset:
            of_versions: defaultdict[object, dict[str, str]] = defaultdict(dict)
            for one in (*tags.get(key, ()), *version_tags.get(key, ())):
                of_versions[one.get("version")][one["key"]] = one["value"] or ""
            item = {
                **items[key][0],
                "tags": of_versions[None],
                "aliases": aliases.get(key, ()),
                "access_endpoints": [one for of_key in endpoints for one in of_key.get(key, ())],
            }
            there = ({**one, "tags": of_versions[one["version"]]} for one in versions.get(key, ()))
            return asset(kind, item, there)

        return self._refusals.usable(
            kind, make, sorted(items), lambda key: (path_of(items[key][0]),)
        )

    def first_created_ms(self) -> int | None:
        """Return when experiment 0, of the default workspace, was made; None for unknown."""
        default = None if self._workspace is None else DEFAULT_WORKSPACE
        first = [Sql("experiment_id = 0"), *in_workspace(EXPERIMENTS, default)]
        listed, values = where(first)
        with self._database.page() as read:
            rows = list(read(f"SELECT creation_time FROM experiments{listed}", *values))
        return moment(rows[0][0]) if rows else None

    def is_there(self, target: MlflowObject) -> bool:
        """Return whether `target` has a row; the workspace of a run or model is its experiment's.

        Cost: one statement.
        """
        if target.kind == "workspace":
            return self._workspace is None or target.name in workspace_names(self._database)
        if target.kind in ASSETS:
            with self._database.page() as read:
                rows = self._objects_of(read, target.kind, next(iter(ASSETS[target.kind])))
            return target.name in {path_of(one) for one, *_ in rows.values()}
        table, name = _TABLES[target.kind]
        wanted = _number(target.name) if target.kind == "experiment" else target.name
        conditions = [Sql(f"{name} = ?", (wanted,))]
        if target.version:
            conditions.append(Sql("version = ?", (_number(target.version),)))
            conditions.append(Sql("current_stage <> ?", (DELETED_STAGE,)))
        if table is LOGGED_MODELS:
            conditions.append(Sql("lifecycle_stage <> 'deleted'"))
        held_in = in_workspace(
            table if "workspace" in table.columns else EXPERIMENTS, self._workspace
        )
        if "workspace" in table.columns:
            conditions.extend(held_in)
        elif held_in:
            inside, values = where(held_in)
            experiments = f"SELECT experiment_id FROM experiments{inside}"
            conditions.append(Sql(f"experiment_id IN ({experiments})", values))
        there, values = where(conditions)
        with self._database.page() as read:
            return any(True for _ in read(f"SELECT 1 FROM {table.name}{there}", *values))

    def _objects_of(self, read: Read, kind: str, table: str) -> Mapping[Row, list[dict[str, Any]]]:
        """Return the rows of a table as objects, by organization and name."""
        columns = ASSETS[kind][table].split()
        found: defaultdict[Row, list[dict[str, Any]]] = defaultdict(list)
        # MySQL takes `key` as the name of a column behind that of its table only.
        here = self._workspace
        listed, values = ("", ()) if here is None else (" WHERE workspace = ?", (here,))
        named = ", ".join(f"{table}.{column}" for column in columns)
        for row in read(f"SELECT {named} FROM {table}{listed}", *values):
            item = {_RENAMED.get(name, name): one for name, one in zip(columns, row, strict=True)}
            key = item.get("organization") or "", item.get("name") or item.get("server_name")
            found[key].append(item)
        return found

    def _listed(self, table: Table) -> list[Sql]:
        names = [] if self.names is None else [Sql(f"{table.name}.name IN ?", (list(self.names),))]
        return [*in_workspace(table, self._workspace), *names]

    def _names_of_prompts(self) -> frozenset[str]:
        tags = MODEL_VERSION_TAGS
        prompts = Sql("model_version_tags.key = ?", (PROMPT_TAG,))
        listed, values = where([*in_workspace(tags, self._workspace), prompts])
        with self._database.page() as read:
            tagged = self._select_tags(REGISTERED_MODELS, tags, "name")
            rows = list(read(f"{tagged}{listed}", *values))
        # Looked at again, since MySQL compares without case.
        return frozenset(
            name for name, _, key, value in rows if key == PROMPT_TAG and value == "true"
        )

    def _select_tags(self, owner: Table, table: Table, *key: str) -> str:
        """Return a statement for the rows of `table` with the key as their owner spells it."""
        rest = [column for column in table.columns if column not in key]
        columns = f"{plain(owner, key)}, {plain(table, rest)}"
        joined = f"{owner.name} JOIN {table.name} ON {self._is_of(owner, table, *key)}"
        return f"SELECT {columns} FROM {joined}"

    def _is_of(self, owner: Table, table: Table, *key: str) -> str:
        """Return the condition that a row of `table` is of one of `owner`, by their key."""
        same = key if self._workspace is None else (*key, "workspace")
        return " AND ".join(f"{owner.name}.{one} = {table.name}.{one}" for one in same)


def workspace_names(database: Database) -> tuple[str, ...]:
    """Return the names of all workspaces, `default` first, of a schema that has them."""
    # A server can keep its list of workspaces elsewhere.
    used = "SELECT workspace FROM experiments UNION SELECT workspace FROM registered_models"
    named = f"SELECT name FROM workspaces UNION {used}"
    with database.page() as read:
        names = {name for (name,) in read(named)} | {DEFAULT_WORKSPACE}
    return tuple(sorted(names, key=lambda name: (name != DEFAULT_WORKSPACE, name)))


def _number(text: str) -> int:
    """Return an id as the number it is stored as; -1, which nothing has, for any other text."""
    return int(text) if _NUMBER.fullmatch(text) else -1
