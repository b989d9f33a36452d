"""MLflow's tables, as far as they are read, and the filters of listings as SQL conditions.

Columns carry no types: drivers give what is wanted.

Source: `mlflow/store/tracking/dbmodels` and `mlflow/store/model_registry/dbmodels` of the
releases in `releases.REVISIONS`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import (
    ColumnClause,
    ColumnElement,
    TableClause,
    bindparam,
    column,
    or_,
    select,
    table,
)

from mlcat_ingest.sources.mlflow.config import RunSelect
from mlcat_ingest.sources.mlflow.read.reader import ModelFilter, RunFilter
from mlcat_ingest.sources.mlflow.values.records import EXTERNAL_TAG, HISTORY_TAG
from mlcat_ingest.sources.mlflow.values.releases import MlflowFeature


def _table(name: str, columns: str) -> TableClause:
    return table(name, *(column(each) for each in columns.split()))


EXPERIMENTS: Final = _table(
    "experiments",
    "experiment_id name artifact_location lifecycle_stage creation_time last_update_time workspace",
)
EXPERIMENT_TAGS: Final = _table("experiment_tags", "experiment_id key value")

RUNS: Final = _table(
    "runs",
    "run_uuid experiment_id name user_id status start_time end_time artifact_uri lifecycle_stage",
)
PARAMS: Final = _table("params", "run_uuid key value")
TAGS: Final = _table("tags", "run_uuid key value")
LATEST_METRICS: Final = _table("latest_metrics", "run_uuid key value is_nan timestamp step")

INPUTS: Final = _table(
    "inputs", "input_uuid source_type source_id destination_type destination_id step"
)
INPUT_TAGS: Final = _table("input_tags", "input_uuid name value")
DATASETS: Final = _table(
    "datasets",
    "dataset_uuid name digest dataset_source_type dataset_source dataset_schema dataset_profile",
)

LOGGED_MODELS: Final = _table(
    "logged_models",
    "model_id experiment_id name status source_run_id model_type artifact_location"
    " creation_timestamp_ms last_updated_timestamp_ms lifecycle_stage",
)
LOGGED_MODEL_PARAMS: Final = _table("logged_model_params", "model_id param_key param_value")
LOGGED_MODEL_TAGS: Final = _table("logged_model_tags", "model_id tag_key tag_value")
LOGGED_MODEL_METRICS: Final = _table(
    "logged_model_metrics",
    "model_id metric_name metric_value metric_timestamp_ms metric_step dataset_name dataset_digest"
    " run_id",
)

REGISTERED_MODELS: Final = _table(
    "registered_models", "name description creation_time last_updated_time workspace"
)
REGISTERED_MODEL_TAGS: Final = _table("registered_model_tags", "name key value workspace")
REGISTERED_MODEL_ALIASES: Final = _table("registered_model_aliases", "name alias version workspace")
MODEL_VERSIONS: Final = _table(
    "model_versions",
    "name version run_id source current_stage status description user_id creation_time"
    " last_updated_time workspace",
)
MODEL_VERSION_TAGS: Final = _table("model_version_tags", "name version key value workspace")

WORKSPACES: Final = _table("workspaces", "name")
ALEMBIC_VERSION: Final = _table("alembic_version", "version_num")

_COMMON: Final = (
    *(EXPERIMENTS, EXPERIMENT_TAGS, RUNS, PARAMS, TAGS, LATEST_METRICS),
    *(INPUTS, INPUT_TAGS, DATASETS, REGISTERED_MODELS, REGISTERED_MODEL_TAGS),
    *(REGISTERED_MODEL_ALIASES, MODEL_VERSIONS, MODEL_VERSION_TAGS),
)
_OF_LOGGED_MODELS: Final = (
    *(LOGGED_MODELS, LOGGED_MODEL_PARAMS, LOGGED_MODEL_TAGS, LOGGED_MODEL_METRICS),
)


def tables_of(version: str) -> tuple[TableClause, ...]:
    """Return the tables that are read of a database that MLflow `version` made."""
    return (
        *_COMMON,
        *(_OF_LOGGED_MODELS if MlflowFeature.LOGGED_MODELS.is_in(version) else ()),
        *((WORKSPACES,) if MlflowFeature.WORKSPACES.is_in(version) else ()),
    )


def plain(table: TableClause) -> list[ColumnClause[Any]]:
    """Return the columns that a table has in every schema: all but the workspace of its rows."""
    return [each for each in table.c if each.name != "workspace"]


def in_workspace(table: TableClause, workspace: str | None) -> list[ColumnElement[bool]]:
    """Return the condition that a row is of `workspace`; none where the schema has none."""
    return [] if workspace is None else [table.c.workspace == workspace]


def wanted_runs(
    experiment_ids: Sequence[str], only: RunFilter, *, outputs: bool
) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions for the runs of some experiments that `only` wants.

    `outputs` says whether the schema knows the models that runs logged.
    """
    runs = RUNS.c
    yield is_one_of(runs.experiment_id, experiment_ids)
    if only.since_ms is not None:
        yield runs.start_time >= only.since_ms
    if only.before_ms is not None:
        yield runs.start_time < only.before_ms
    if only.ended_since_ms is not None:
        yield runs.end_time >= only.ended_since_ms
    if only.statuses:
        yield runs.status.in_(only.statuses)
    if only.run_ids is not None:
        yield runs.run_uuid.in_(only.run_ids)
    if only.deleted:
        yield runs.lifecycle_stage == "deleted"
    if only.select != "all":
        yield _may_have_model(only.select, outputs=outputs)


def wanted_models(
    experiment_ids: Sequence[str], only: ModelFilter
) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions for the logged models of some experiments that `only` wants."""
    models = LOGGED_MODELS.c
    yield is_one_of(models.experiment_id, experiment_ids)
    yield models.lifecycle_stage != "deleted"
    if only.updated_since_ms is not None:
        yield models.last_updated_timestamp_ms >= only.updated_since_ms
    if only.run_ids is not None:
        yield models.source_run_id.in_(only.run_ids)
    if only.model_ids is not None:
        yield models.model_id.in_(only.model_ids)
    if only.newest_external is not None:
        tags = LOGGED_MODEL_TAGS.c
        external = (tags.tag_key == EXTERNAL_TAG, tags.tag_value == "true")
        yield models.model_id.in_(select(tags.model_id).where(*external))


def _may_have_model(chosen: RunSelect, *, outputs: bool) -> ColumnElement[bool]:
    """Return a condition that lets pass what the recipe selects, and some more.

    A version can name its run, or a logged model that the run made.
    """
    versions, inputs, tags = MODEL_VERSIONS.c, INPUTS.c, TAGS.c
    ids = [select(versions.run_id).where(versions.run_id.is_not(None))]
    if outputs:
        ids.append(select(inputs.source_id).where(inputs.source_type == "RUN_OUTPUT"))
    if chosen == "with_model":
        ids.append(select(tags.run_uuid).where(tags.key == HISTORY_TAG))
    return or_(*(RUNS.c.run_uuid.in_(each) for each in ids))


def is_one_of(column: ColumnElement[Any], ids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition that a number in a column is one of `ids`."""
    # Spelled out: SQLite takes fewer parameters than there can be experiments.
    numbers = [int(each) for each in ids]
    return column.in_(bindparam(None, numbers, expanding=True, literal_execute=True))
