"""The README's commands, run as they stand there, on real servers."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.catalog_server import running_catalog
from support.commands import ended
from support.fakes import model_urn
from support.mlflow_databases import seeded_server
from support.page_blocks import blocks_of
from support.venvs import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
SET_UP = re.findall(r"<!-- newcomer: \w+ -->\n```sh\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    line
    for block in blocks_of(README)
    if block.language == "sh" and block.text not in SET_UP
    for line in block.text.splitlines()
]
TRAINING = """\
from pathlib import Path

import mlflow

with mlflow.start_run() as run:
    mlflow.log_metric("auc", 0.9)
Path("run_id").write_text(run.info.run_id)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("readme")
    (folder / "train.py").write_text(TRAINING)
    with (
        seeded_server("ours", folder / "store") as (mlflow, _),
        running_catalog(folder / "catalog.db") as catalog,
    ):
        hosts = {
            "http://mlflow.example.com:5000": mlflow.url,
            "http://datahub.example.com:8080": catalog.url,
        }
        yield folder, hosts


def test_the_readme_has_commands_and_two_set_ups() -> None:
    assert len(COMMANDS) >= 9
    assert re.findall(r"<!-- newcomer: (\w+) -->", README) == ["demo", "tests"]


def test_the_commands_run_in_their_order_and_the_hook_writes_its_run(
    place: tuple[Path, dict[str, str]],
) -> None:
    folder, hosts = place
    catalog = hosts["http://datahub.example.com:8080"]
    mlflow = hosts["http://mlflow.example.com:5000"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {
        "HOME": folder,
        "PATH": path,
        "MLCAT_SERVER": catalog,
        "MLFLOW_TRACKING_URI": mlflow,
    }
    env = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    for command in COMMANDS:
        for example, real in hosts.items():
            command = command.replace(example, real)  # noqa: PLW2901 - the same command, elsewhere
        serves = "catalog serve" in command
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command} --port 0" if serves else command],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        if serves:
            assert process.stdout is not None
            assert "http://127.0.0.1:" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, f"{command}\n{out}\n{errors}"
    trained = model_urn((folder / "run_id").read_text())
    shown = subprocess.run(
        ["bash", "-ec", f"mlcat-ingest hooks drain recipe.yml; mlcat-ingest get '{trained}'"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env=env,
    )
    assert "auc" in shown.stdout


def test_the_readme_has_at_most_130_lines() -> None:
    assert len(README.splitlines()) <= 130


def test_the_error_that_the_recipe_page_shows_is_the_one_that_is_reported(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "reference" / "recipe.md").read_text()
    (shown,) = re.findall(r"^    (recipe\.yml:\d+: .*)$", page, re.MULTILINE)
    path = tmp_path / "recipe.yml"
    path.write_text("source:\n  type: mlflow\n  config:\n    tracking_url: http://127.0.0.1:5000\n")
    done = ended([sys.executable, "-m", "mlcat_ingest", "recipe.yml"], 2, cwd=tmp_path)
    assert shown in done.stderr
