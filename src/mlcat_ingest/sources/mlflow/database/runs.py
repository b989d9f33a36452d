"""Runs with everything that their page of MLflow's own listing holds, from a few statements."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from sys import intern
from typing import Any, Final

from sqlalchemy import Select, TableClause, select

from mlcat_ingest.sources.mlflow.database.access import Read, Rows
from mlcat_ingest.sources.mlflow.database.tables import (
    DATASETS,
    INPUT_TAGS,
    INPUTS,
    LATEST_METRICS,
    PARAMS,
    RUNS,
    TAGS,
)
from mlcat_ingest.sources.mlflow.decode import dataset_order, moment, output_order
from mlcat_ingest.sources.mlflow.records import DatasetInput, Metric, ModelOutput, Run

_NAN: Final = float("nan")


def load_runs(read: Read, ids: Sequence[str], *, outputs: bool) -> list[Run]:
    """Return the runs of `ids` that are there, in the order of `ids`.

    `outputs` says whether the schema knows logged models. The models that runs took in are left
    out, as in MLflow's own listings: a run is the same whoever reads it.

    Cost: five statements, seven where a run has datasets, and one for outputs.
    """
    infos = {row[0]: row for row in read(_of(RUNS, ids))}
    params = by_owner(read(_of(PARAMS, ids)))
    tags = by_owner(read(_of(TAGS, ids)))
    metrics = _metrics(read(_of(LATEST_METRICS, ids)))
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


def _of(table: TableClause, ids: Sequence[str]) -> Select[Any]:
    return select(table).where(table.c.run_uuid.in_(ids))


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
        name or tags.get("mlflow.runName") or None,
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


def _metrics(rows: Rows) -> Mapping[str, list[Metric]]:
    found: defaultdict[str, list[Metric]] = defaultdict(list)
    for run_id, key, value, is_nan, timestamp, step in rows:
        last = _NAN if is_nan else value
        found[run_id].append(Metric(intern(key), last, timestamp or None, step or 0))
    return found


def _datasets(read: Read, ids: Sequence[str]) -> Mapping[str, tuple[DatasetInput, ...]]:
    link = (INPUTS.c.destination_id, INPUTS.c.source_id)
    used = (INPUTS.c.destination_type == "RUN", INPUTS.c.destination_id.in_(ids))
    links = dict.fromkeys(read(select(*link).where(*used)))
    if not links:
        return {}
    # Many runs use the same few datasets, whose schema and profile can be long: each comes once.
    wanted = DATASETS.c.dataset_uuid.in_(select(INPUTS.c.source_id).where(*used))
    datasets = {row[0]: row[1:] for row in read(select(DATASETS).where(wanted))}
    tagged = select(*link, INPUT_TAGS.c.name, INPUT_TAGS.c.value).where(*used)
    tags = by_owner(
        (row[:2], *row[2:])
        for row in read(tagged.join(INPUT_TAGS, INPUT_TAGS.c.input_uuid == INPUTS.c.input_uuid))
    )
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
    rows = read(
        select(INPUTS.c.source_id, INPUTS.c.destination_id, INPUTS.c.step).where(
            INPUTS.c.source_type == "RUN_OUTPUT",
            INPUTS.c.source_id.in_(ids),
            INPUTS.c.destination_type == "MODEL_OUTPUT",
        )
    )
    found: defaultdict[str, list[ModelOutput]] = defaultdict(list)
    for run_id, model_id, step in rows:
        found[run_id].append(ModelOutput(model_id, step or 0))
    return {run_id: tuple(sorted(each, key=output_order)) for run_id, each in found.items()}
