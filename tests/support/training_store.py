"""A store that training libraries filled by MLflow's autologging and client; made once and kept."""

import hashlib
import os
import shutil
from pathlib import Path

from support.commands import ended
from support.venvs import ROOT, locked, venv_for

SCRIPT = Path(__file__).with_name("training_script.py")

_ENVIRONMENT = {
    "MLFLOW_ENABLE_WORKSPACES": "true",
    "MLFLOW_WORKSPACE": "default",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ASYNC_TRACE_LOGGING": "false",
}


def copy_store(path: Path) -> None:
    """Put a copy of the store's database at `path`; its artifacts stay where they were made.

    The first time its environment is made, and the store: a minute of CPU.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(_template(), path)


def _template() -> Path:
    venv = venv_for("mlflow-3.17-training")
    digest = hashlib.sha256(SCRIPT.read_bytes() + venv.path.name.encode()).hexdigest()[:8]
    folder = ROOT / f"store-{digest}"
    complete = folder / "complete"
    with locked(ROOT / f".{folder.name}.lock"):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            uri = f"sqlite:///{folder / 'mlflow.db'}"
            ended([venv.python, SCRIPT, uri], cwd=folder, env={**os.environ, **_ENVIRONMENT})
            complete.touch()
    return folder / "mlflow.db"
