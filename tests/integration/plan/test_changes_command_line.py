"""`--changes`: the changes that a run's writes made, as the plan before it announced them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.secrets import SECRETS
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.plan_render import ChangeLog
from mlcat_ingest.workflows.resolve import ResolvedRecipe
from support import small_store
from support.catalog_server import running_catalog
from support.fakes import FakeSink, FakeSource, model_urn
from support.machine import needs_dev_full
from support.sides import Built
from support.small_store import GROUP, A, B, C, SmallStore

Record = dict[str, Any]

RULES = "enrich: [{match: {entity: mlModel}, add_tags: [shipped]}]\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SmallStore]:
    with running_catalog(tmp_path / "served.db") as catalog:
        yield small_store.make(tmp_path, catalog.url)


def sorted_records(records: Any) -> list[Record]:
    return sorted(records, key=lambda one: json.dumps(one, sort_keys=True))


def changes_of(store: SmallStore, *words: str) -> list[Record]:
    file = store.folder / "changes.jsonl"
    assert call([*words, "--changes", str(file)]) == 0
    return sorted_records(json.loads(line) for line in file.read_text().splitlines())


def planned(capfd: pytest.CaptureFixture[str], *words: str) -> list[Record]:
    """Return what `plan --json` prints, without the summary."""
    capfd.readouterr()
    assert call(["plan", *words, "--json"]) == 0
    *changes, _ = map(json.loads, capfd.readouterr().out.splitlines())
    return sorted_records(changes)


def test_a_run_writes_the_changes_that_its_plan_announced(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe(more=RULES)
    announced = planned(capfd, recipe)
    assert store.stored(A)[A] == {}
    made = changes_of(store, recipe, "-q")
    assert made == announced
    assert {one["name"] for one in made if one["urn"] == A} == {"run a (churn)"}
    assert not any("mlcat.applied" in json.dumps(one) for one in made)
    assert changes_of(store, recipe, "-q", "--full") == []


def test_changes_beside_those_of_another_writer(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe(more=RULES)
    assert call([recipe, "-q"]) == 0
    properties = store.stored(A)[A]["mlModelProperties"]
    params = [{"name": "lr", "value": "0.1"}, {"name": "theirs", "value": "1"}]
    store.put(A, mlModelProperties={**properties, "hyperParams": params, "description": "theirs"})
    store.change("UPDATE params SET value = '9' WHERE run_uuid = 'a' AND key = 'lr'")
    store.add_run("c", lr="1")
    announced = planned(capfd, recipe, "--full")
    made = changes_of(store, recipe, "-q", "--full")
    assert made == announced
    assert {one["urn"] for one in made} == {A, C}
    records = {one["entry"]: one for one in made if one["urn"] == A}
    assert records.keys() == {"lr", "depth"}  # what the other writer added is as it was
    lr, depth = records["lr"], records["depth"]
    assert (lr["before"]["value"], lr["after"]["value"]) == ("0.1", "9")
    assert (lr["action"], lr["aspect"], lr["field"]) == (
        *("update", "mlModelProperties"),
        "hyperParams",
    )
    assert "before" not in depth


def test_a_removal_and_a_return_are_changes(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe()
    assert call([recipe, "-q"]) == 0
    store.change("UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid = 'b'")
    announced = planned(capfd, recipe, "--full")
    made = changes_of(store, recipe, "-q", "--full")
    assert made == announced
    (status,) = [one for one in made if one["aspect"] == "status"]
    assert status == {
        "kind": "change",
        "urn": B,
        "name": "run b (churn)",
        "action": "remove",
        "aspect": "status",
        "field": "removed",
        "before": False,
        "after": True,
    }
    store.change("UPDATE runs SET lifecycle_stage = 'active' WHERE run_uuid = 'b'")
    back = changes_of(store, recipe, "-q", "--full")
    assert [one["action"] for one in back if one["aspect"] == "status"] == ["revive"]


def test_a_file_that_cannot_be_written_stops_before_anything_is(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe()
    for place in ("nowhere/changes.jsonl", "x" * 300, "."):
        capfd.readouterr()
        assert call([recipe, "-q", "--changes", str(store.folder / place)]) == 2
        assert "--changes" in capfd.readouterr().err
    assert store.stored(A, GROUP) == {A: {}, GROUP: {}}
    assert not (store.folder / ".mlcat").exists()


@needs_dev_full
def test_a_full_disk_is_reported_and_everything_arrives(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe()
    assert call([recipe, "-q", "--changes", "/dev/full"]) == 1
    assert "the changes cannot be written to /dev/full" in capfd.readouterr().err
    assert store.stored(A)[A] != {}


def test_secrets_are_not_shown(tmp_path: Path) -> None:
    SECRETS.add("hunter2-hunter2")
    model = Entity(model_urn("r"), {"mlModelProperties": {"description": "it is hunter2-hunter2"}})
    recipe = Recipe.parse("{name: test, sources: [{type: mlflow}]}")
    sides = (Built(FakeSource([[model]])),), Built(FakeSink())
    log = ChangeLog(tmp_path / "changes.jsonl")
    report = Pipeline(ResolvedRecipe(recipe, *sides)).run(changes=log.write)  # type: ignore[arg-type]
    log.close()
    assert report.exit_code == 0
    assert "it is ***" in (tmp_path / "changes.jsonl").read_text()
