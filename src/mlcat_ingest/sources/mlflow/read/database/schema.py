"""MLflow's tables: the columns that are read, and the check that a database has them.

Features of later releases brought some of the columns. A database tells by its columns which
features it has, and whether it can be read: a revision that is not known is no obstacle.

Source: `mlflow/store/tracking/dbmodels` and `mlflow/store/model_registry/dbmodels` of the
releases in `checks.REVISIONS`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from mlcat_ingest.sources.mlflow.read import fields
from mlcat_ingest.sources.mlflow.read.checks import REVISIONS, MlflowFeature
from mlcat_ingest.sources.mlflow.values.assets import MCP_SERVER, SKILL

# The names of the types whose values are read alike: SQLite's, PostgreSQL's and MySQL's.
_INTEGER: Final = r"(big|medium|small|tiny)?int(eger)?\b"
_TYPES: Final = {
    "text": r".*char|.*text|enum",
    "integer": _INTEGER,
    "real": "double|float|real",
    "boolean": f"bool|{_INTEGER}",
}

COLUMNS: Final = {
    "sqlite": "SELECT m.name, p.name, p.type FROM sqlite_master AS m"
    " JOIN pragma_table_info(m.name) AS p WHERE m.name IN ?",
    "postgresql": "SELECT relname, attname, CASE typtype WHEN 'e' THEN 'enum'"
    " ELSE format_type(CASE typtype WHEN 'd' THEN typbasetype ELSE atttypid END, NULL) END"
    " FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
    " JOIN pg_type ON pg_type.oid = atttypid WHERE attnum > 0 AND NOT attisdropped"
    " AND pg_table_is_visible(pg_class.oid) AND relname IN ?",
    "mysql": "SELECT table_name, column_name, data_type FROM information_schema.columns"
    " WHERE table_schema = database() AND table_name IN ?",
}
"""The statement for table, name and type of each column of some tables, by dialect.

MySQL leaves out the tables that the user may not read.
"""


class Table(NamedTuple):
    """A table, and those of its columns that are read, by name, each with a key of `_TYPES`.

    They came with `feature`, None for every release; a column `workspace` came with workspaces.
    """

    name: str
    columns: Mapping[str, str]
    feature: MlflowFeature | None


_TABLES: Final[list[Table]] = []


def _table(name: str, columns: str, feature: MlflowFeature | None = None) -> Table:
    """Return a table that is checked; a column that holds no text is given as `name:type`."""
    parts = (column.partition(":") for column in columns.split())
    _TABLES.append(Table(name, {key: type_ or "text" for key, _, type_ in parts}, feature))
    return _TABLES[-1]


EXPERIMENTS: Final = _table("experiments", f"{fields.EXPERIMENT.columns} workspace")
EXPERIMENT_TAGS: Final = _table("experiment_tags", "experiment_id:integer key value")

RUNS: Final = _table("runs", fields.RUN.columns)
PARAMS: Final = _table("params", "run_uuid key value")
TAGS: Final = _table("tags", "run_uuid key value")
LATEST_METRICS: Final = _table(
    "latest_metrics", "run_uuid key value:real is_nan:boolean timestamp:integer step:integer"
)

INPUTS: Final = _table("inputs", "input_uuid source_type source_id destination_type destination_id")
# Of outputs, which are the logged models of a run.
_table("inputs", "step:integer", MlflowFeature.LOGGED_MODELS)
INPUT_TAGS: Final = _table("input_tags", "input_uuid name value")
DATASETS: Final = _table(
    "datasets",
    "dataset_uuid name digest dataset_source_type dataset_source dataset_schema dataset_profile",
)

LOGGED_MODELS: Final = _table(
    "logged_models",
    f"{fields.LOGGED_MODEL.columns} lifecycle_stage",
    MlflowFeature.LOGGED_MODELS,
)
LOGGED_MODEL_PARAMS: Final = _table(
    "logged_model_params", "model_id param_key param_value", MlflowFeature.LOGGED_MODELS
)
LOGGED_MODEL_TAGS: Final = _table(
    "logged_model_tags", "model_id tag_key tag_value", MlflowFeature.LOGGED_MODELS
)
LOGGED_MODEL_METRICS: Final = _table(
    "logged_model_metrics",
    "model_id metric_name metric_value:real metric_timestamp_ms:integer metric_step:integer"
    " dataset_name dataset_digest run_id",
    MlflowFeature.LOGGED_MODELS,
)

REGISTERED_MODELS: Final = _table(
    "registered_models", f"{fields.REGISTERED_MODEL.columns} workspace"
)
REGISTERED_MODEL_TAGS: Final = _table("registered_model_tags", "name key value workspace")
REGISTERED_MODEL_ALIASES: Final = _table(
    "registered_model_aliases", "name alias version:integer workspace"
)
MODEL_VERSIONS: Final = _table("model_versions", f"{fields.MODEL_VERSION.columns} workspace")
MODEL_VERSION_TAGS: Final = _table("model_version_tags", "name version:integer key value workspace")

WORKSPACES: Final = _table("workspaces", "name", MlflowFeature.WORKSPACES)


_MADE: Final = "created_by created_at last_updated_at workspace"
_VERSION: Final = f"name version status source {_MADE}"

ASSETS: Final[Mapping[str, Mapping[str, str]]] = {
    MCP_SERVER: {
        "mcp_servers": f"name display_name description {_MADE}",
        "mcp_server_tags": "name key value workspace",
        "mcp_server_aliases": "name alias version workspace",
        "mcp_server_versions": f"server_json tools {_VERSION}",
        "mcp_server_version_tags": "name version key value workspace",
        "mcp_access_endpoints": "server_name server_version server_alias url transport_type"
        " workspace",
    },
    SKILL: {
        "skills": f"organization name description {_MADE}",
        "skill_tags": "organization name key value workspace",
        "skill_aliases": "organization name alias version workspace",
        "skill_versions": f"organization ref subpath {_VERSION}",
        "skill_version_tags": "organization name version key value workspace",
    },
}
"""The columns of the tables of AI assets, which came with MLflow 3.15 and 3.18.

