"""What goes wrong: one clear message, the right status, no traceback."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from benchmarks.generate import generate
from mlcat_ingest.catalog.store.store import Store
from support.catalog_process import catalog_process
from support.catalog_server import RunningCatalog, running_catalog
from support.catalog_store import counts
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS

WAIT_S = 120


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("failures") / "store"
    generate(folder, runs=1500, experiments=3)
    return folder


@pytest.fixture
def mlflow(store: Path) -> Iterator[MlflowServer]:
    with running(OURS, store) as server:
        yield server


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[RunningCatalog]:
    with running_catalog(tmp_path / "catalog.db", token="right") as catalog:
        yield catalog


def write_recipe(folder: Path, tracking_uri: str, server: str, *, page_size: int = 1000) -> Path:
    path = folder / "recipe.yml"
    path.write_text(
        f"""\
source:
  type: mlflow
  config: {{tracking_uri: "{tracking_uri}", page_size: {page_size}, retries: 1, connections: 1}}
sink:
  type: rest
  config: {{server: "{server}", token: "right", retry_for_s: 3}}
"""
    )
    return path


def start(recipe: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "mlcat_ingest", str(recipe), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=recipe.parent,
        env={**os.environ, "HOME": str(recipe.parent)},
    )


def finish(process: "subprocess.Popen[str]") -> tuple[int, list[str]]:
    """Wait for the end; return the status and the messages, log lines left out."""
    _, errors = process.communicate(timeout=WAIT_S)
    assert "Traceback" not in errors
    return process.returncode, [
        line for line in errors.splitlines() if line.startswith("mlcat-ingest: ")
    ]


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


def models(store: Store) -> int:
    return store.read(counts).get("mlModel", 0)


def test_mlflow_stops_in_the_middle(
    mlflow: MlflowServer, catalog: RunningCatalog, tmp_path: Path
) -> None:
    process = start(write_recipe(tmp_path, mlflow.url, catalog.url, page_size=25))
    wait_until(lambda: models(catalog.store) > 0)
    mlflow.stop()
    status, messages = finish(process)
    assert status == 1
    assert len(messages) == 1
    assert "MLflow" in messages[0]
    assert "does not answer" in messages[0]
    assert 0 < models(catalog.store) < 1500


def test_a_run_that_is_killed_leaves_a_report_of_what_arrived(
    mlflow: MlflowServer, catalog: RunningCatalog, tmp_path: Path
) -> None:
    file = tmp_path / "report.json"
    recipe = write_recipe(tmp_path, mlflow.url, catalog.url, page_size=25)
    process = start(recipe, "--report", str(file))
    wait_until(lambda: models(catalog.store) > 0)
    process.kill()
    process.communicate(timeout=WAIT_S)
    report = json.loads(file.read_text())
    assert (report["finished"], report["exit_code"]) == (False, None)
    assert created(report) <= models(catalog.store)


def created(report: dict[str, Any]) -> int:
    return int(report["entities"].get("mlModel", {"created": 0})["created"])


def test_the_catalog_stops_in_the_middle(mlflow: MlflowServer, tmp_path: Path) -> None:
    database = tmp_path / "catalog.db"
    with catalog_process(database) as catalog, closing(Store.open(database)) as store:
        process = start(write_recipe(tmp_path, mlflow.url, catalog.url, page_size=25))
        wait_until(lambda: models(store) > 0)
        catalog.kill()
        status, messages = finish(process)
        written = models(store)
    assert status == 1
    assert len(messages) == 1
    assert "catalog" in messages[0].lower()
    assert 0 < written < 1500
