"""How runs end: a script for each way, what MLflow then says of its runs, and what the hook hears.

Each script runs in a process that is forked from one that has imported MLflow and never had a run:
most of the time would be imports. It prints the ids of its runs.
"""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Final

from support.hooks import Bench


@dataclass(frozen=True, slots=True)
class Way:
    """A script, its exit status, and of each of its `runs` the status and the events."""

    script: str
    status: str
    events: tuple[str, ...]
    code: int = 0
    runs: int = 1
    shows_traceback: bool = False


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of a script: its status, the ids of its runs, and its errors."""

    code: int
    runs: list[str]
    errors: str


_HARNESS: Final = """
import gc, json, os, signal, sys, time
import mlflow, numpy, sklearn.linear_model, sklearn.model_selection, mlflow.sklearn
from mlflow import start_run

def said(run): print(run.info.run_id, flush=True)

def send(number):
    os.kill(os.getpid(), number)
    time.sleep(60)

scripts, children, ended = json.loads(sys.argv[1]), {}, {}

def wait_for_one():
    child, status = os.wait()
    ended[children.pop(child)] = os.waitstatus_to_exitcode(status)

# A child would copy all of that, to collect its garbage when it ends.
gc.freeze()
for name, script in scripts.items():
    # More at once make MLflow's own requests fail now and then, and runs with them.
    if len(children) == 6: wait_for_one()
    child = os.fork()
    if child == 0:
        for number, ending in ((1, "out"), (2, "err")):
            os.dup2(os.open(f"{name}.{ending}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        exec(script)
        break
    children[child] = name
else:
    while children: wait_for_one()
    print(json.dumps(ended))
"""

_SPAWNED: Final = """
import mlflow

def work():
    with mlflow.start_run() as run: print(run.info.run_id, flush=True)
"""

_PROJECT: Final = """
name: cancelled
entry_points: {main: {command: "touch began; exec sleep 120"}}
"""

_AUTOLOG: Final = (
    "import numpy, sklearn.linear_model as lm, sklearn.metrics as metrics\n"
    "import sklearn.model_selection as ms\n"
    "mlflow.sklearn.autolog(log_models=False, log_datasets=False, max_tuning_runs=1)\n"
    "x = numpy.arange(%s).reshape(-1, 1); y = numpy.arange(%s)\n"
)
"""Each takes another number of rows, and a search makes one child: MLflow cannot take one new
dataset of two runs at once."""

WAYS: Final = {
    "ends": Way("with start_run() as run: said(run)", "FINISHED", ("FINISHED",)),
    "raises": Way(
        "with start_run() as run: said(run); raise ValueError('as it happens')",
        "FAILED",
        ("FAILED",),
        1,
        shows_traceback=True,
    ),
    "terminated": Way(
        "said(start_run()); send(signal.SIGTERM)", "RUNNING", (), code=-signal.SIGTERM
    ),
    "terminated, with a handler": Way(
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(4))\n"
        "with start_run() as run: said(run); send(signal.SIGTERM)",
        "FAILED",
        ("FAILED",),
        4,
    ),
    "interrupted": Way(
        "with start_run() as run: said(run); send(signal.SIGINT)",
        "FAILED",
        ("FAILED",),
        -signal.SIGINT,
        shows_traceback=True,
    ),
    "cancelled project": Way(
        "import mlcat_ingest.hooks as hooks, mlflow.projects\nassert hooks.enable()\n"
        "os.environ['PATH'] = f\"{os.path.dirname(sys.executable)}:{os.environ['PATH']}\"\n"
        "done = mlflow.projects.run(\n"
        "  'project', env_manager='local', synchronous=False, parameters={})\n"
        "print(done.run_id, flush=True)\n"
        "while not os.path.exists('project/began'): time.sleep(0.05)\n"
        "done.cancel(); assert done.get_status() == 'FAILED', done.get_status()",
        "RUNNING",
        (),
    ),
    "nested": Way(
        "with start_run() as a:\n  with start_run(nested=True) as b: said(b)\nsaid(a)",
        "FINISHED",
        ("FINISHED",),
        runs=2,
    ),
    "in a forked child": Way(
        "start_run()\nif os.fork() == 0:\n  with start_run() as run: said(run)\n  os._exit(0)\n"
        "os.wait(); os._exit(0)",
        "FINISHED",
        ("FINISHED",),
    ),
    "in a spawned process": Way(
        "import multiprocessing, spawned\n"
        "child = multiprocessing.get_context('spawn').Process(target=spawned.work)\n"
        "child.start(); child.join(); sys.exit(child.exitcode)",
        "FINISHED",
        ("FINISHED",),
    ),
    "renamed": Way(
        "with start_run() as run: said(run)\n"
        "mlflow.MlflowClient().update_run(run.info.run_id, name='another')",
        "FINISHED",
        ("FINISHED", "FINISHED"),
    ),
    "by the client": Way(
        "import mlcat_ingest.hooks as hooks\nassert hooks.enable()\n"
        "client = mlflow.MlflowClient(); run = client.create_run('0'); said(run)\n"
        "client.set_terminated(run.info.run_id, 'KILLED')",
        "KILLED",
        ("KILLED",),
    ),
    "asynchronous": Way(
        "with start_run() as run:\n  said(run)\n"
        "  for n in range(100): mlflow.log_metric('m', n, step=n, synchronous=False)",
        "FINISHED",
        ("FINISHED",),
    ),
    "autologged": Way(
        _AUTOLOG
        % (8.0, 8.0)
        + "model = lm.LinearRegression().fit(x, y); said(mlflow.last_active_run())\n"
        "metrics.mean_squared_error(y, model.predict(x))",
        "FINISHED",
        ("FINISHED",),
    ),
    "grid search": Way(
        _AUTOLOG % (10.0, 10.0) + "ms.GridSearchCV(lm.Ridge(), {'alpha': [1, 2]}, cv=2).fit(x, y)\n"
        "parent = mlflow.last_active_run()\n"
        "for run in mlflow.search_runs(['0'], output_format='list',\n"
        "    filter_string=f\"tags.mlflow.parentRunId = '{parent.info.run_id}'\"): said(run)\n"
        "said(parent)",
        "FINISHED",
        ("FINISHED",),
        runs=2,
    ),
}
"""A parent's id is said after those of its children, for it ends after them."""


def ended(bench: Bench) -> dict[str, Ended]:
    """Let runs end in all ways, some side by side, with the hook on; return what came of each."""
    (bench.folder / "spawned.py").write_text(_SPAWNED)
    (bench.folder / "project").mkdir()
    (bench.folder / "project" / "MLproject").write_text(_PROJECT)
    done = subprocess.run(
        [sys.executable, "-c", _HARNESS, json.dumps({k: way.script for k, way in WAYS.items()})],
        cwd=bench.folder,
        env=bench.hooked(),
        capture_output=True,
        text=True,
        check=False,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr

    def message_of(name: str, ending: str) -> str:
        return (bench.folder / f"{name}.{ending}").read_text()

    return {
        name: Ended(code, message_of(name, "out").split(), message_of(name, "err"))
        for name, code in json.loads(done.stdout.splitlines()[-1]).items()
    }
