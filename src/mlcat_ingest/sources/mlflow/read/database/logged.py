"""Logged models of MLflow 3 with their parameters, tags and metrics, from four statements."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.sources.mlflow.read.database.access import Read, Row, rows_of
from mlcat_ingest.sources.mlflow.read.database.runs import by_owner
from mlcat_ingest.sources.mlflow.read.database.tables import (
    LOGGED_MODEL_METRICS,
    LOGGED_MODEL_PARAMS,
    LOGGED_MODEL_TAGS,
    LOGGED_MODELS,
)
from mlcat_ingest.sources.mlflow.read.decode import metric_order, moment
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, Metric

# Source: `LoggedModelStatus` of MLflow 3.
_STATUSES: Final = {1: "PENDING", 2: "READY", 3: "FAILED"}

_INFOS: Final = rows_of(LOGGED_MODELS, "model_id")
_PARAMS: Final = rows_of(LOGGED_MODEL_PARAMS, "model_id")
_TAGS: Final = rows_of(LOGGED_MODEL_TAGS, "model_id")
_METRICS: Final = rows_of(LOGGED_MODEL_METRICS, "model_id")


def load_logged_models(read: Read, ids: Sequence[str]) -> list[LoggedModel]:
    """Return the logged models of `ids` that are there, in the order of `ids`.

    Cost: four statements.
    """
    infos = {row[0]: row for row in read.of(ids, _INFOS)}
    params = by_owner(read.of(ids, _PARAMS))
    tags = by_owner(read.of(ids, _TAGS))
    metrics = _metrics(read.of(ids, _METRICS))
    return [
        _logged_model(
            infos[model_id],
            params.get(model_id) or {},
            tags.get(model_id) or {},
            tuple(sorted(metrics.get(model_id, ()), key=metric_order)),
        )
        for model_id in ids
        if model_id in infos
    ]


def _logged_model(
    info: tuple[Any, ...],
    params: dict[str, str],
    tags: dict[str, str],
    metrics: tuple[Metric, ...],
) -> LoggedModel:
    model_id, experiment_id, name, status, run_id, model_type, place, created, updated, _ = info
    return LoggedModel(
        model_id,
        str(experiment_id),
        name or "",
        _STATUSES.get(status, "UNSPECIFIED"),
        run_id or None,
        model_type or None,
        place or None,
        moment(created),
        moment(updated),
        params,
        tags,
        metrics,
    )


def _metrics(rows: Iterable[Row]) -> Mapping[str, list[Metric]]:
    found: defaultdict[str, list[Metric]] = defaultdict(list)
    for model_id, key, value, timestamp, step, dataset, digest in rows:
        found[model_id].append(
            Metric(
                key,
                value or 0.0,
                timestamp or None,
                step or 0,
                model_id,
                dataset or None,
                digest or None,
            )
        )
    return found
