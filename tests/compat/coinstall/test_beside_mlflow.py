"""Our wheel installed where MLflow lives, full or skinny: MLflow stays as it was, and both work."""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcat_ingest.hooks.spool import EventSpool
from support.installed import output, versions
from support.mlflow_server import running
from support.venvs import ROOT, Venv, venv_for

# The oldest that we are beside, and the newest.
FULL = ("mlflow-2.9",)
SKINNY = ("mlflow-skinny-3.17",)

# All files that a distribution of MLflow's owns, its own records among them, and all that lie in
# the package besides; caches are none of it.
_FILES = """
import importlib.metadata as m, json, sysconfig
from pathlib import Path
owned = [d for d in m.distributions() if d.metadata["Name"].lower().startswith("mlflow")]
paths = {Path(d.locate_file(file)).resolve() for d in owned for file in d.files}
paths |= {path for path in (Path(sysconfig.get_path("purelib")) / "mlflow").rglob("*")}
print(json.dumps(sorted(str(p) for p in paths if p.is_file() and p.suffix != ".pyc")))
"""
_TRAINS = "import mlflow\nwith mlflow.start_run() as run: print(run.info.run_id)"


def content(venv: Venv) -> dict[str, str]:
    """Return the hash of every file of MLflow's, by path."""
    paths = json.loads(output([venv.python, "-I", "-c", _FILES], venv.path))
    return {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in paths}


@pytest.fixture
def linked() -> Iterator[Path]:
    """A place on the file system of the kept environments, where links can be made to them."""
    folder = Path(tempfile.mkdtemp(prefix=".linked-", dir=ROOT))
    yield folder / "venv"
    shutil.rmtree(folder)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [*FULL, *SKINNY])
def test_mlflow_stays_as_it_was_and_both_work(
    name: str, wheel: Path, tmp_path: Path, linked: Path
) -> None:
    # An environment of its own, since the kept ones are for tests without us.
    venv = Venv(shutil.copytree(venv_for(name).path, linked, symlinks=True, copy_function=os.link))
    versions_before, content_before = versions(venv), content(venv)
    assert any(path.endswith("/mlflow/__init__.py") for path in content_before)
    assert any(path.endswith("-info/RECORD") for path in content_before)
    assert "mlcat-ingest" not in versions_before

    uv = [sys.executable, "-m", "uv", "pip"]
    output([*uv, "install", "--python", venv.python, wheel], tmp_path)

    after = versions(venv)
    assert content(venv) == content_before
    assert {name: after.get(name) for name in versions_before} == versions_before
    assert after["mlcat-ingest"] in output([venv.bin / "mlcat-ingest", "--version"], tmp_path)
    output([*uv, "check", "--python", venv.python], tmp_path)
    if name in FULL:
        with running(venv, tmp_path / "store"):
            pass  # it listens, and answers on /health
    else:
        hears_of_a_run(venv, tmp_path)


def hears_of_a_run(venv: Venv, folder: Path) -> None:
    """Train as a user does who has installed us and switched the hook on."""
    message = output(
        [venv.python, "-c", _TRAINS],
        folder,
        HOME=str(folder),
        MLFLOW_TRACKING_URI=str(folder / "mlruns"),
        MLFLOW_ALLOW_FILE_STORE="true",
        MLFLOW_DISABLE_TELEMETRY="true",
        GIT_PYTHON_REFRESH="quiet",
        MLCAT_HOOK="1",
        MLCAT_HOOK_SEND="0",
        MLCAT_RECIPE=str(folder / "recipe.yml"),
    )
    spool = EventSpool(folder / ".mlcat" / "spool")
    with spool.drain_lock():
        assert [one.event.run_id for one in spool.claim(9, bool)] == [message.split()[-1]]
