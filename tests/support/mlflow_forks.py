"""Starts `mlflow server`s: MLflow's command, and the web server that it starts, in one process.

Each of the two would import MLflow anew.
"""

import functools
import os
from collections.abc import Sequence
from typing import Final

from support.forks import Forks
from support.venvs import Venv

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


def command_of(venv: Venv, arguments: Sequence[str]) -> list[str]:
    """Return the command that serves in one process of `venv`, which nothing forks."""
    return [str(venv.python), "-c", f"{_PROGRAM}\nrun(sys.argv[1:])", *arguments]


@functools.cache
def forks_of(venv: Venv) -> Forks:
    """Return what forks servers of `venv` until this process ends."""
    return Forks(venv.python, _PROGRAM, server_env(venv))


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
