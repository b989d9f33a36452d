"""Rows written straight into an MLflow store in SQLite, for stores of thousands of runs."""

import sqlite3
import zlib
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from support.seeded_store import START_MS


def insert_runs(
    db_path: Path,
    count: int,
    *,
    experiments: int = 10,
    same_start: bool = False,
    prefix: str = "bulk",
) -> list[str]:
    """Insert `count` finished runs spread over `experiments` new experiments; return their ids.

    With `same_start` all runs start in the same millisecond: a listing has only ties to go by.
    """
    with closing(sqlite3.connect(db_path, timeout=30)) as connection, connection:
        experiment_ids = _insert_experiments(connection, experiments, prefix)
        rows = []
        tail = zlib.crc32(prefix.encode()) % 16**6
        for number in range(count):
            start = START_MS if same_start else START_MS + number * 1_000
            run_id = f"{(number * 2_654_435_761) % 2**32:08x}{tail:06x}"
            rows.append((f"{run_id}{number:018x}", number, start))
        connection.executemany(
            "INSERT INTO runs (run_uuid, name, user_id, status, start_time, end_time,"
            " lifecycle_stage, artifact_uri, experiment_id, source_type)"
            " VALUES (?, ?, 'ada', 'FINISHED', ?, ?, 'active', ?, ?, 'LOCAL')",
            [
                (
                    run_id,
                    f"{prefix}-run-{number}",
                    start,
                    start + 500,
                    f"s3://artifacts/{run_id}",
                    experiment_ids[number % experiments],
                )
                for run_id, number, start in rows
            ],
        )
        connection.executemany(
            "INSERT INTO params (key, value, run_uuid) VALUES (?, ?, ?)",
            ((f"p{k}", f"{n}.{k}", run_id) for run_id, n, _ in rows for k in range(2)),
        )
        connection.executemany(
            "INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid)"
            " VALUES (?, ?, ?, ?, 0, ?)",
            ((f"m{k}", n + k / 7, start, k, run_id) for run_id, n, start in rows for k in range(2)),
        )
        connection.executemany(
            "INSERT INTO tags (key, value, run_uuid) VALUES ('mlflow.user', 'ada', ?)",
            ((run_id,) for run_id, _, _ in rows),
        )
    return [run_id for run_id, _, _ in rows]


def insert_versions(db_path: Path, name: str, run_ids: Sequence[str]) -> None:
    """Insert a registered model with a version of each run."""
    times = {"creation_time": START_MS, "last_updated_time": START_MS}
    versions = (
        {
            **times,
            "name": name,
            "version": number,
            "current_stage": "None",
            "source": f"runs:/{run_id}/model",
            "run_id": run_id,
            "status": "READY",
        }
        for number, run_id in enumerate(run_ids, start=1)
    )
    with closing(sqlite3.connect(db_path, timeout=30)) as connection, connection:
        _insert(connection, "registered_models", {**times, "name": name})
        for version in versions:
            _insert(connection, "model_versions", version)


def _insert_experiments(connection: sqlite3.Connection, count: int, prefix: str) -> list[int]:
    ids = []
    for number in range(count):
        row: dict[str, Any] = {
            "name": f"{prefix}-{number}",
            "artifact_location": f"s3://artifacts/{prefix}-{number}",
            "lifecycle_stage": "active",
            "creation_time": START_MS + number,
            "last_update_time": START_MS + number,
        }
        ids.append(_insert(connection, "experiments", row))
    return ids


def _insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> int:
    columns = {found[1] for found in connection.execute(f"PRAGMA table_info({table})")}
    whole = {**row, "workspace": "default"} if "workspace" in columns else row
    names, marks = ", ".join(whole), ", ".join("?" * len(whole))
    done = connection.execute(
        f"INSERT INTO {table} ({names}) VALUES ({marks})", tuple(whole.values())
    )
    return int(done.lastrowid or 0)
