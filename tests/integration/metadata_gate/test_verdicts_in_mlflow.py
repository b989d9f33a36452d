"""With `evaluate.write_back`, runs and versions of a real MLflow have a verdict as a tag."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient

from support.catalog_server import running_catalog
from support.cli import report_of
from support.mlflow_server import MlflowServer, running
from support.recipes import accuracy_test
from support.venvs import OURS, venv_for

TESTS = accuracy_test(0.9)
DESCRIBED = """\
- id: described
  name: Models have a description
  category: Documentation
  definition:
    on: {types: [mlModel]}
    rules: {property: mlModelProperties.description, operator: exists}
"""


@pytest.fixture(scope="module", params=["ours", "mlflow-2"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MlflowServer]:
    venv = OURS if request.param == "ours" else venv_for(str(request.param))
    with running(venv, tmp_path_factory.mktemp(str(request.param))) as server:
        yield server


@dataclass
class World:
    """A server with two runs, of which the good one has a version, and a recipe beside it."""

    folder: Path
    server: MlflowServer
    client: MlflowClient
    good: str
    poor: str
    model: str

    def ingest(self, *words: str) -> Mapping[str, Any]:
        return report_of(self.folder / "recipe.yml", *words)

    def tests(self, text: str) -> None:
        (self.folder / "tests.yml").write_text(text)

    def verdicts(self) -> dict[str, str | None]:
        return {
            "good": self.client.get_run(self.good).data.tags.get("mlcat.tests"),
            "poor": self.client.get_run(self.poor).data.tags.get("mlcat.tests"),
            "version": self.client.get_model_version(self.model, "1").tags.get("mlcat.tests"),
        }

    def times(self) -> list[str | None]:
        tags = [self.client.get_run(run).data.tags for run in (self.good, self.poor)]
        return [one.get("mlcat.tests_at") for one in tags]


@pytest.fixture
def world(server: MlflowServer, tmp_path: Path) -> Iterator[World]:
    client = MlflowClient(server.url)
    experiment = client.create_experiment(tmp_path.name)
    runs = []
    for name, accuracy in (("good", 0.95), ("poor", 0.5)):
        run = client.create_run(experiment, run_name=name).info.run_id
        client.log_metric(run, "accuracy", accuracy)
        client.set_terminated(run)
        runs.append(run)
    client.create_registered_model(tmp_path.name)
    client.create_model_version(tmp_path.name, "s3://bucket/model", runs[0])
    recipe = (
        f"source:\n  type: mlflow\n  config: {{tracking_uri: '{server.url}',"
        f" experiments: {{allow: ['{tmp_path.name}']}}}}\n"
        "evaluate: {write_back: true, test_files: [tests.yml]}\n"
    )
    (tmp_path / "tests.yml").write_text(TESTS)
    with running_catalog(tmp_path / "catalog.db") as catalog:
        sink = f"sink: {{type: rest, config: {{server: '{catalog.url}'}}}}\n"
        (tmp_path / "recipe.yml").write_text(f"{recipe}{sink}")
        yield World(tmp_path, server, client, runs[0], runs[1], tmp_path.name)


def test_runs_and_versions_have_the_verdict_of_their_tests(world: World) -> None:
    report = world.ingest()
    assert report["verdicts_written"] == 3
    expected = {"good": "passing", "poor": "failing: accurate", "version": "passing"}
    assert world.verdicts() == expected
    assert all(world.times())


def test_a_verdict_that_stays_is_not_written_again_nor_ingested(world: World) -> None:
    world.ingest()
    times = world.times()
    # The tags are no news of a run or version: nothing is written for them.
    assert world.ingest()["proposals_sent"] == 0
    assert world.ingest("--full")["proposals_sent"] == 0
    world.client.set_tag(world.poor, "mlflow.note.content", "much to do")
    assert world.ingest("--full")["proposals_sent"] > 0
    assert world.times() == times


def test_only_a_changed_verdict_is_written_and_no_tag_of_others(world: World) -> None:
    world.client.set_tag(world.poor, "team", "growth")
    world.ingest()
    good, _ = world.times()
    world.client.log_metric(world.poor, "accuracy", 0.99, step=1)
    world.ingest("--full")
    assert world.verdicts()["poor"] == "passing"
    assert world.times()[0] == good
    tags = world.client.get_run(world.poor).data.tags
    assert tags["team"] == "growth"
    assert {name for name in tags if name.startswith("mlcat.")} == {"mlcat.tests", "mlcat.tests_at"}


def test_a_new_test_changes_the_verdicts(world: World) -> None:
    world.ingest()
    world.tests(TESTS + DESCRIBED)
    world.client.set_tag(world.poor, "team", "growth")
    world.client.update_model_version(world.model, "1", "best so far")
    world.ingest("--full")
    verdicts = world.verdicts()
    assert verdicts["poor"] == "failing: accurate, described"
    assert verdicts["version"] == "passing"


def test_a_lost_state_writes_no_verdict_again(world: World) -> None:
    world.ingest()
    times = world.times()
    for file in (world.folder / ".mlcat").glob("state.db*"):
        file.unlink()
    world.ingest("--full")
    assert world.times() == times


def test_a_run_in_the_trash_keeps_its_verdict(world: World) -> None:
    world.ingest()
    world.client.delete_run(world.poor)
    assert world.ingest("--full")["notes"] == {}
    assert world.client.get_run(world.poor).data.tags["mlcat.tests"] == "failing: accurate"
