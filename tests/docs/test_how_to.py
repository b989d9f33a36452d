"""The how-to guides: their commands are run, and their configurations are used as they stand."""

import gzip
import re
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.emitter.rest_emitter import DatahubRestEmitter
from datahub.metadata.schema_classes import GlobalTagsClass, TagAssociationClass

from support.catalog_server import running_catalog
from support.commands import ended
from support.page_blocks import Block, blocks_of
from support.walk import Walker, walker, with_outputs

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
STORE = ROOT / "src" / "mlcat_ingest" / "cli" / "demo" / "mlflow.db.gz"
SERVICE = "http://datahub.example.com:8080"
TREE = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,a0acec8fca964a119f7e9310db1d161d,PROD)"
"""The model of the demo's run `tree`."""

RECIPE = """\
name: mlflow-prod
source:
  type: mlflow
  config: {tracking_uri: "http://mlflow.example.com:5000"}
sink:
  type: embedded
  config: {db: catalog.db}
"""


def page(name: str) -> str:
    return (HOW_TO / f"{name}.md").read_text()


def blocks(name: str, language: str) -> list[str]:
    return [block.text for block in blocks_of(page(name)) if block.language == language]


def command(text: str, *, status: int = 0) -> Block:
    return Block("sh", text, f"<!-- walk: status {status} -->" if status else "", "", 0, 0)


@dataclass(frozen=True)
class Place:
    """A home folder with MLflow's database, and what addresses of the pages stand for in it."""

    home: Path
    replaced: dict[str, str]

    def walk(self, name: str, *, update: bool) -> None:
        content = page(name)
        with self.walker() as walking:
            outputs = walking.run(blocks_of(content), compare=not update)
        if update:
            (HOW_TO / f"{name}.md").write_text(with_outputs(content, outputs))

    @contextmanager
    def walker(self) -> Iterator[Walker]:
        """Give a terminal in the home folder, in which the environment is active."""
        with walker(self.home, self.replaced, start=self.home) as walking:
            walking.run([command("python3 -m venv .venv && . .venv/bin/activate\n")])
            yield walking

    def write_recipe(self, text: str = RECIPE) -> None:
        for shown, real in self.replaced.items():
            text = text.replace(shown, real)
        (self.home / "recipe.yml").write_text(text)

    def ingest(self, *more: str) -> None:
        run("-q", "recipe.yml", *more, folder=self.home)

    def edit(self, statement: str, *values: str) -> None:
        """Edit MLflow's database."""
        with closing(sqlite3.connect(self.home / "mlflow.db")) as connection, connection:
            assert connection.execute(statement, values).rowcount == 1

    def put_in_trash(self, run_name: str) -> None:
        deleted = "UPDATE runs SET lifecycle_stage = 'deleted', deleted_time = 1 WHERE name = ?"
        self.edit(deleted, run_name)


def run(*args: str, folder: Path, status: int = 0) -> str:
    return ended([sys.executable, "-m", "mlcat_ingest", *args], status, cwd=folder).stdout


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    home = tmp_path / "home"
    home.mkdir()
    (home / "mlflow.db").write_bytes(gzip.decompress(STORE.read_bytes()))
    with running_catalog(tmp_path / "served.db") as catalog:
        replaced = {
            "http://mlflow.example.com:5000": f"sqlite:///{home / 'mlflow.db'}",
            SERVICE: catalog.url,
        }
        yield Place(home, replaced)


@pytest.fixture
def with_suites(place: Place) -> Place:
    folder = place.home / "tests"
    folder.mkdir()
    for name in ("governance.yml", "quality.yml"):
        (folder / name).write_bytes((ROOT / "recipes" / "tests" / name).read_bytes())
    return place


def test_metadata_tests_in_ci(with_suites: Place, *, update_golden: bool) -> None:
    with_suites.walk("metadata-tests-in-ci", update=update_golden)


def test_model_card(place: Place, *, update_golden: bool) -> None:
    service = RECIPE.replace("embedded", "rest").replace("db: catalog.db", f"server: {SERVICE}")
    place.write_recipe(service + "evaluate: {test_files: [card.yml]}\n")
    (place.home / "recipe.yml").rename(place.home / "gate.yml")
    (place.home / "card.yml").write_bytes((ROOT / "recipes" / "tests" / "card.yml").read_bytes())
    (use,) = blocks("model-card", "json")
    (place.home / "use.json").write_text(use)
    place.write_recipe(service)
    place.ingest()
    place.walk("model-card", update=update_golden)


def test_champion_on_a_date(place: Place, *, update_golden: bool) -> None:
    service = RECIPE.replace("embedded", "rest").replace("db: catalog.db", f"server: {SERVICE}")
    place.write_recipe(service)
    place.ingest()
    time.sleep(3)  # the window of the listing ends before the question
    place.walk("champion-on-a-date", update=update_golden)


@pytest.mark.parametrize("event", ["pull_request", "schedule"])
def test_the_workflow_for_github(with_suites: Place, event: str) -> None:
    workflow = ci_file("name: catalog\n")
    assert {"pull_request", "schedule"} == set(workflow[True])  # YAML 1.1 reads `on` so
    (job,) = workflow["jobs"].values()
    commands = [
        step["run"]
        for step in job["steps"]
        if "run" in step and step.get("if", event).strip().rpartition(" ")[2].strip("'") == event
    ]
    assert len(commands) == 3
    run_as_ci(with_suites, commands)


