"""Training beside a catalog that fails in every way: it ends as it would without the hook."""

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest, failing_service
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.resolve import load_resolved
from support.catalog_server import RunningCatalog
from support.hooks import RECIPE, Bench, drained, models
from support.mlflow_server import MlflowServer
from support.ports import free_port
from support.training import HEARS_LATER, trains

pytestmark = pytest.mark.timeout(900)

ARRIVES_S = 120


def answer(request: ServiceRequest) -> ServiceAnswer:
    """Answer with the status that the first part of the path names."""
    return ServiceAnswer(int(request.path.split("/")[1]), b"")


@contextmanager
def black_hole() -> Iterator[str]:
    """Give an address that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def recipe_for(folder: Path, mlflow: str, catalog: str) -> Path:
    folder.mkdir()
    path = folder / "recipe.yml"
    path.write_text(RECIPE.format(mlflow=mlflow, catalog=catalog))
    return path


def test_training_ends_as_it_would_without_the_hook_and_nothing_is_lost(
    tmp_path: Path, mlflow: MlflowServer, catalog: RunningCatalog
) -> None:
    bench = Bench(tmp_path, mlflow.url)
    with failing_service(answer) as service, black_hole() as hole:
        answers = service.url
        places = {
            "refuses": f"http://127.0.0.1:{free_port()}",
            "black-holes": hole,
            "answers-401": f"{answers}/401",
            "answers-500": f"{answers}/500",
        }
        recipes = {
            name: recipe_for(tmp_path / name, mlflow.url, place) for name, place in places.items()
        }
        fast = {"MLCAT_HOOK": "1", "MLCAT_HOOK_DEBOUNCE_S": "0.2", "MLCAT_HOOK_FLUSH_S": "1"}
        envs = {name: {**fast, "MLCAT_RECIPE": str(path)} for name, path in recipes.items()}
        envs["no-sink"] = fast
        envs["no-hook"] = {}
        trained = trains(bench, envs)
    for name, one in trained.items():
        assert one.seen == trained["no-hook"].seen == (7, "trained\n", {"loss": 0.5})
        silent = name in places or name == "no-hook"
        assert len(one.warnings) == (0 if silent else 1), one.warnings
        assert all(HEARS_LATER in warning for warning in one.warnings)
    for path in recipes.values():  # the catalog is back
        path.write_text(RECIPE.format(mlflow=mlflow.url, catalog=catalog.url))
        drained(path)
    reported = [trained[name].run_id for name in places]
    assert models(catalog, reported) == reported
    assert Pipeline(load_resolved(recipes["refuses"])).run().exit_code == 0
    ids = [one.run_id for one in trained.values()]
    assert models(catalog, ids) == ids


def test_a_run_is_in_the_catalog_soon_though_training_is_killed_at_its_end(
    bench: Bench, catalog: RunningCatalog
) -> None:
    script = (
        "import mlflow, os, time\n"
        "with mlflow.start_run() as run: print(run.info.run_id, flush=True)\n"
        "print('ended', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=bench.folder,
        env=bench.hooked(MLCAT_HOOK_SEND="1", MLCAT_HOOK_DEBOUNCE_S="0.1"),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        run_id, ended = process.stdout.readline().strip(), process.stdout.readline()
        assert ended == "ended\n"
        _until(lambda: bench.spool.is_draining() or not bench.spool.pending())
        process.send_signal(signal.SIGKILL)
    _until(lambda: models(catalog, [run_id]) == [run_id])
    _until(lambda: not bench.spool.pending())


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ARRIVES_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
