"""The hook in the last MLflow 2 and in a skinny MLflow 3: unmodified training, and the server.

What runs there of us is standard library only, so our sources and our entry points on the path are
what an installation is.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from mlcat_ingest.hooks.spool import EventSpool
from support.hooks import as_installed
from support.mlflow_server import MlflowServer, running
from support.venvs import OURS, venv_for

pytestmark = pytest.mark.timeout(600)

CLIENTS = ("mlflow-2", "mlflow-skinny-3.17")
TRAINS = """
import mlflow
with mlflow.start_run() as run: print(run.info.run_id)
client = mlflow.MlflowClient()
other = client.create_run("0"); print(other.info.run_id)
client.set_terminated(other.info.run_id, "KILLED")
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    return as_installed(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    with running(OURS, tmp_path_factory.mktemp("server")) as server:
        yield server


def claimed(folder: Path) -> list[tuple[str, str]]:
    spool = EventSpool(folder)
    with spool.drain_lock():
        return [(one.event.run_id, one.event.status) for one in spool.claim(9, bool)]


@pytest.mark.parametrize("name", CLIENTS)
def test_unmodified_training_is_heard(
    name: str, path: str, server: MlflowServer, tmp_path: Path
) -> None:
    (tmp_path / "recipe.yml").touch()
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW_", "PYTHON"))}
    done = subprocess.run(
        [venv_for(name).python, "-c", TRAINS],
        cwd=tmp_path,
        env={
            **inherited,
            "PYTHONPATH": path,
            "MLFLOW_TRACKING_URI": server.url,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
            "GIT_PYTHON_REFRESH": "quiet",
            "MLCAT_HOOK": "1",
            "MLCAT_HOOK_SEND": "0",
            "MLCAT_RECIPE": str(tmp_path / "recipe.yml"),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    ended, killed = [line for line in done.stdout.split() if len(line) == 32]
    assert claimed(tmp_path / ".mlcat" / "spool") == [(ended, "FINISHED"), (killed, "KILLED")]
    assert "mlcat" not in done.stderr


def test_the_server_of_the_last_2_is_heard(path: str, tmp_path: Path) -> None:
    env = {
        "PYTHONPATH": path,
        "MLCAT_RECIPE": str(tmp_path / "recipe.yml"),
        "MLCAT_HOOK_SEND": "0",
    }
    arguments = ("--app-name", "mlcat")
    with running(venv_for("mlflow-2"), tmp_path / "s", extra_args=arguments, env=env) as old:
        api = f"{old.url}/api/2.0/mlflow/runs"
        made = requests.post(f"{api}/create", json={"experiment_id": "0"}, timeout=60)
        run_id = made.json()["run"]["info"]["run_id"]
        ended = {"run_id": run_id, "status": "FINISHED"}
        requests.post(f"{api}/update", json=ended, timeout=60).raise_for_status()
    assert claimed(tmp_path / ".mlcat" / "spool") == [(run_id, "FINISHED")]
