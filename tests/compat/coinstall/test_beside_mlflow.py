"""Our wheel installed where MLflow lives: MLflow stays as it was, and both work."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.mlflow_server import running
from support.venvs import REQUIREMENTS, Venv, make_venv

pytestmark = pytest.mark.compat

PROJECT = Path(__file__).resolve().parents[3]

# The oldest that we are beside, the last 2.x, and the newest.
MLFLOWS = ("mlflow-2.9", "mlflow-2", "mlflow-3.17")

_PACKAGES = "import sysconfig; print(sysconfig.get_path('purelib'))"
_VERSIONS = (
    "import importlib.metadata as m, json;"
    "print(json.dumps({d.metadata['Name'].lower(): d.version for d in m.distributions()}))"
)


def output(command: Sequence[str | Path], cwd: Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def versions(venv: Venv) -> dict[str, str]:
    found: dict[str, str] = json.loads(output([venv.python, "-I", "-c", _VERSIONS], venv.path))
    return found


def content(venv: Venv) -> dict[str, str]:
    """Return the hash of every file of the package `mlflow`, by path; caches are none of it."""
    packages = Path(output([venv.python, "-I", "-c", _PACKAGES], venv.path).strip())
    return {
        str(path.relative_to(packages)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((packages / "mlflow").rglob("*"))
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel, built once."""
    if find_spec("uv") is None:
        pytest.skip("the wheel is built and installed by uv, which is not here")
    folder = tmp_path_factory.mktemp("wheel")
    output([sys.executable, "-m", "uv", "build", "--wheel", "--out-dir", folder], PROJECT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", MLFLOWS)
def test_mlflow_stays_as_it_was_and_both_work(name: str, wheel: Path, tmp_path: Path) -> None:
    # An environment of its own, since the kept ones are for tests without us; uv's cache makes it
    # in seconds.
    venv = make_venv(name, REQUIREMENTS[name], root=tmp_path)
    versions_before, content_before = versions(venv), content(venv)
    assert len(content_before) > 500
    assert "mlcat-ingest" not in versions_before

    uv = [sys.executable, "-m", "uv", "pip"]
    output([*uv, "install", "--python", venv.python, wheel], tmp_path)

    after = versions(venv)
    assert content(venv) == content_before
    assert {name: after.get(name) for name in versions_before} == versions_before
    assert after["mlcat-ingest"] in output([venv.bin / "mlcat-ingest", "--version"], tmp_path)
    output([*uv, "check", "--python", venv.python], tmp_path)
    with running(venv, tmp_path / "store"):
        pass  # it listens, and answers on /health
