"""How runs end, in real processes: what the hook is told, and what a scheduled run repairs.

One MLflow server, one catalog, one spool. Each script runs in a process that is forked from one
that has imported MLflow and never had a run: most of the time would be imports.
"""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest

from mlcat_ingest.hooks.drain import drain_into, wanted_by
from mlcat_ingest.pipeline.pipeline import Pipeline
from mlcat_ingest.pipeline.resolve import load_resolved
from support.catalog_server import RunningCatalog
from support.hooks import RECIPE, Bench, models
from support.mlflow_server import MlflowServer
from support.mlflow_store import mlflow_client

pytestmark = pytest.mark.integration

# Each prints the ids of the runs that it makes.
SCRIPTS = {
    "ends": "with start_run() as run: said(run)",
    "raises": "with start_run() as run: said(run); raise ValueError('as it happens')",
    "exits without a context": "said(start_run()); sys.exit(3)",
    "raises without a context": "said(start_run()); raise ValueError('as it happens')",
    "terminated": "said(start_run()); send(signal.SIGTERM)",
    "terminated, with a handler": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))\n"
        "with start_run() as run: said(run); send(signal.SIGTERM)"
    ),
    "interrupted": "with start_run() as run: said(run); send(signal.SIGINT)",
    "leaves at once": "said(start_run()); os._exit(5)",
    "killed after its end": ("with start_run() as run: said(run)\nsend(signal.SIGKILL)"),
    "nested": "with start_run() as a:\n  with start_run(nested=True) as b: said(b)\nsaid(a)",
    "in a thread": (
        "def work():\n  with start_run() as run: said(run)\n"
        "thread = threading.Thread(target=work); thread.start(); thread.join()"
    ),
    "in a forked child": (
        "start_run()\nif os.fork() == 0:\n  with start_run() as run: said(run)\n  os._exit(0)\n"
        "os.wait(); os._exit(0)"
    ),
    "resumed": "with start_run() as run: said(run)\nwith start_run(run.info.run_id): pass",
    "renamed": (
        "with start_run() as run: said(run)\n"
        "mlflow.MlflowClient().update_run(run.info.run_id, name='another')"
    ),
    "by the client": (
        "import mlcat_ingest.hooks as hooks\nhooks.enable()\nclient = mlflow.MlflowClient()\n"
        "run = client.create_run('0'); said(run); client.set_terminated(run.info.run_id, 'KILLED')"
    ),
    "asynchronous": (
        "with start_run() as run:\n  said(run)\n"
        "  for n in range(100): mlflow.log_metric('m', n, step=n, synchronous=False)"
    ),
    "autologged": (
        "import numpy, sklearn.linear_model as lm, sklearn.metrics as metrics\n"
        "mlflow.sklearn.autolog(log_models=False, log_datasets=False)\n"
        "x = numpy.arange(8.0).reshape(-1, 1); y = numpy.arange(8.0)\n"
        "model = lm.LinearRegression().fit(x, y); said(mlflow.last_active_run())\n"
        "metrics.mean_squared_error(y, model.predict(x))"
    ),
    "grid search": (
        "import numpy, sklearn.linear_model as lm, sklearn.model_selection as ms\n"
        "mlflow.sklearn.autolog(log_models=False, log_datasets=False, max_tuning_runs=2)\n"
        "x = numpy.arange(10.0).reshape(-1, 1); y = numpy.arange(10.0)\n"
        "ms.GridSearchCV(lm.Ridge(), {'alpha': [1, 2]}, cv=2).fit(x, y)\n"
        "parent = mlflow.last_active_run()\n"
        "for run in mlflow.search_runs(['0'], output_format='list',\n"
        "    filter_string=f\"tags.mlflow.parentRunId = '{parent.info.run_id}'\"): said(run)\n"
        "said(parent)"
    ),
}
_HARNESS = """
import json, os, signal, sys, threading, time
import mlflow, numpy, sklearn.linear_model, sklearn.model_selection, mlflow.sklearn
from mlflow import start_run

def said(run): print(run.info.run_id, flush=True)

def send(number):
    os.kill(os.getpid(), number)
    time.sleep(60)

scripts, children = json.loads(sys.argv[1]), {}
for name, script in scripts.items():
    child = os.fork()
    if child == 0:
        for number, ending in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{name}.{ending}", os.O_WRONLY | os.O_CREAT), number)
        exec(script)
        break
    children[child] = name
else:
    ended = {}
    while children:
        child, status = os.wait()
        ended[children.pop(child)] = os.waitstatus_to_exitcode(status)
    print(json.dumps(ended))
"""
TRACEBACKS = {"raises", "raises without a context", "interrupted"}
# What the store says of each run that a script names, the status, and the events there are of it.
EXPECTED: dict[str, tuple[int, str, list[str]]] = {
    "ends": (0, "FINISHED", ["FINISHED"]),
    "raises": (1, "FAILED", ["FAILED"]),
    "exits without a context": (3, "FINISHED", ["FINISHED"]),
    "raises without a context": (1, "FINISHED", ["FINISHED"]),
    "terminated": (-signal.SIGTERM, "RUNNING", []),
    "terminated, with a handler": (4, "FAILED", ["FAILED"]),
    "interrupted": (-signal.SIGINT, "FAILED", ["FAILED"]),
    "leaves at once": (5, "RUNNING", []),
    "killed after its end": (-signal.SIGKILL, "FINISHED", ["FINISHED"]),
    "nested": (0, "FINISHED", ["FINISHED"]),
    "in a thread": (0, "FINISHED", ["FINISHED"]),
    "in a forked child": (0, "FINISHED", ["FINISHED"]),
    "resumed": (0, "FINISHED", ["FINISHED", "FINISHED"]),
    "renamed": (0, "FINISHED", ["FINISHED", "FINISHED"]),
    "by the client": (0, "KILLED", ["KILLED"]),
    "asynchronous": (0, "FINISHED", ["FINISHED"]),
    "autologged": (0, "FINISHED", ["FINISHED"]),
    "grid search": (0, "FINISHED", ["FINISHED"]),
}
RUNS = {"nested": 2, "grid search": 3}


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a script: its status, the ids of its runs, and its errors."""

    code: int
    runs: list[str]
    errors: str


@dataclass(frozen=True, slots=True)
class World:
    """What came of all scripts, and the events that they left, which are drained."""

    ended: dict[str, Ended]
    events: list[tuple[str, str]]
    arrived: list[str]
    bench: Bench


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, mlflow: MlflowServer, catalog: RunningCatalog
) -> World:
    bench = Bench(tmp_path_factory.mktemp("ends"), mlflow.url)
    bench.recipe.write_text(RECIPE.format(mlflow=mlflow.url, catalog=catalog.url))
    done = subprocess.run(
        [sys.executable, "-c", _HARNESS, json.dumps(SCRIPTS)],
        cwd=bench.folder,
        env=bench.hooked(),
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    ended = {
        name: Ended(
            code,
            (bench.folder / f"{name}.out").read_text().split(),
            (bench.folder / f"{name}.err").read_text(),
        )
        for name, code in json.loads(done.stdout).items()
    }
    events = bench.events()
    resolved = load_resolved(bench.recipe)
    drained = drain_into(resolved, bench.spool, wanted_by(resolved, str(bench.recipe)))
    assert (drained.events, drained.left) == (len(events), 0)
    runs = [run for found in ended.values() for run in found.runs]
    return World(ended, events, models(catalog, runs), bench)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", SCRIPTS)
def test_the_hook_is_told_as_the_store_is(name: str, world: World, mlflow: MlflowServer) -> None:
    found = world.ended[name]
    code, status, events = EXPECTED[name]
    assert found.code == code, found.errors
    assert ("Traceback" in found.errors) == (name in TRACEBACKS), found.errors
    assert "mlcat" not in found.errors
    assert len(found.runs) == RUNS.get(name, 1)
    with mlflow_client(mlflow.url) as client:
        assert {client.get_run(one).info.status for one in found.runs} == {status}
    for run in found.runs:
        assert [status for one, status in world.events if one == run] == events
        assert (run in world.arrived) == bool(events)


@pytest.mark.timeout(300)
def test_there_are_no_events_but_those(world: World) -> None:
    named = {run for found in world.ended.values() for run in found.runs}
    assert {run for run, _ in world.events} <= named


@pytest.mark.timeout(300)
def test_the_next_scheduled_run_repairs_what_no_event_told(
    world: World, catalog: RunningCatalog
) -> None:
    silent = [world.ended[name].runs[0] for name in ("terminated", "leaves at once")]
    late = world.ended["autologged"].runs[0]
    with mlflow_client(world.bench.mlflow) as client:
        client.log_metric(late, "long_after_the_end", 1.0)
    assert Pipeline(load_resolved(world.bench.recipe)).run().exit_code == 0
    assert models(catalog, silent) == silent
    urn = f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{late},PROD)"
    held = catalog.store.get_many([urn], ["mlModelProperties"])[urn]["mlModelProperties"].value
    assert "long_after_the_end" in {one["name"] for one in held["trainingMetrics"]}
