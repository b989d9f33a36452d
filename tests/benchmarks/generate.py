"""Generator of MLflow stores: N runs in M experiments, P params and Q metrics each.

    python tests/benchmarks/generate.py /tmp/store --runs 10000 --kind lifelike

A plain store has nothing else. In a lifelike one all runs have a commit and the history that
logging a model leaves, some have datasets, parents or versions, and some names are not ASCII.

MLflow itself makes the schema, plain SQL then fills its tables: logging 100k runs through MLflow's
own API would take hours. Equal arguments give an equal store, in SQLite or in PostgreSQL.
"""

import argparse
import atexit
import functools
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal, get_args

STORE_FILE = "mlflow.db"
FIRST_START_MS = 1_760_000_000_000
BETWEEN_RUNS_MS = 60_000

Kind = Literal["plain", "lifelike"]

WITH_VERSION, WITH_PARENT, WITH_DATASETS, WITH_FOREIGN_NAME = 5, 10, 30, 10
"""Percentages of the runs of a lifelike store."""

VERSIONS_A_MODEL: Final = 20
DATASETS_AN_EXPERIMENT: Final = 5


def generate(
    folder: Path,
    *,
    runs: int,
    experiments: int = 10,
    params: int = 20,
    metrics: int = 20,
    versions: int = 0,
    kind: Kind = "plain",
) -> Path:
    """Make the store in `folder`; return its database file.

    `versions` are those of one model, in addition to what a store of its `kind` has.
    """
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / STORE_FILE
    shutil.copyfile(_empty_database(), database)
    connection = sqlite3.connect(database)
    with connection:
        connection.execute("DELETE FROM experiments")  # the default one has the time of its making
        for table, rows in _tables(runs, experiments, params, metrics, versions, kind):
            names = _COLUMNS[table]
            marks = ",".join("?" * (names.count(",") + 1))
            connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)
    connection.close()
    return database


def generate_in_postgresql(url: str, *, runs: int, kind: Kind = "plain") -> None:
    """Make the same store in an empty PostgreSQL database."""
    import psycopg

    _make_tables(url)
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        for table, rows in _tables(runs, 10, 20, 20, 0, kind):
            copy = f"COPY {table} ({_COLUMNS[table]}) FROM STDIN"
            with connection.cursor() as cursor, cursor.copy(copy) as copying:
                for row in rows:
                    copying.write_row(row)
        connection.commit()
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE")


@functools.cache
def _empty_database() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mlflow-tables-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / STORE_FILE
    _make_tables(f"sqlite:///{path}")
    return path


def _make_tables(url: str) -> None:
    """Let MLflow make its tables, in another process: this one has to stay small, see `Cost`."""
    subprocess.run(
        [sys.executable, "-m", "mlflow", "db", "upgrade", url],
        check=True,
        capture_output=True,
        env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"},
    )


Rows = Iterator[tuple[object, ...]]


def _tables(
    runs: int, experiments: int, params: int, metrics: int, versions: int, kind: Kind
) -> Iterator[tuple[str, Rows]]:
    lifelike = range(runs) if kind == "lifelike" else range(0)
    versioned = [run for run in lifelike if _is_of(run, 37, WITH_VERSION)]
    models = {f"model-{index // VERSIONS_A_MODEL:03}": 0 for index in range(len(versioned))}
    yield "experiments", _experiments(experiments)
    yield "runs", _runs(runs, experiments, kind)
    yield "params", _params(runs, params)
    yield "latest_metrics", _metrics(runs, metrics)
    yield "tags", _tags(runs, experiments, kind)
    yield "datasets", _datasets(experiments if lifelike else 0)
    yield "inputs", _inputs(lifelike, experiments)
    yield "input_tags", _input_tags(lifelike)
    at_ms = FIRST_START_MS
    names = [*models, *(["forest"] if versions else [])]
    yield "registered_models", ((name, at_ms, at_ms) for name in names)
    yield "model_versions", _versions("forest", list(range(versions)))
    for index, name in enumerate(models):
        start = index * VERSIONS_A_MODEL
        yield "model_versions", _versions(name, versioned[start : start + VERSIONS_A_MODEL])
    yield "registered_model_aliases", (("champion", 1, name) for name in models)


_COLUMNS = {
    "experiments": (
        "experiment_id, name, artifact_location, lifecycle_stage, creation_time, last_update_time"
    ),
    "runs": (
        "run_uuid, name, user_id, status, start_time, end_time, lifecycle_stage, artifact_uri,"
        " experiment_id, source_type"
    ),
    "params": '"key", value, run_uuid',
    "latest_metrics": '"key", value, timestamp, step, is_nan, run_uuid',
    "tags": '"key", value, run_uuid',
    "datasets": (
        "dataset_uuid, experiment_id, name, digest, dataset_source_type, dataset_source,"
        " dataset_schema"
    ),
    "inputs": "input_uuid, source_type, source_id, destination_type, destination_id",
    "input_tags": "input_uuid, name, value",
    "registered_models": "name, creation_time, last_updated_time",
    "model_versions": (
        "name, version, creation_time, last_updated_time, current_stage, run_id, status, source"
    ),
    "registered_model_aliases": "alias, version, name",
}


def run_id(number: int) -> str:
    """Return the id of run `number`: 32 hex digits, as MLflow's own."""
    return f"{random.Random(number).getrandbits(128):032x}"


def _experiments(count: int) -> Rows:
    yield (0, "Default", "mlflow-artifacts:/0", "active", FIRST_START_MS, FIRST_START_MS)
    for number in range(1, count + 1):
        at_ms = FIRST_START_MS + number
        place = f"mlflow-artifacts:/{number}"
        yield (number, f"experiment-{number:03}", place, "active", at_ms, at_ms)


