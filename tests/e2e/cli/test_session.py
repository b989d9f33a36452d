"""A user's session at the shell: an MLflow store, the catalog, and every main command."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.catalog_process import catalog_process
from support.seeded_store import SeededStore, new_seeded_database

pytestmark = pytest.mark.smoke

WAIT_S = 120
COMMAND = (sys.executable, "-m", "mlcat_ingest")
GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,churn,PROD)"
TESTS = """\
tests:
  - id: described
    name: Has a description
    category: documentation
    definition:
      on: {types: [mlModelGroup]}
      rules: {property: mlModelGroupProperties.description, operator: exists}
  - id: owned
    name: Has an owner
    category: governance
    definition:
      on: {types: [mlModelGroup]}
      rules: {property: ownership.owners.owner, operator: exists}
"""


@dataclass(frozen=True)
class Shell:
    """A folder with an MLflow store and a catalog that is served; commands run in the folder."""

    folder: Path
    catalog: str
    seeded: SeededStore

    @property
    def store(self) -> str:
        return f"sqlite:///{self.folder / 'mlflow.db'}"

    def start(self, args: Sequence[str], cwd: Path | None = None) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*COMMAND, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd or self.folder,
            env={**os.environ, "HOME": str(self.folder), "MLCAT_SERVER": self.catalog},
        )

    def run(
        self, *args: str, text: str = "", cwd: Path | None = None
    ) -> "subprocess.CompletedProcess[str]":
        process = self.start(args, cwd)
        out, err = process.communicate(text, timeout=WAIT_S)
        assert "Traceback" not in err
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def model(self, label: str) -> str:
        run_id = self.seeded.runs[label]
        return f"urn:li:mlModel:(urn:li:dataPlatform:mlflow,{run_id},PROD)"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("session")
    seeded = new_seeded_database(folder / "mlflow.db")
    (folder / "tests.yml").write_text(TESTS)
    (folder / "recipe.yml").write_text(
        "name: session\n"
        "source: {type: mlflow, config: {tracking_uri: 'sqlite:///mlflow.db'}}\n"
        "sink: {type: rest, config: {server: '${MLCAT_SERVER}'}}\n"
    )
    with catalog_process(folder / "served.db") as catalog:
        yield Shell(folder, catalog.url, seeded)


@pytest.fixture(scope="module")
def first(shell: Shell) -> None:
    """Push the tests, check and run the recipe."""
    pushed = shell.run("catalog", "tests", "push", "tests.yml")
    assert (pushed.returncode, pushed.stdout.count("wrote urn:li:test:")) == (0, 2)
    checked = shell.run("check", "recipe.yml")
    assert checked.returncode == 0, checked.stdout
    done = shell.run("recipe.yml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("session: everything arrived after ")


@pytest.mark.usefixtures("first")
def test_aspects_can_be_read(shell: Shell) -> None:
    one = shell.run("get", shell.model("parent"), "mlModelProperties")
    assert one.returncode == 0
    assert GROUP in json.loads(one.stdout)["groups"]
    every = json.loads(shell.run("get", shell.model("parent")).stdout)
    assert {"mlModelKey", "mlModelProperties", "ownership"} <= every.keys()
    nothing = shell.run("get", GROUP.replace("churn", "nobody"))
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr.startswith("mlcat-ingest: the catalog has no urn:li:mlModelGroup")


@pytest.mark.usefixtures("first")
def test_the_catalog_answers_queries(shell: Shell) -> None:
    query = f'{{ mlModelGroup(urn: "{GROUP}") {{ name description }} }}'
    expected = {"mlModelGroup": {"name": "churn", "description": "who leaves"}}
    assert json.loads(shell.run("query", query).stdout) == expected
    assert json.loads(shell.run("query", "-", text=query).stdout) == expected
    wrong = shell.run("query", "{ nothing }")
    assert wrong.returncode == 1
    assert len(wrong.stderr.splitlines()) == 1


@pytest.mark.usefixtures("first")
def test_metadata_tests_are_evaluated(shell: Shell) -> None:
    done = shell.run("evaluate", GROUP, "--push")
    assert done.returncode == 0
    assert "  passing  urn:li:test:described" in done.stdout.splitlines()
    results = json.loads(shell.run("get", GROUP, "testResults").stdout)
    assert "urn:li:test:described" in [one["test"] for one in results["passing"]]


def test_a_recipe_from_standard_input_into_a_file(shell: Shell) -> None:
    recipe = (shell.folder / "recipe.yml").read_text().partition("sink:")[0]
    done = shell.run("-", text=recipe + "sink: {type: file, config: {path: proposals.json}}\n")
    assert done.returncode == 0, done.stderr
    assert shell.model("parent") in (shell.folder / "proposals.json").read_text()


def test_an_address_alone_fills_the_embedded_catalog(shell: Shell, tmp_path: Path) -> None:
    done = shell.run(shell.store, "--limit", "3", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0].startswith("No sink configured: writing to")
    assert f"tracking_uri: {shell.store}" in done.stderr
    assert (tmp_path / "mlcat-catalog.db").exists()
    assert shell.run(shell.store, "--no-input", cwd=tmp_path).returncode == 2


def test_a_recipe_with_three_mistakes_says_all_of_them(shell: Shell, tmp_path: Path) -> None:
    recipe = tmp_path / "wrong.yml"
    recipe.write_text(
        "source: {type: mlflwo, config: {}}\nsnk: {}\nlimits: {max_new_entities: many}\n"
    )
    done = shell.run(str(recipe))
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert [re.sub(r".*wrong\.yml:(\d).*", r"\1", line) for line in lines] == ["1", "2", "3"]


def test_ctrl_c_stops_a_run_that_waits_and_reports(shell: Shell) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        process = shell.start([url, "--to", shell.catalog])
        silent.settimeout(WAIT_S)
        connection, _ = silent.accept()
        with connection:
            connection.recv(1)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 130
    assert "interrupted after" in out
    assert "Traceback" not in err


def test_ctrl_c_stops_the_catalog_cleanly(tmp_path: Path) -> None:
    with catalog_process(tmp_path / "served.db") as catalog:
        catalog.process.send_signal(signal.SIGINT)
        out, _ = catalog.process.communicate(timeout=WAIT_S)
        assert (catalog.process.returncode, out) == (0, "")
        created, stopped = catalog.log.read_text().splitlines()
        assert "a new catalog is created" in created
        assert stopped == "stopped"
