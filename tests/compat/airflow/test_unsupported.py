"""What our modules do in an Airflow 2, which runs them by `external_python` only."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from support.airflow_home import airflow_of
from support.venvs import OURS, REPOSITORY, venv_for

pytestmark = pytest.mark.timeout(900)

SENTENCE = "mlcat-ingest needs Airflow 3.0 or newer, and Airflow 2.11"


def test_each_module_that_airflow_imports_names_the_releases(tmp_path: Path) -> None:
    python = venv_for("airflow-2.11").python
    env = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src"), "AIRFLOW_HOME": str(tmp_path)}

    def imported(module: str) -> tuple[int, str]:
        command = [str(python), "-W", "ignore", "-c", f"import mlcat_ingest.airflow.{module}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.rstrip().rpartition("\n")[2]

    for module in ("operator", "hook", "assets"):
        code, last = imported(module)
        assert (code, last.startswith(f"ImportError: {SENTENCE}")) == (1, True), last
    # Every start of Airflow imports these.
    assert imported("provider") == (0, "")
    assert imported("plugin")[0] == 0


def test_the_example_of_the_page_runs_and_the_plugin_says_one_sentence(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "reference" / "airflow.md").read_text()
    [example] = [
        block
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL)
        if "external_python" in block
    ]
    airflow = airflow_of(tmp_path, "2.11")
    dags = tmp_path / "dags"
    dags.mkdir()
    (dags / "external.py").write_text(
        example.replace("from airflow.sdk import", "from airflow.decorators import")
        .replace("/opt/venvs/mlcat/bin/python", str(OURS.python))
        .replace("/opt/airflow/recipes", str(tmp_path))
    )
    definitions = REPOSITORY / "recipes" / "definitions"
    (tmp_path / "whole.yml").write_text(
        f"name: whole\nsource: {{type: definitions, config: {{path: '{definitions}'}}}}\n"
        f"sink: {{type: file, config: {{path: '{tmp_path}/out.jsonl'}}}}\n"
    )
    airflow.run("db", "migrate")
    printed = airflow.run(*("dags", "test", "mlcat_external"), AIRFLOW__CORE__DAGS_FOLDER=str(dags))
    assert (tmp_path / "out.jsonl").stat().st_size > 0, printed
    assert printed.count(SENTENCE) == 1
    assert "Failed to import plugin" not in printed
