"""The README's commands and recipe, run as they stand there, on real servers."""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.resolve import resolve
from support.catalog_server import running_catalog
from support.mlflow_databases import seeded_server

pytestmark = pytest.mark.e2e

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"(<!-- newcomer: \w+ -->\n)?```sh\n(.*?)```", README, re.DOTALL)
COMMANDS = [
    line
    for marker, block in BLOCKS
    for line in block.splitlines()
    if not marker and not line.startswith("#")
]
TESTS = """\
- id: group-has-description
  name: Every model group says what it is for
  category: Documentation
  definition:
    on: {types: [mlModelGroup]}
    rules: {property: mlModelGroupProperties.description, operator: exists}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("readme")
    (folder / "tests.yml").write_text(TESTS)
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
    assert [marker for marker, _ in BLOCKS if marker] == [
        "<!-- newcomer: demo -->\n",
        "<!-- newcomer: tests -->\n",
    ]


def test_the_commands_run_in_their_order(place: tuple[Path, dict[str, str]]) -> None:
    folder, hosts = place
    for command in COMMANDS:
        for example, real in hosts.items():
            command = command.replace(example, real)  # noqa: PLW2901 - the same command, elsewhere
        words = shlex.split(command)
        assert words[0] == "mlcat-ingest"
        serves = words[1:3] == ["catalog", "serve"]
        if serves:
            words += ["--port", "0"]
        process = subprocess.Popen(
            [sys.executable, "-m", "mlcat_ingest", *words[1:]],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "HOME": str(folder),
                "MLCAT_SERVER": hosts["http://datahub.example.com:8080"],
            },
        )
        if serves:
            assert process.stdout is not None
            assert "http://127.0.0.1:" in process.stdout.readline()
            process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=120)
        assert process.returncode == 0, f"{command}\n{out}\n{errors}"


def test_the_recipe_loads() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    recipe = Recipe.parse(text, environ={"MLCAT_SERVER": "http://127.0.0.1:8080"})
    assert [source.type for source in resolve(recipe).sources] == ["mlflow"]


def test_the_error_it_shows_is_the_one_that_is_reported(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^    (recipe\.yml:\d+: .*)$", README, re.MULTILINE)
    path = tmp_path / "recipe.yml"
    path.write_text("source:\n  type: mlflow\n  config:\n    tracking_url: http://127.0.0.1:5000\n")
    command = [sys.executable, "-m", "mlcat_ingest", "recipe.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert shown in done.stderr
