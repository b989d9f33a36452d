"""What a module of ours says in a real Airflow that is too old for it."""

import os
import subprocess
from pathlib import Path

import pytest

from support.venvs import REPOSITORY, venv_for

pytestmark = [pytest.mark.compat, pytest.mark.timeout(900)]


@pytest.mark.parametrize("release", ["2.10", "3.1"])
def test_each_module_that_airflow_imports_names_the_releases(release: str, tmp_path: Path) -> None:
    python = venv_for(f"airflow-{release}").python
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), "AIRFLOW_HOME": str(tmp_path)}

    def imported(module: str) -> tuple[int, str]:
        command = [str(python), "-W", "ignore", "-c", f"import mlcat_ingest.airflow.{module}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.rstrip().rpartition("\n")[2]

    sentence = f"ImportError: mlcat-ingest needs Airflow 3.3 or newer, and Airflow {release}."
    for module in ("operator", "hook", "assets", "plugin"):
        code, last = imported(module)
        assert (code, last.startswith(sentence)) == (1, True), last
    # Every start of Airflow imports this one.
    assert imported("provider") == (0, "")