def _is_of(number: int, factor: int, percent: int) -> bool:
    """Return whether run `number` is one of so many percent; each `factor` takes other runs."""
    return number * factor % 100 < percent


def _name(number: int, kind: Kind) -> str:
    foreign = kind == "lifelike" and _is_of(number, 41, WITH_FOREIGN_NAME)
    return f"L\u00e4ufer-\u8a13\u7df4-{number:06}" if foreign else f"run-{number:06}"


def _runs(count: int, experiments: int, kind: Kind) -> Rows:
    for number in range(count):
        start_ms = FIRST_START_MS + number * BETWEEN_RUNS_MS
        experiment = 1 + number % experiments
        identity = run_id(number)
        uri = f"mlflow-artifacts:/{experiment}/{identity}/artifacts"
        yield (
            *(identity, _name(number, kind), "trainer", "FINISHED", start_ms, start_ms + 30_000),
            *("active", uri, experiment, "LOCAL"),
        )


def _params(runs: int, params: int) -> Rows:
    for number in range(runs):
        identity = run_id(number)
        for index in range(params):
            yield (f"param_{index:02}", f"{(number * 31 + index) % 1000 / 1000}", identity)


def _metrics(runs: int, metrics: int) -> Rows:
    for number in range(runs):
        identity = run_id(number)
        at_ms = FIRST_START_MS + number * BETWEEN_RUNS_MS + 20_000
        for index in range(metrics):
            value = (number * 7919 + index * 104_729) % 1_000_003 / 1_000_003
            yield (f"metric_{index:02}", value, at_ms, 10, False, identity)


def _tags(runs: int, experiments: int, kind: Kind) -> Rows:
    for number in range(runs):
        identity = run_id(number)
        yield ("mlflow.user", "trainer", identity)
        yield ("mlflow.runName", _name(number, kind), identity)
        yield ("mlflow.source.name", "train.py", identity)
        yield ("mlflow.source.type", "LOCAL", identity)
        if kind == "lifelike":
            commit = f"{random.Random(number // 50).getrandbits(160):040x}"
            yield ("mlflow.source.git.commit", commit, identity)
            yield ("mlflow.log-model.history", _history(identity), identity)
            if number >= experiments and _is_of(number, 43, WITH_PARENT):
                yield ("mlflow.parentRunId", run_id(number - experiments), identity)


def _history(identity: str) -> str:
    """Return what MLflow writes at a run that logs a scikit-learn model with a signature."""
    names = [f"column_{index:02}" for index in range(20)]
    columns = [{"type": "double", "name": name, "required": True} for name in names]
    python = {
        "model_path": "model.pkl",
        "predict_fn": "predict",
        "loader_module": "mlflow.sklearn",
        "python_version": "3.11.7",
        "env": {"conda": "conda.yaml", "virtualenv": "python_env.yaml"},
    }
    logged = {
        "run_id": identity,
        "artifact_path": "model",
        "utc_time_created": "2025-10-09 08:53:20.000000",
        "model_uuid": identity,
        "flavors": {"python_function": python, "sklearn": {"sklearn_version": "1.7.2"}},
        "signature": {"inputs": json.dumps(columns), "outputs": None, "params": None},
    }
    return json.dumps([logged])


def _dataset_id(experiment: int, index: int) -> str:
    return f"{experiment:016x}{index:016x}"


def _datasets(experiments: int) -> Rows:
    fields = [{"type": "double", "name": f"column_{index:02}"} for index in range(20)]
    schema = json.dumps({"mlflow_colspec": fields})
    for experiment in range(1, experiments + 1):
        for index in range(DATASETS_AN_EXPERIMENT):
            source = json.dumps(
                {"uri": f"s3://lake/experiment-{experiment:03}/part-{index}.parquet"}
            )
            identity, name = _dataset_id(experiment, index), f"part-{index}"
            yield identity, experiment, name, f"{index:08x}", "s3", source, schema


def _with_datasets(lifelike: range) -> Iterator[int]:
    return (number for number in lifelike if _is_of(number, 47, WITH_DATASETS))


def _inputs(lifelike: range, experiments: int) -> Rows:
    for number in _with_datasets(lifelike):
        used = _dataset_id(1 + number % experiments, number % DATASETS_AN_EXPERIMENT)
        yield f"{number:032x}", "DATASET", used, "RUN", run_id(number)


def _input_tags(lifelike: range) -> Rows:
    for number in _with_datasets(lifelike):
        yield f"{number:032x}", "mlflow.data.context", "training"


def _versions(name: str, runs: list[int]) -> Rows:
    for version, number in enumerate(runs, 1):
        at_ms = FIRST_START_MS + number * BETWEEN_RUNS_MS + 60_000
        identity = run_id(number)
        source = f"runs:/{identity}/model"
        yield name, version, at_ms, at_ms, "None", identity, "READY", source


def main() -> None:
    """Make a store as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--experiments", type=int, default=10)
    parser.add_argument("--params", type=int, default=20)
    parser.add_argument("--metrics", type=int, default=20)
    parser.add_argument("--kind", choices=get_args(Kind), default="plain")
    chosen = parser.parse_args()
    print(
        generate(
            chosen.folder,
            runs=chosen.runs,
            experiments=chosen.experiments,
            params=chosen.params,
            metrics=chosen.metrics,
            kind=chosen.kind,
        )
    )


if __name__ == "__main__":
    main()
