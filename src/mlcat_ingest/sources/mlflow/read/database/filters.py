"""The filters of the listings as conditions in SQL."""

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import ColumnElement, bindparam, or_, select

from mlcat_ingest.sources.mlflow.config import RunSelect
from mlcat_ingest.sources.mlflow.read.database.tables import (
    INPUTS,
    LOGGED_MODELS,
    MODEL_VERSIONS,
    RUNS,
    TAGS,
)
from mlcat_ingest.sources.mlflow.read.reader import ModelFilter, RunFilter
from mlcat_ingest.sources.mlflow.values.names import HISTORY_TAG


def wanted_runs(
    experiment_ids: Sequence[str], only: RunFilter, *, outputs: bool
) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions for the runs of some experiments that `only` wants.

    `outputs` says whether the schema knows the models that runs logged.
    """
    runs = RUNS.c
    yield _is_one_of(runs.experiment_id, experiment_ids)
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
    yield _is_one_of(models.experiment_id, experiment_ids)
    yield models.lifecycle_stage != "deleted"
    if only.updated_since_ms is not None:
        yield models.last_updated_timestamp_ms >= only.updated_since_ms
    if only.run_ids is not None:
        yield models.source_run_id.in_(only.run_ids)
    if only.model_ids is not None:
        yield models.model_id.in_(only.model_ids)


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


def _is_one_of(column: ColumnElement[Any], ids: Sequence[str]) -> ColumnElement[bool]:
    # Spelled out: SQLite takes fewer parameters than there can be experiments.
    numbers = [int(each) for each in ids]
    return column.in_(bindparam(None, numbers, expanding=True, literal_execute=True))
