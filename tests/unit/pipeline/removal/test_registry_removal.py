"""Removal from a registry, which cannot be asked by name: two passes in a row have to lack it."""

from pathlib import Path

import pytest

from mlcat_ingest.errors import CatalogRequestError, LimitError
from mlcat_ingest.pipeline.state.opening import open_state
from mlcat_ingest.pipeline.state.partitions import delete_recipe
from support.feast import registry
from support.registry_recipe import RegistryRecipe

HEAD = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,rides."
FEATURE = "urn:li:mlFeature:(rides.{},rate)"


def content(*names: str, features: bool = True) -> bytes:
    """Return a registry of views, each with one feature."""
    some = [{"name": "rate", "value_type": 5}] if features else []
    views = [{"spec": {"name": one, "project": "rides", "features": some}} for one in names]
    return registry(feature_views=views)


def of(*names: str) -> set[str]:
    """Return the table and the feature of each view."""
    return {urn for one in names for urn in (f"{HEAD}{one})", FEATURE.format(one))}


@pytest.fixture
def recipe(tmp_path: Path) -> RegistryRecipe:
    recipe = RegistryRecipe(tmp_path)
    recipe.ingest(content("a", "b"))
    assert recipe.live() == of("a", "b")
    return recipe


def test_an_entity_is_removed_after_the_second_pass_in_a_row_that_lacks_it(
    recipe: RegistryRecipe,
) -> None:
    report = recipe.ingest(content("a"))
    assert recipe.removed() == set()
    assert report.exit_code == 0
    assert report.notes["absent_once"] == 2
    assert f"{HEAD}b): removal due in the next pass" in report.note_examples["absent_once"]
    report = recipe.ingest(content("a"))
    assert recipe.removed() == of("b")
    assert "absent_once" not in report.notes
    recipe.ingest(content("a", "b"))
    assert recipe.removed() == set()


def test_an_entity_that_is_listed_in_between_starts_anew(recipe: RegistryRecipe) -> None:
    for names in ("a", "ab", "a", "b", "a"):
        recipe.ingest(content(*names))
        assert recipe.removed() == set()
    recipe.ingest(content("a"))
    assert recipe.removed() == of("b")


def test_a_pass_that_could_not_decode_everything_does_not_count(recipe: RegistryRecipe) -> None:
    broken = b"\x32\x0b\x0a\x09\x0a\x03bad\x12\x02\xff\xff"
    for more in (b"", broken, b""):
        recipe.ingest(content("a") + more)
        assert recipe.removed() == set()


def test_a_failed_pass_does_not_count(recipe: RegistryRecipe) -> None:
    report = recipe.ingest(content("a") + b"\x32\x7f")
    assert report.exit_code == 1
    recipe.ingest(content("a"))
    assert recipe.removed() == set()


def test_a_feature_of_a_table_that_stays_needs_two_passes_where_state_alone_knows(
    recipe: RegistryRecipe,
) -> None:
    recipe.sink.search_error = CatalogRequestError("no search here", status=404)
    for removed in (set(), {FEATURE.format("a"), FEATURE.format("b")}):
        recipe.ingest(content("a", "b", features=False))
        assert recipe.removed() == removed


def test_limits_stop_the_second_pass_until_somebody_allows_it(tmp_path: Path) -> None:
    recipe = RegistryRecipe(tmp_path)
    names = [f"v{at}" for at in range(8)]
    recipe.ingest(content(*names))
    assert recipe.ingest(content("v0")).exit_code == 0
    for _ in range(2):
        assert isinstance(recipe.ingest(content("v0")).error, LimitError)
        assert recipe.removed() == set()
    recipe.max_removed_ratio = 1.0
    recipe.ingest(content("v0"))
    assert recipe.removed() == of(*names[1:])


def test_without_state_nothing_is_removed_and_a_note_says_so(tmp_path: Path) -> None:
    recipe = RegistryRecipe(tmp_path, has_state=False, max_removed_ratio=1.0)
    recipe.ingest(content("a", "b"))
    for _ in range(3):
        report = recipe.ingest(content("a"))
        assert recipe.removed() == set()
        assert report.notes["removal_without_state"] == 1


def test_state_that_was_reset_counts_from_the_start(recipe: RegistryRecipe) -> None:
    recipe.ingest(content("a"))
    engine = open_state(f"sqlite:///{recipe.folder}/state.db")
    with engine.transaction(write=True) as connection:
        delete_recipe(connection, "r")
    engine.dispose()
    recipe.ingest(content("a"))
    assert recipe.removed() == set()


def test_a_plan_tells_what_goes_now_and_what_goes_with_the_next_pass(
    recipe: RegistryRecipe,
) -> None:
    (recipe.folder / "registry.db").write_bytes(content("a"))
    for _ in range(2):  # a plan is no pass
        with recipe.plan() as plan:
            assert not [one for one in plan.entities() if one.action == "remove"]
            assert any(
                one.endswith("removal due in the next pass")
                for one in plan.report.note_examples["absent_once"]
            )
    recipe.ingest(content("a"))
    with recipe.plan() as plan:
        assert {one.urn for one in plan.entities() if one.action == "remove"} == of("b")
        assert "absent_once" not in plan.report.notes
