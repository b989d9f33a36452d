"""Forks `mlflow server`s from one process of an environment that has imported MLflow already.

An import of MLflow's server takes seconds of CPU, twice: in the command, and in the web server that
it starts. A fork runs that command and its web server, on a store, a port and a log of its own.
"""

import atexit
import functools
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from support.venvs import Venv

_PARENT: Final = """
import json, os, runpy, select, signal, sys
import mlflow.cli, mlflow.server, mlflow.store.db.utils
import mlflow.store.tracking.sqlalchemy_store, mlflow.store.model_registry.sqlalchemy_store
try:
    import uvicorn.main, mlflow.server.fastapi_app
except ImportError:
    import gunicorn.app.wsgiapp

children = {}
heard, wakes = os.pipe()
for end in (heard, wakes):
    os.set_blocking(end, False)
signal.signal(signal.SIGCHLD, lambda *_: None)
signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)

def reap():
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with open(children[pid] + ".tmp", "w") as file:
            file.write(str(os.waitstatus_to_exitcode(status)))
        os.rename(children[pid] + ".tmp", children.pop(pid))

def serve_web(command, extra_env=None, **_):
    os.environ.update(extra_env or {})
    # These look at the environment when they are imported.
    for name in ("mlflow.server", "mlflow.server.fastapi_app"):
        sys.modules.pop(name, None)
    words = command[2:] if command[1] == "-m" else command
    sys.argv = [os.path.basename(words[0]), *words[1:]]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    sys.exit(0)

def serve(order):
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    log = os.open(order["log"], os.O_WRONLY | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(order["cwd"])
    mlflow.server._exec_cmd = serve_web
    mlflow.cli.cli(["server", *order["arguments"]])

orders = b""
while True:
    ready, _, _ = select.select([0, heard], [], [])
    if heard in ready:
        os.read(heard, 4096)
        reap()
    if 0 in ready:
        text = os.read(0, 65536)
        if not text:
            break
        orders += text
        while b"\\n" in orders:
            line, orders = orders.split(b"\\n", 1)
            order = json.loads(line)
            child = os.fork()
            if child == 0:
                serve(order)
                os._exit(0)
            children[child] = order["status"]
            os.write(1, b"%d\\n" % child)
for child in children:
    os.killpg(child, signal.SIGKILL)
"""


@dataclass(frozen=True, slots=True)
class ForkedProcess:
    """A process of another one's; looks like a `subprocess.Popen`."""

    pid: int
    status_file: Path

    def poll(self) -> int | None:
        """Return its exit status once it has ended."""
        try:
            return int(self.status_file.read_text())
        except FileNotFoundError:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status when it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not in `timeout` seconds.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while (status := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("mlflow server", timeout or 0)
            time.sleep(0.02)
        return status

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class MlflowForks:
    """The process of one environment that forks its servers."""

    def __init__(self, venv: Venv, env: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="mlflow-forks-")
        self._made = 0
        self._parent = subprocess.Popen(
            [venv.python, "-c", _PARENT],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=self._folder.name,
            env=env,
            start_new_session=True,
        )
        atexit.register(self.close)

    def fork(self, arguments: Sequence[str], cwd: Path, log: Path) -> ForkedProcess:
        """Start `mlflow server` with these arguments; its output is appended to `log`."""
        self._made += 1
        status_file = Path(self._folder.name) / str(self._made)
        order = {
            "arguments": list(arguments),
            "cwd": str(cwd),
            "log": str(log),
            "status": str(status_file),
        }
        orders, replies = _ends(self._parent)
        orders.write(json.dumps(order).encode() + b"\n")
        orders.flush()
        reply = replies.readline()
        if not reply:
            raise RuntimeError(f"no MLflow server can be forked: {self._parent.wait()}")
        return ForkedProcess(int(reply), status_file)

    def close(self) -> None:
        """End the process, and what it has forked."""
        for end in _ends(self._parent):
            end.close()
        self._parent.wait()
        self._folder.cleanup()


def _ends(process: "subprocess.Popen[bytes]") -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


@functools.cache
def forks_of(venv: Venv) -> MlflowForks:
    """Return what forks servers of `venv` until this process ends."""
    return MlflowForks(venv, server_env(venv))


def server_env(venv: Venv) -> dict[str, str]:
    """Return the environment of a server; nothing of ours reaches it."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW_", "PYTHON"))}
    return {
        **inherited,
        "PATH": f"{venv.bin}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONUNBUFFERED": "1",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
