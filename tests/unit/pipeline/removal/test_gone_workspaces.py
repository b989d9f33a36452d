"""A workspace that is deleted takes its entities with it: on proof, and within the limits."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mlcat_ingest.errors import LimitError
from mlcat_ingest.pipeline.write.searchable import SearchResult
from mlcat_ingest.workflows.verify import Verification
from support.fake_mlflow import FakeReader
from support.mlflow_history import Recipe, Server

TEAM = "team-a."


@pytest.fixture
def recipe(tmp_path: Path) -> Iterator[Recipe]:
    recipe = Recipe(Server.in_use(), f"sqlite:///{tmp_path}/state.db", workspace="team-a")
    recipe.ingest()
    assert live(recipe)
    yield recipe
    recipe.ingest()
    assert [one.source for one in recipe.ingest().passes] == ["mlflow:0123456789ab:default"]


def live(recipe: Recipe) -> set[str]:
    """Return the entities of the workspace that are not removed."""
    return {urn for urn in recipe.sink.live(TEAM) if "urn:li:tag" not in urn}


def delete_with_content(recipe: Recipe) -> None:
    recipe.server, recipe.workspace = Server(), "default"


def delete_and_move_content(recipe: Recipe) -> None:
    recipe.workspace = "default"


MODES = (delete_with_content, delete_and_move_content)


@pytest.mark.parametrize("full", [False, True], ids=["changes", "full"])
@pytest.mark.parametrize("delete", MODES)
def test_all_entities_of_a_deleted_workspace_are_removed(
    recipe: Recipe, delete: Callable[[Recipe], None], *, full: bool
) -> None:
    before = live(recipe)
    delete(recipe)
    with recipe.plan(full=full) as plan:
        removed = {one.urn for one in plan.entities() if one.action == "remove"}
        assert removed >= before
        assert plan.report.notes["workspace_gone"] == 1
        with Verification(plan, SearchResult()) as found:
            assert found.to_be_removed == len(before)
    report = recipe.ingest(full=full)
    assert live(recipe) == set()
    assert report.note_examples["workspace_gone"] == (
        "workspace team-a is deleted: its entities are removed, within the limits",
    )
    assert "workspace_gone" not in recipe.ingest().notes


def test_a_workspace_that_is_made_again_brings_its_entities_back(recipe: Recipe) -> None:
    before = live(recipe)
    delete_and_move_content(recipe)
    recipe.ingest()
    recipe.workspace = "team-a"
    recipe.ingest()
    assert live(recipe) == before
    delete_and_move_content(recipe)


def test_a_workspace_that_is_denied_keeps_its_entities(
    recipe: Recipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = live(recipe)
    delete_with_content(recipe)
    with monkeypatch.context() as patch:
        patch.setattr(FakeReader, "is_gone", lambda *_: False)
        report = recipe.ingest(full=True)
    assert live(recipe) == before
    assert "workspace_gone" not in report.notes
    assert report.notes["unlisted_kept"] == 1


def test_a_workspace_that_the_recipe_leaves_out_now_keeps_its_entities(recipe: Recipe) -> None:
    before = live(recipe)
    delete_with_content(recipe)
    recipe.config = {"workspaces": {"deny": ["team-a"]}}
    recipe.ingest(full=True)
    assert live(recipe) == before
    recipe.config = {}


def test_limits_hold_for_a_deleted_workspace(recipe: Recipe) -> None:
    before = live(recipe)
    delete_with_content(recipe)
    recipe.max_removed_ratio = 0.2
    assert isinstance(recipe.report(full=True).error, LimitError)
    assert live(recipe) == before
    recipe.max_removed_ratio = 1.0
