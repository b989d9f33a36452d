"""Generator of MLflow stores: N runs in M experiments, P params and Q metrics each.

    python tests/benchmarks/generate.py /tmp/store --runs 10000

MLflow itself makes the schema, plain SQL then fills its tables: logging 100k runs through MLflow's
own API would take hours. Equal arguments give an equal store, in SQLite or in PostgreSQL.
"""

import argparse
import atexit
import functools
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

STORE_FILE = "mlflow.db"
FIRST_START_MS = 1_760_000_000_000
BETWEEN_RUNS_MS = 60_000


def generate(
    folder: Path,
    *,
    runs: int,
    experiments: int = 10,
    params: int = 20,
    metrics: int = 20,
    versions: int = 0,
) -> Path:
    """Make the store in `folder`, with versions of one model; return its database file."""
    folder.mkdir(parents=True, exist_ok=True)
    database = folder / STORE_FILE
    shutil.copyfile(_empty_database(), database)
    connection = sqlite3.connect(database)
    with connection:
        connection.execute("DELETE FROM experiments")  # the default one has the time of its making
        for table, rows in _tables(runs, experiments, params, metrics, versions):
            names = _COLUMNS[table]
            marks = ",".join("?" * (names.count(",") + 1))
            connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({marks})", rows)
    connection.close()
    return database


def generate_in_postgresql(url: str, *, runs: int, params: int = 20, metrics: int = 20) -> None:
    """Make the same store in an empty PostgreSQL database."""
    import psycopg

    _make_tables(url)
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        for table, rows in _tables(runs, 10, params, metrics, 0):
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
    runs: int, experiments: int, params: int, metrics: int, versions: int
) -> Iterator[tuple[str, Rows]]:
    yield "experiments", _experiments(experiments)
    yield "runs", _runs(runs, experiments)
    yield "params", _params(runs, params)
    yield "latest_metrics", _metrics(runs, metrics)
    yield "tags", _tags(runs)
    if versions:
        at_ms = FIRST_START_MS
        yield "registered_models", iter([("forest", at_ms, at_ms)])
        yield "model_versions", _versions(versions)


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
    "registered_models": "name, creation_time, last_updated_time",
    "model_versions": (
        "name, version, creation_time, last_updated_time, current_stage, run_id, status"
    ),
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


def _runs(count: int, experiments: int) -> Rows:
    for number in range(count):
        start_ms = FIRST_START_MS + number * BETWEEN_RUNS_MS
        experiment = 1 + number % experiments
        identity = run_id(number)
        uri = f"mlflow-artifacts:/{experiment}/{identity}/artifacts"
        yield (
            *(identity, f"run-{number:06}", "trainer", "FINISHED", start_ms, start_ms + 30_000),
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


def _tags(runs: int) -> Rows:
    for number in range(runs):
        identity = run_id(number)
        yield ("mlflow.user", "trainer", identity)
        yield ("mlflow.runName", f"run-{number:06}", identity)
        yield ("mlflow.source.name", "train.py", identity)
        yield ("mlflow.source.type", "LOCAL", identity)


def _versions(count: int) -> Rows:
    for number in range(count):
        at_ms = FIRST_START_MS + number * BETWEEN_RUNS_MS + 60_000
        yield "forest", number + 1, at_ms, at_ms, "None", run_id(number), "READY"


def main() -> None:
    """Make a store as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--experiments", type=int, default=10)
    parser.add_argument("--params", type=int, default=20)
    parser.add_argument("--metrics", type=int, default=20)
    chosen = parser.parse_args()
    print(
        generate(
            chosen.folder,
            runs=chosen.runs,
            experiments=chosen.experiments,
            params=chosen.params,
            metrics=chosen.metrics,
        )
    )


if __name__ == "__main__":
    main()
