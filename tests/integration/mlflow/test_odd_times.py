"""Runs with starts and ends of wrong clocks: every reader of a store gives all of them."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from mlcat_ingest.sources.base import Page, ReadRequest
from mlcat_ingest.sources.mlflow.config import MlflowConfig
from mlcat_ingest.sources.mlflow.source import MlflowSource
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun
from mlcat_ingest.testing.mlflow_store import mlflow_client
from support.mlflow_server import running
from support.seeded_store import new_seeded_database
from support.venvs import OURS

STARTS_MS = (-(10**12), -1, 1, 1_700_000_000_000)


def runs_of(**config: Any) -> set[str]:
    source = MlflowSource(MlflowConfig(**config))
    with closing(source):
        pages = [one for one in source.read(ReadRequest()) if isinstance(one, Page)]
    records = (record for page in pages for record in page.records)
    return {record.run.run_id for record in records if isinstance(record, JoinedRun)}


def test_a_run_of_any_start_is_there_for_every_reader(tmp_path: Path) -> None:
    path = tmp_path / "mlflow.db"
    new_seeded_database(path)
    with running(OURS, tmp_path) as server:
        with mlflow_client(f"sqlite:///{path}") as client:
            ids = [client.create_run("0").info.run_id for _ in STARTS_MS]
        with closing(sqlite3.connect(path)) as database, database:
            changed = "UPDATE runs SET start_time = ? WHERE run_uuid = ?"
            database.executemany(changed, zip(STARTS_MS, ids, strict=True))
        found = {
            "rest": runs_of(tracking_uri=server.url),
            "client": runs_of(tracking_uri=server.url, reader="client"),
            "database": runs_of(tracking_uri=f"sqlite:///{path}"),
        }
    assert all(set(ids) <= runs for runs in found.values()), found
    assert found["rest"] == found["client"] == found["database"]