@pytest.mark.parametrize("event", ["merge_request_event", "schedule"])
def test_the_job_for_gitlab(with_suites: Place, event: str) -> None:
    (job,) = ci_file("metadata-tests:\n").values()
    assert [event in rule["if"] for rule in job["rules"]].count(True) == 1
    variable = f"export CI_PIPELINE_SOURCE={event}"
    run_as_ci(with_suites, [variable, *job["before_script"], *job["script"]])


def ci_file(start: str) -> dict[Any, Any]:
    (text,) = (one for one in blocks("metadata-tests-in-ci", "yaml") if one.startswith(start))
    return dict(yaml.safe_load(text))


def run_as_ci(place: Place, commands: Sequence[str]) -> None:
    """Run commands; the last fails by its metadata tests, and leaves its results."""
    place.write_recipe(blocks("metadata-tests-in-ci", "yaml")[0])
    with place.walker() as walking:
        for at, line in enumerate(commands):
            status = 3 if at == len(commands) - 1 else 0
            walking.run([command(f"{{\n{line}\n}} >ci.log 2>&1\n", status=status)])
    log = (place.home / "ci.log").read_text()
    assert "1 newly failing" in log
    planned = "plan, nothing was written" in log
    assert (place.home / "metadata-tests.xml").exists() != planned


def test_remove_and_rename(place: Place, *, update_golden: bool) -> None:
    place.write_recipe()
    place.ingest()
    place.put_in_trash("svm-grid-search")
    place.walk("remove-and-rename", update=update_golden)


def test_explain(place: Place, *, update_golden: bool) -> None:
    service = RECIPE.replace("embedded", "rest").replace("db: catalog.db", f"server: {SERVICE}")
    enriched = "enrich: [{{match: {{entity: mlModel, name: tree}}, add_tags: [{}]}}]\n".format
    place.write_recipe(service.replace("mlflow-prod", "old") + enriched("theirs"))
    place.ingest()
    place.write_recipe(service + enriched("trial"))
    place.ingest()
    tags = [TagAssociationClass(f"urn:li:tag:{name}") for name in ("theirs", "trial", "reviewed")]
    with closing(DatahubRestEmitter(place.replaced[SERVICE])) as emitter:
        emitter.emit(MetadataChangeProposalWrapper(entityUrn=TREE, aspect=GlobalTagsClass(tags)))
    place.write_recipe(service)
    place.walk("../explanation/merging", update=update_golden)


FEATURES = """\
version: 1
platform: feast
namespace: lab
tables:
  - name: cell_nuclei
    keys: [{name: biopsy_id, type: ORDINAL}]
    features:
      - {name: mean_texture, type: CONTINUOUS}
"""
REMOVED = """\
      - {name: mean_radius, type: CONTINUOUS}
      - {name: unused, type: CONTINUOUS}
"""


def test_plan(place: Place, *, update_golden: bool) -> None:
    features = RECIPE.replace("mlflow-prod", "features").replace(
        "type: mlflow", "type: definitions"
    )
    config = 'tracking_uri: "http://mlflow.example.com:5000"'
    (place.home / "features.yml").write_text(features.replace(config, "path: lab.yml"))
    (place.home / "lab.yml").write_text(FEATURES + REMOVED)
    run("-q", "features.yml", folder=place.home)
    (place.home / "lab.yml").write_text(FEATURES)
    place.write_recipe()
    place.ingest()
    place.put_in_trash("svm-grid-search")
    tree = "run_uuid = (SELECT run_uuid FROM runs WHERE name = 'tree')"
    place.edit(f"UPDATE params SET value = '4' WHERE key = 'max_depth' AND {tree}")
    place.edit(f"UPDATE tags SET value = 'ada' WHERE key = 'mlflow.user' AND {tree}")
    place.walk("plan", update=update_golden)


def test_operations(place: Place, *, update_golden: bool) -> None:
    place.write_recipe()
    place.ingest()
    place.put_in_trash("svm-grid-search")
    place.walk("operations", update=update_golden)
    assert (place.home / "changes.jsonl").stat().st_size
    metrics = (place.home / "mlflow-prod.prom").read_text()
    assert "mlcat_ingest_up" in metrics
    (rules,) = (yaml.safe_load(text)["groups"] for text in blocks("operations", "yaml"))
    (alert,) = rules[0]["rules"]
    (series,) = re.findall(r"mlcat_\w+", alert["expr"])
    assert f'{series}{{recipe="mlflow-prod"}}' in metrics


def test_backup_and_restore(place: Place) -> None:
    place.write_recipe()
    place.ingest()
    guide = blocks_of(page("backup-and-restore"))
    restore = next(at for at, block in enumerate(guide) if "rm -f catalog.db-wal" in block.text)
    with place.walker() as walking:
        walking.run(guide[:restore])
        place.put_in_trash("svm-grid-search")
        place.ingest()
        walking.run(guide[restore : restore + 1])
        place.ingest()  # the state knows that the run was removed already
        assert "1 to be removed" in run("verify", "recipe.yml", folder=place.home, status=4)
        walking.run(guide[restore + 1 :])


def test_upgrade(place: Place, *, update_golden: bool) -> None:
    place.write_recipe()
    place.ingest()
    place.walk("upgrade", update=update_golden)


def test_uninstall(place: Place, *, update_golden: bool) -> None:
    place.write_recipe()
    place.ingest()
    place.walk("uninstall", update=update_golden)
    assert {path.name for path in place.home.iterdir()} == {
        ".venv",
        ".walk",
        "mlflow.db",
        "recipe.yml",
    }
