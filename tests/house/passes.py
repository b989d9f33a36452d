"""Two passes of the command over one MLflow run: the functions of the package that each calls.

As a script it is one pass: `passes.py CALLED ARGUMENT…` runs the command with these arguments, and
writes the functions that it called to the file `CALLED`.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any, Final
from urllib.parse import urlsplit

from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest, failing_service

SRC: Final = Path(__file__).parents[2] / "src"
PACKAGE: Final = f"{SRC / 'mlcat_ingest'}{os.sep}"
STARTED_MS: Final = 1_700_000_000_000

Function = tuple[str, str]
"""The path of a module in the package, and the qualified name of a function there."""

EXPERIMENT: Final = {
    "experiment_id": "1",
    "name": "churn",
    "artifact_location": "/artifacts/1",
    "lifecycle_stage": "active",
    "creation_time": STARTED_MS,
    "last_update_time": STARTED_MS,
}
RUN: Final = {
    "info": {
        "run_id": "8db4575d69dd4dc99b242cdd148e1bff",
        "run_name": "first",
        "experiment_id": "1",
        "user_id": "ann",
        "status": "FINISHED",
        "start_time": STARTED_MS,
        "end_time": STARTED_MS + 1000,
        "artifact_uri": "/artifacts/1/8db4575d69dd4dc99b242cdd148e1bff/artifacts",
        "lifecycle_stage": "active",
    },
    "data": {
        "metrics": [{"key": "auc", "value": 0.5, "timestamp": STARTED_MS + 500, "step": 0}],
        "params": [{"key": "lr", "value": "0.1"}],
        "tags": [{"key": "mlflow.user", "value": "ann"}, {"key": "team", "value": "growth"}],
    },
    "inputs": {},
}
LISTINGS: Final = {"experiments": [EXPERIMENT], "runs": [RUN]}


def mlflow(request: ServiceRequest) -> ServiceAnswer:
    """Answer as an MLflow server that holds one run."""
    path = urlsplit(request.path).path
    if path == "/version":
        return ServiceAnswer(body=b"3.1.4")
    listing = path.rpartition("/mlflow/")[2].removesuffix("/search")
    page = {name: items for name, items in LISTINGS.items() if name == listing}
    return ServiceAnswer(body=json.dumps(page).encode())


def functions_of_passes() -> tuple[frozenset[Function], frozenset[Function]]:
    """Return the functions that the first pass calls, and those of a second one.

    Each pass is a process, which reads MLflow over HTTP and writes to the embedded catalog. In the
    second one nothing has changed.
    """
    with tempfile.TemporaryDirectory() as name, failing_service(mlflow) as service:
        folder = Path(name)
        (folder / "recipe.yml").write_text(
            "name: one-run\n"
            f"source: {{type: mlflow, config: {{tracking_uri: '{service.url}'}}}}\n"
            f"sink: {{type: embedded, config: {{db: '{folder / 'catalog.db'}'}}}}\n"
        )
        (first, written), (second, written_again) = _one_pass(folder), _one_pass(folder)
    if not written or written_again:
        raise RuntimeError(f"the passes wrote {written} and {written_again} proposals")
    return first, second


def _one_pass(folder: Path) -> tuple[frozenset[Function], int]:
    """Return the functions that a pass called, and the number of proposals that it sent."""
    called, report = folder / "called.json", folder / "report.json"
    command = [sys.executable, __file__, str(called), "-q", "recipe.yml", "--report", str(report)]
    # Nothing of the machine may change the way that a run takes: no proxy, no state, no sign-in.
    env = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": str(SRC)}
    subprocess.run(command, cwd=folder, env=env, check=True)
    functions = frozenset((path, name) for path, name in json.loads(called.read_text()))
    return functions, json.loads(report.read_text())["proposals_sent"]


class _Imports(threading.local):
    """The number of modules that a thread is importing."""

    depth = 0


def _profiled(arguments: list[str]) -> tuple[int, set[Function]]:
    """Run the command; return its status, and the functions of the package that it called.

    Left out are functions that modules call while they are imported, lambdas and comprehensions.
    """
    called: set[Function] = set()
    imports = _Imports()

    def record(frame: FrameType, event: str, _: Any) -> None:
        if event not in {"call", "return"}:
            return
        code = frame.f_code
        if code.co_name == "<module>":
            imports.depth += 1 if event == "call" else -1
        elif (
            code.co_filename.startswith(PACKAGE)
            and not code.co_name.startswith("<")
            and not imports.depth
        ):
            called.add((code.co_filename.removeprefix(PACKAGE), code.co_qualname))

    threading.setprofile(record)
    sys.setprofile(record)
    from mlcat_ingest.cli.main import call

    status = call(arguments)
    sys.setprofile(None)
    return status, called


if __name__ == "__main__":
    _, target, *rest = sys.argv
    exit_status, functions = _profiled(rest)
    Path(target).write_text(json.dumps(sorted(functions)))
    sys.exit(exit_status)
