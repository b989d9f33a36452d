"""Runs and logged models with all that MLflow's own listings hold, from a few statements."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from sys import intern
from typing import Any, Final

from sqlalchemy import select

from mlcat_ingest.sources.mlflow.read.database.access import IDS, Read, Row, rows_of
from mlcat_ingest.sources.mlflow.read.database.tables import (
    DATASETS,
    INPUT_TAGS,
    INPUTS,
    LATEST_METRICS,
    LOGGED_MODEL_METRICS,
    LOGGED_MODEL_PARAMS,
    LOGGED_MODEL_TAGS,
    LOGGED_MODELS,
    PARAMS,
    RUNS,
    TAGS,
)
from mlcat_ingest.sources.mlflow.read.decode import (
    dataset_order,
    metric_order,
    metric_runs,
    moment,
    output_order,
)
from mlcat_ingest.sources.mlflow.values.records import (
    NAME_TAG,
    DatasetInput,
    LoggedModel,
    Metric,
    ModelOutput,
    Run,
)

_NAN: Final = float("nan")


_INFOS: Final = rows_of(RUNS, "run_uuid")
_PARAMS: Final = rows_of(PARAMS, "run_uuid")
_TAGS: Final = rows_of(TAGS, "run_uuid")
_METRICS: Final = rows_of(LATEST_METRICS, "run_uuid")

_LINK: Final = (INPUTS.c.destination_id, INPUTS.c.source_id)
_USED: Final = (INPUTS.c.destination_type == "RUN", INPUTS.c.destination_id.in_(IDS))
_LINKS: Final = select(*_LINK).where(*_USED)
# Many runs use the same few datasets, whose schema and profile can be long: each comes once.
_DATASETS: Final = select(DATASETS).where(
    DATASETS.c.dataset_uuid.in_(select(INPUTS.c.source_id).where(*_USED))
)
_DATASET_TAGS: Final = (
    select(*_LINK, INPUT_TAGS.c.name, INPUT_TAGS.c.value)
    .join_from(INPUTS, INPUT_TAGS, INPUT_TAGS.c.input_uuid == INPUTS.c.input_uuid)
    .where(*_USED)
)
_OUTPUTS: Final = select(INPUTS.c.source_id, INPUTS.c.destination_id, INPUTS.c.step).where(
    INPUTS.c.source_type == "RUN_OUTPUT",
    INPUTS.c.source_id.in_(IDS),
    INPUTS.c.destination_type == "MODEL_OUTPUT",
)

# Source: `LoggedModelStatus` of MLflow 3.
_STATUSES: Final = {1: "PENDING", 2: "READY", 3: "FAILED"}

_MODEL_INFOS: Final = rows_of(LOGGED_MODELS, "model_id")
_MODEL_PARAMS: Final = rows_of(LOGGED_MODEL_PARAMS, "model_id")
_MODEL_TAGS: Final = rows_of(LOGGED_MODEL_TAGS, "model_id")
_MODEL_METRICS: Final = rows_of(LOGGED_MODEL_METRICS, "model_id")


def load_runs(read: Read, ids: Sequence[str], *, outputs: bool) -> list[Run]:
    """Return the runs of `ids` that are there, in the order of `ids`.

    `outputs` says whether the schema knows logged models. The models that runs took in are left
    out, as in MLflow's own listings: a run is the same whoever reads it.

    Cost: five statements, seven where a run has datasets, and one for outputs.
    """
    infos = {row[0]: row for row in read.of(ids, _INFOS)}
    params = by_owner(read.of(ids, _PARAMS))
    tags = by_owner(read.of(ids, _TAGS))
    metrics = _metrics(read.of(ids, _METRICS))
    datasets = _datasets(read, ids)
    made = _outputs(read, ids) if outputs else {}
    return [
        _run(
            infos[run_id],
            params.get(run_id) or {},
            tags.get(run_id) or {},
            tuple(sorted(metrics.get(run_id, ()))),
            datasets.get(run_id, ()),
            made.get(run_id, ()),
        )
        for run_id in ids
        if run_id in infos
    ]


def by_owner(rows: Iterable[tuple[Any, ...]]) -> Mapping[Any, dict[str, str]]:
    """Return rows of owner, key and value as a mapping for each owner; no value is no text.

    Keys that are equal are one text in memory: thousands of runs have the same few.
    """
    found: defaultdict[Any, dict[str, str]] = defaultdict(dict)
    for owner, key, value in rows:
        found[owner][intern(key)] = value or ""
    return found


def _run(
    info: tuple[Any, ...],
    params: dict[str, str],
    tags: dict[str, str],
    metrics: tuple[Metric, ...],
    datasets: tuple[DatasetInput, ...],
    outputs: tuple[ModelOutput, ...],
) -> Run:
    run_id, experiment_id, name, user_id, status, started, ended, artifact_uri, stage = info
    return Run(
        run_id,
        str(experiment_id),
        name or tags.get(NAME_TAG) or None,
        user_id or None,
        status,
        moment(started),
        moment(ended),
        artifact_uri or None,
        stage or "active",
        params,
        metrics,
        tags,
        datasets,
        (),
        outputs,
    )


def _metrics(rows: Iterable[Row]) -> Mapping[str, list[Metric]]:
    found: defaultdict[str, list[Metric]] = defaultdict(list)
    # What `Metric(...)` comes down to, without its call in Python.
    new = tuple.__new__
    for run_id, key, value, is_nan, timestamp, step in rows:
        last = _NAN if is_nan else value
        found[run_id].append(
            new(Metric, (intern(key), last, timestamp or None, step or 0, None, None, None))
        )
    return found


def _datasets(read: Read, ids: Sequence[str]) -> Mapping[str, tuple[DatasetInput, ...]]:
    links = dict.fromkeys(read.of(ids, _LINKS))
    if not links:
        return {}
    datasets = {row[0]: row[1:] for row in read.of(ids, _DATASETS)}
    tags = by_owner((row[:2], *row[2:]) for row in read.of(ids, _DATASET_TAGS))
    found: defaultdict[str, list[DatasetInput]] = defaultdict(list)
    for run_id, dataset_id in links:
        if dataset_id in datasets:
            name, digest, kind, source, schema, profile = datasets[dataset_id]
            found[run_id].append(
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
    return {run_id: tuple(sorted(each, key=dataset_order)) for run_id, each in found.items()}


def _outputs(read: Read, ids: Sequence[str]) -> Mapping[str, tuple[ModelOutput, ...]]:
    found: defaultdict[str, list[ModelOutput]] = defaultdict(list)
    for run_id, model_id, step in read.of(ids, _OUTPUTS):
        found[run_id].append(ModelOutput(model_id, step or 0))
    return {run_id: tuple(sorted(each, key=output_order)) for run_id, each in found.items()}


def load_logged_models(read: Read, ids: Sequence[str]) -> list[LoggedModel]:
    """Return the logged models of `ids` that are there, in the order of `ids`.

    Cost: four statements.
    """
    infos = {row[0]: row for row in read.of(ids, _MODEL_INFOS)}
    params = by_owner(read.of(ids, _MODEL_PARAMS))
    tags = by_owner(read.of(ids, _MODEL_TAGS))
    metrics, logged_by = _model_metrics(read.of(ids, _MODEL_METRICS))
    return [
        _logged_model(
            infos[model_id],
            params.get(model_id) or {},
            tags.get(model_id) or {},
            tuple(sorted(metrics.get(model_id, ()), key=metric_order)),
            logged_by.get(model_id, ()),
        )
        for model_id in ids
        if model_id in infos
    ]


def _logged_model(
    info: tuple[Any, ...],
    params: dict[str, str],
    tags: dict[str, str],
    metrics: tuple[Metric, ...],
    logged_by: Iterable[str],
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
        metric_runs(logged_by),
    )


def _model_metrics(
    rows: Iterable[Row],
) -> tuple[Mapping[str, list[Metric]], Mapping[str, set[str]]]:
    """Return the metrics of each logged model, and the runs that logged them."""
    found: defaultdict[str, list[Metric]] = defaultdict(list)
    logged_by: defaultdict[str, set[str]] = defaultdict(set)
    for model_id, key, value, timestamp, step, dataset, digest, run_id in rows:
        logged_by[model_id].add(run_id)
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
    return found, logged_by
