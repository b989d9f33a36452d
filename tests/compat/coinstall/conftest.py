import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.installed import finished, skip_without_index
from support.venvs import REPOSITORY


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our wheel, built once."""
    if find_spec("uv") is None:
        pytest.skip("the wheel is built and installed by uv, which is not here")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "uv", "build", "--wheel", "--out-dir", str(folder)]
    done = finished(command, REPOSITORY)
    skip_without_index(done.stderr)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built
