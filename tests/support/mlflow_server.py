"""Real `mlflow server`s on the loopback interface, each proved to be ours."""

import functools
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import requests

from mlcat_ingest.testing.mlflow_store import new_database
from support.forks import ForkedProcess, Forks
from support.ports import free_port
from support.venvs import OURS, ROOT, Venv

Process = ForkedProcess | subprocess.Popen[bytes]

START_TIMEOUT_S = 180
STOP_TIMEOUT_S = 15
ATTEMPTS = 3

# uvicorn's and gunicorn's own words once the socket is theirs.
_LISTENING = r"(Uvicorn running on|Listening at:) http://127\.0\.0\.1:{port}\b"

PREFIX: Final = "/mlflow"
"""Where a server with `--static-prefix` says that it is healthy."""

_PROGRAM: Final = """
import os, runpy, sys, warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import mlflow.cli, mlflow.server, mlflow.store.db.utils
    import mlflow.store.tracking.sqlalchemy_store, mlflow.store.model_registry.sqlalchemy_store
    try:
        import uvicorn.main, mlflow.server.fastapi_app
    except ImportError:
        import gunicorn.app.wsgiapp

def serve_web(command, extra_env=None, **_):
    os.environ.update(extra_env or {})
    # These look at the environment when they are imported.
    for name in ("mlflow.server", "mlflow.server.fastapi_app"):
        sys.modules.pop(name, None)
    words = command[2:] if command[1] == "-m" else command
    sys.argv = [os.path.basename(words[0]), *words[1:]]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.exit(0)

def run(arguments):
    mlflow.server._exec_cmd = serve_web
    mlflow.cli.cli(["server", *arguments])
"""
"""MLflow's command, and the web server that it starts, in one process: each would import MLflow."""


@dataclass(slots=True)
class MlflowServer:
    """A running server; `db_path` is its SQLite store, `url` its base address."""

    url: str
    store_dir: Path
    process: Process
    log_path: Path

    @property
    def db_path(self) -> Path:
        return self.store_dir / "mlflow.db"

    def output(self) -> str:
        return self.log_path.read_text(errors="replace")

    def cpu_s(self) -> float:
        """Return the CPU seconds (user and system) its process group has used so far."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == self.process.pid:
                ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the server and everything it started; safe to call twice."""
        _end_group(self.process)


@contextmanager
def running(
    venv: Venv,
    store_dir: Path,
    *,
    workers: int = 1,
    extra_args: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Iterator[MlflowServer]:
    """Run `mlflow server` on `store_dir/mlflow.db` until the block ends.

    A port that someone else took in between is tried no further: the server is started anew on
    another one. When the server dies, the error holds all its output.
    """
    store_dir.mkdir(parents=True, exist_ok=True)
    server = _start(venv, store_dir, workers, extra_args, env or {})
    try:
        yield server
        if server.process.poll() not in {None, 0, -signal.SIGTERM, -signal.SIGKILL}:
            raise RuntimeError(f"mlflow server died:\n{server.output()}")
    finally:
        server.stop()


def add_workspace(server: MlflowServer, name: str) -> str:
    """Make a workspace on a server that has them; return the id of the run in its experiment."""

    def post(path: str, body: Mapping[str, Any], **headers: str) -> Any:
        address = f"{server.url}/api/{path}"
        reply = requests.post(address, json=body, headers=headers, timeout=30)
        reply.raise_for_status()
        return reply.json()

    post("3.0/mlflow/workspaces", {"name": name})
    header = {"X-MLFLOW-WORKSPACE": name}
    made = post("2.0/mlflow/experiments/create", {"name": f"only in {name}"}, **header)
    body = {"experiment_id": made["experiment_id"], "run_name": "hidden", "start_time": 1}
    run_id = str(post("2.0/mlflow/runs/create", body, **header)["run"]["info"]["run_id"])
    param = {"run_id": run_id, "key": "lr", "value": "0.1"}
    post("2.0/mlflow/runs/log-parameter", param, **header)
    return run_id


def _start(
    venv: Venv, store_dir: Path, workers: int, extra_args: Sequence[str], env: Mapping[str, str]
) -> MlflowServer:
    left = ATTEMPTS
    while True:
        left -= 1
        server = _spawn(venv, store_dir, workers, extra_args, env)
        try:
            if _ready(server):
                return server
        except BaseException:
            server.stop()
            raise
        server.stop()
        if not left or "address already in use" not in server.output().lower():
            raise RuntimeError(f"mlflow server did not start:\n{server.output()}")


def _spawn(
    venv: Venv, store_dir: Path, workers: int, extra_args: Sequence[str], env: Mapping[str, str]
) -> MlflowServer:
    if venv == OURS and not extra_args and not (store_dir / "mlflow.db").exists():
        new_database(store_dir / "mlflow.db")
    port = free_port()
    log_path = store_dir / f"server-{port}.log"
    log_path.touch()
    arguments = [
        *("--host", "127.0.0.1", "--port", str(port), "--workers", str(workers)),
        *("--backend-store-uri", f"sqlite:///{store_dir / 'mlflow.db'}"),
        *("--default-artifact-root", str(store_dir / "artifacts")),
        *extra_args,
    ]
    command: Sequence[str | Path] = [venv.python, "-m", "mlflow", "server", *arguments]
    # An environment that is not kept serves once, and is there to show that the command works.
    if workers == 1 and (venv == OURS or venv.path.parent == ROOT):
        if not env and sys.platform == "linux":
            process: Process = forks_of(venv).fork(arguments, store_dir, log_path)
            return MlflowServer(f"http://127.0.0.1:{port}", store_dir, process, log_path)
        command = command_of(venv, arguments)
    process = _started(venv, command, store_dir, log_path, env)
    return MlflowServer(f"http://127.0.0.1:{port}", store_dir, process, log_path)


def _started(
    venv: Venv, command: Sequence[str | Path], cwd: Path, log_path: Path, env: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    with log_path.open("wb") as log:
        return subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=cwd,
            start_new_session=True,
            env={**server_env(venv), **env},
        )


def _ready(server: MlflowServer) -> bool:
    """Return whether the server serves: it says that the socket is its own, and answers."""
    port = server.url.rpartition(":")[2]
    prefixed = f"{server.url}{PREFIX}"
    listening = re.compile(_LISTENING.format(port=port))
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            return False
        if listening.search(server.output()) and any(map(_healthy, (server.url, prefixed))):
            return server.process.poll() is None
        time.sleep(0.1)
    raise TimeoutError(f"mlflow server not ready in {START_TIMEOUT_S} s:\n{server.output()}")


def _healthy(url: str) -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{url}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _end_group(process: Process) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def command_of(venv: Venv, arguments: Sequence[str]) -> list[str]:
    """Return the command that serves in one process of `venv`, which nothing forks."""
    return [str(venv.python), "-c", f"{_PROGRAM}\nrun(sys.argv[1:])", *arguments]


@functools.cache
def forks_of(venv: Venv) -> Forks:
    """Return what forks servers of `venv` until this process ends."""
    return Forks(venv.python, _PROGRAM, server_env(venv))


def server_env(venv: Venv) -> dict[str, str]:
    """Return the environment of a server; nothing of ours reaches it."""
    left_out = ("COVERAGE_", "MLFLOW_", "PYTHON")
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    return {
        **inherited,
        "PATH": f"{venv.bin}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONUNBUFFERED": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
