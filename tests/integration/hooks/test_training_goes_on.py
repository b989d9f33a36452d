"""Training beside a catalog that fails in every way: it ends as it would without the hook."""

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from mlcat_ingest.hooks.drain import drain_into, wanted_by
from mlcat_ingest.pipeline.pipeline import Pipeline
from mlcat_ingest.pipeline.resolve import load_resolved
from support.catalog_server import RunningCatalog
from support.hooks import RECIPE, Bench, models
from support.mlflow_server import MlflowServer
from support.mlflow_store import mlflow_client
from support.ports import free_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

FORKS = 200
ARRIVES_S = 60

# Trains in forked processes, one for each environment: an import of MLflow each would take minutes.
_TRAINS = """
import json, os, sys
import mlflow

children = {}
for name, env in json.loads(sys.argv[1]).items():
    child = os.fork()
    if child == 0:
        os.environ.update(env)
        for number, ending in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{name}.{ending}", os.O_WRONLY | os.O_CREAT), number)
        with mlflow.start_run() as run:
            mlflow.log_metric("loss", 0.5)
        with open(f"{name}.id", "w") as file:
            file.write(run.info.run_id)
        print("trained")
        sys.exit(7)
    children[child] = name
codes = {}
while children:
    child, status = os.wait()
    codes[children.pop(child)] = os.waitstatus_to_exitcode(status)
print(json.dumps(codes))
"""

_FORKS = """
import os, sys
import mlflow
import mlcat_ingest.hooks

assert mlcat_ingest.hooks.enable()
client = mlflow.MlflowClient()
for number in range(int(sys.argv[1])):
    if os.fork() == 0:
        client.set_terminated(client.create_run("0").info.run_id)
        os._exit(0)
    if number % 8 == 7:
        for _ in range(8): os.wait()
"""


class _Answers(BaseHTTPRequestHandler):
    """Answers everything with the status that the first part of the path names."""

    def _answer(self) -> None:
        self.send_response(int(self.path.split("/")[1]))
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST = _answer  # noqa: N815 - the names that the server looks for

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
        del format, args


@contextmanager
def answering() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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


def drained(bench: Bench, recipe: Path) -> None:
    resolved = load_resolved(recipe)
    spool = Bench(recipe.parent, bench.mlflow).spool
    deadline = time.monotonic() + ARRIVES_S
    while drain_into(resolved, spool, wanted_by(resolved, str(recipe))).busy:
        assert time.monotonic() < deadline  # a background drain gives up by itself
        time.sleep(0.5)
    assert spool.pending() == 0


def test_training_ends_as_it_would_without_the_hook_and_nothing_is_lost(
    tmp_path: Path, mlflow: MlflowServer, catalog: RunningCatalog
) -> None:
    bench = Bench(tmp_path, mlflow.url)
    small = tmp_path / "no-folder"
    small.write_text("")
    with answering() as answers, black_hole() as hole:
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
        last = str(recipes["refuses"])
        envs["no-disk"] = {**fast, "MLCAT_RECIPE": last, "MLCAT_SPOOL": "/dev/full/spool"}
        envs["no-folder"] = {**fast, "MLCAT_RECIPE": last, "MLCAT_SPOOL": str(small)}
        envs["no-sink"] = fast
        envs["no-hook"] = {}
        done = subprocess.run(
            [sys.executable, "-c", _TRAINS, json.dumps(envs)],
            cwd=tmp_path,
            env=bench.env(),
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout) == dict.fromkeys(envs, 7)
    ids = {name: (tmp_path / f"{name}.id").read_text() for name in envs}
    for name in envs:
        assert (tmp_path / f"{name}.out").read_text() == "trained\n"
        warned = (tmp_path / f"{name}.err").read_text().splitlines()
        silent = name in places or name == "no-hook"
        assert len(warned) == (0 if silent else 1), warned
        assert all("mlcat-ingest: the catalog hears of runs by its scheduled" in w for w in warned)
    with mlflow_client(mlflow.url) as client:
        runs = [client.get_run(one) for one in ids.values()]
    assert {(one.info.status, one.data.metrics["loss"]) for one in runs} == {("FINISHED", 0.5)}
    for path in recipes.values():  # the catalog is back
        path.write_text(RECIPE.format(mlflow=mlflow.url, catalog=catalog.url))
        drained(bench, path)
    told = [ids[name] for name in places]
    assert models(catalog, told) == told
    assert Pipeline(load_resolved(recipes["refuses"])).run().exit_code == 0
    assert models(catalog, list(ids.values())) == list(ids.values())


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


def test_many_forked_processes_share_a_spool_and_the_catalog_sees_batches(
    bench: Bench, catalog: RunningCatalog
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKS, str(FORKS)],
        cwd=bench.folder,
        env=bench.hooked(),
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr
    events = bench.events()
    ids = [run_id for run_id, _ in events]
    assert len(ids) == len(set(ids)) == FORKS
    report, unknown = Pipeline(load_resolved(bench.recipe)).run_named(ids)
    assert (report.exit_code, list(unknown)) == (0, [])
    assert report.catalog_requests < FORKS / 10
    assert report.source_requests < FORKS / 10
    assert len(models(catalog, ids)) == FORKS


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + ARRIVES_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
