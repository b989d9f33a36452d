"""Each pass lists the registry whole, so what it lacks is asked for at once, not in a day."""

from dataclasses import replace
from pathlib import Path

import pytest

from mlcat_ingest.pipeline.report.report import Report
from support.fake_mlflow import FakeReader
from support.fakes import group_urn, model_urn
from support.mlflow_history import Recipe, Server

GROUP = group_urn("registered:model 1")


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    server = Server()
    server.start(0)
    for _ in range(3):
        server.register(1)
    server.move_alias(2)
    recipe = Recipe(server, f"sqlite:///{tmp_path}/state.db")
    recipe.ingest()
    assert live(recipe) == {GROUP, *map(version_urn, "234")}
    return recipe


def version_urn(number: str) -> str:
    return model_urn(f"model 1_{number}")


def live(recipe: Recipe) -> set[str]:
    """Return the registered model and its versions that are not removed."""
    return recipe.sink.live("model 1", "Model")


def changes_alone(recipe: Recipe) -> Report:
    report = recipe.ingest()
    assert [one.full for one in report.passes] == [False]
    return report


def test_a_deleted_newest_version_is_removed_by_the_next_pass(recipe: Recipe) -> None:
    recipe.server.vanish(2)
    with recipe.plan() as plan:
        assert [one.urn for one in plan.entities() if one.action == "remove"] == [version_urn("4")]
    changes_alone(recipe)
    assert live(recipe) == {GROUP, version_urn("2"), version_urn("3")}
    custom = recipe.sink.stored[GROUP]["mlModelGroupProperties"]["customProperties"]
    assert custom["mlflow.latest_version"] == "3"
    assert changes_alone(recipe).source_requests < 12, "it is asked for once"


def test_a_deleted_model_is_removed_by_the_next_pass_with_its_versions(recipe: Recipe) -> None:
    recipe.server.purge_model(0)
    changes_alone(recipe)
    assert live(recipe) == set()


@pytest.mark.parametrize("edited", [False, True])
def test_a_name_that_was_given_again_is_proof_by_what_we_wrote_alone(
    recipe: Recipe, *, edited: bool
) -> None:
    """Nobody reads the object of the name now; another tool's time of creation proves nothing."""
    store, main = recipe.server.store, "mlModelGroupProperties"
    if edited:
        held = recipe.sink.stored[GROUP][main]
        recipe.sink.put(GROUP, main, {**held, "created": {"time": 5}})
    else:
        store.registered = [replace(one, created_at_ms=5) for one in store.registered]
    recipe.config = {"experiments": {"deny": ["^Default$"]}}
    recipe.ingest(full=True)
    assert (GROUP in live(recipe)) is edited


def test_a_deleted_model_without_versions_is_removed_by_the_next_pass(recipe: Recipe) -> None:
    recipe.server.store.versions.clear()
    changes_alone(recipe)
    assert live(recipe) == {GROUP}
    recipe.server.purge_model(0)
    changes_alone(recipe)
    assert live(recipe) == set()


def test_a_version_that_is_denied_stays_and_is_noted(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = live(recipe)
    recipe.server.vanish(2)
    monkeypatch.setattr(FakeReader, "is_gone", lambda *_: False)
    assert changes_alone(recipe).notes["unlisted_kept"] == 1
    assert live(recipe) == before
