"""The yardstick for a database: fetch each row of runs, datasets and versions, keep nothing.

    python tests/benchmarks/bare_sql.py sqlite:////tmp/store/mlflow.db
    python tests/benchmarks/bare_sql.py URL --post batches.jsonl --to http://127.0.0.1:8080

With `--post` recorded bodies of ingest requests are sent after that, over three connections: what
an ingest cannot do without. Prints the number of rows.
"""

import argparse
import sqlite3
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import requests

TABLES = {
    "runs": "run_uuid, experiment_id, name, user_id, status, start_time, end_time, artifact_uri",
    "params": "run_uuid, key, value",
    "latest_metrics": "run_uuid, key, value, is_nan, timestamp, step",
    "tags": "run_uuid, key, value",
    "inputs": "input_uuid, source_id, destination_id",
    "input_tags": "input_uuid, name, value",
    "datasets": "dataset_uuid, name, digest, dataset_source, dataset_schema, dataset_profile",
    "model_versions": "name, version, run_id, creation_time, current_stage, source",
}
ROWS = 10_000


def read(url: str) -> int:
    connection: Any
    if url.startswith("sqlite:///"):
        path = url.removeprefix("sqlite:///")
        connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    else:
        connection = psycopg.connect(url.replace("+psycopg", ""))
    count = 0
    for table, columns in TABLES.items():
        # A named cursor of PostgreSQL leaves the rows on the server until they are fetched.
        cursor = connection.cursor(*([] if url.startswith("sqlite") else [table]))
        cursor.execute(f"SELECT {columns} FROM {table}")
        while rows := cursor.fetchmany(ROWS):
            count += len(rows)
        cursor.close()
    connection.close()
    return count


def post(server: str, bodies: Iterable[bytes]) -> None:
    url = f"{server}/aspects?action=ingestProposalBatch"
    headers = {"Content-Type": "application/json"}
    with requests.Session() as session, ThreadPoolExecutor(3) as pool:

        def send(body: bytes) -> None:
            session.post(url, data=body, headers=headers, timeout=300).raise_for_status()

        list(pool.map(send, bodies))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--post", type=Path)
    parser.add_argument("--to")
    chosen = parser.parse_args()
    print(read(chosen.url))
    if chosen.post:
        with chosen.post.open("rb") as bodies:
            post(chosen.to, bodies)


if __name__ == "__main__":
    main()
