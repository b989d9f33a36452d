"""`--log-format json` by the command line: whatever happens in a run, each line is an object."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.mlflow_tables import insert, make_database

SECRET = "hunter2hunter2"
WAIT_S = 120


@pytest.fixture
def store(tmp_path: Path) -> str:
    experiment = {"experiment_id": 1, "name": "churn", "lifecycle_stage": "active"}
    uri = make_database(tmp_path / "mlflow.db", experiments=[experiment])
    run = {"run_uuid": "r", "name": "two\nlines \x1b[31m", "experiment_id": 1}
    more = {"status": "FINISHED", "start_time": 1, "end_time": 2, "lifecycle_stage": "active"}
    insert(tmp_path / "mlflow.db", "runs", [{**run, **more}])
    return uri


def ingest(folder: Path, recipe: str, *options: str) -> tuple[int, str, list[dict[str, object]]]:
    (folder / "r.yml").write_text(recipe)
    ended = subprocess.run(
        [sys.executable, "-m", "mlcat_ingest", "r.yml", "--log-format", "json", *options],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "HOME": str(folder), "MLCAT_TOKEN_OF_TEST": SECRET},
        timeout=WAIT_S,
        check=False,
    )
    assert SECRET not in ended.stdout + ended.stderr
    lines = [json.loads(line) for line in ended.stderr.splitlines()]
    for line in lines:
        assert {"time", "level", "logger", "message"} <= line.keys()
        assert line.keys() <= {"time", "level", "logger", "message", "progress", "traceback"}
    return ended.returncode, ended.stdout, lines


def test_a_run_into_the_catalog_in_the_box(tmp_path: Path, store: str) -> None:
    recipe = f"source: {{type: mlflow, config: {{tracking_uri: '{store}'}}}}\n"
    code, out, lines = ingest(tmp_path, f"{recipe}sink: {{type: embedded}}\n", "-vv")
    assert (code, json.loads(out)["records"]) == (0, 2)
    assert any("writing to" in str(line["message"]) for line in lines)


def test_a_run_that_nobody_answers(tmp_path: Path, store: str) -> None:
    sink = "{server: 'http://127.0.0.1:9', token: '${MLCAT_TOKEN_OF_TEST}', retries: 0}"
    recipe = f"source: {{type: mlflow, config: {{tracking_uri: '{store}'}}}}\n"
    code, out, lines = ingest(tmp_path, f"{recipe}sink: {{type: rest, config: {sink}}}\n", "-vv")
    assert (code, json.loads(out)["failure"]["kind"]) == (1, "CatalogUnavailableError")
    assert [line["level"] for line in lines].count("error") == 1
    assert "Traceback" in str(lines[-1]["traceback"])