Those of assets, their tags, aliases, versions with their tags, and endpoints; read only if a recipe
includes them.
"""

READ: Final = {
    (table.name, name): (type_, MlflowFeature.WORKSPACES if name == "workspace" else table.feature)
    for table in _TABLES
    for name, type_ in table.columns.items()
}
"""The type and the feature of each column that is read, by table and name."""


class Schema(NamedTuple):
    """The schema of one database: its revisions, and the type of each column by table and name.

    Other programs can share the table of revisions.
    """

    revisions: Sequence[str]
    columns: Mapping[tuple[str, str], str]

    @property
    def releases(self) -> str | None:
        """The releases of MLflow that make this schema, None for a revision that is not known."""
        known = [name for revision, name in REVISIONS.items() if revision in self.revisions]
        return known[-1] if known else None

    @property
    def label(self) -> str:
        """The tables of the schema, for people."""
        if self.releases is not None:
            return f"tables of MLflow {self.releases}"
        revisions = ", ".join(self.revisions)
        return f"tables of the unknown schema revision {revisions}, with all columns that are read"

    @property
    def features(self) -> frozenset[MlflowFeature]:
        """The features that brought any of the columns; all columns of these are read."""
        there = (feature for column, (_, feature) in READ.items() if column in self.columns)
        return frozenset(feature for feature in there if feature is not None)

    @property
    def tables(self) -> list[str]:
        """The names of the tables that are read."""
        read = {None, *self.features}
        return sorted({table for (table, _), (_, feature) in READ.items() if feature in read})

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is missing, or is of a type that is not read, each with its table."""
        read = {None, *self.features}
        for (table, name), (type_, feature) in READ.items():
            found = self.columns.get((table, name))
            if feature in read and found is None:
                yield table, f"no column {table}.{name}"
            # In SQLite a column can be without a type.
            elif found and not re.match(_TYPES[type_], found, re.IGNORECASE):
                yield table, f"{table}.{name} is of type {found}, not {type_}"


def plain(table: Table, names: Iterable[str] | None = None) -> str:
    """Return the columns `names` of a table, or all, in any case without a row's workspace."""
    # MySQL takes `key` as the name of a column behind that of its table only.
    listed = (key for key in names or table.columns if key != "workspace")
    return ", ".join(f"{table.name}.{key}" for key in listed)
