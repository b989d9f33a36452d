"""Options of a recipe decide what a run does: each from the recipe's text to its effect."""

import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.cli.main import call
from support.catalog_server import running_catalog
from support.cli import report_of
from support.fakes import model_urn
from support.small_store import A, B, SmallStore, make

TESTS = """\
- {id: rate, name: Has a rate, category: c, definition: {on: {types: [mlModel]},
   rules: {property: mlModelProperties.hyperParams.lr, operator: exists}}}
- {id: text, name: Is described, category: c, definition: {on: {types: [mlModel]},
   rules: {property: mlModelProperties.description, operator: exists}}}
"""
RATE, TEXT = "urn:li:test:rate", "urn:li:test:text"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[tuple[SmallStore, Store]]:
    with running_catalog(tmp_path / "served.db") as running:
        (tmp_path / "tests.yml").write_text(TESTS)
        tests = str(tmp_path / "tests.yml")
        assert call(["catalog", "tests", "push", tests, "--server", running.url]) == 0
        yield make(tmp_path, running.url), running.store


def ingest(
    store: SmallStore, options: str = "", expected: int = 0, config: str = ""
) -> dict[str, Any]:
    """Run the recipe with more `options`, and more `config` of its source; return its report."""
    recipe = Path(store.recipe(more=options))
    recipe.write_text(recipe.read_text().replace("/mlflow.db'", f"/mlflow.db'{config}", 1))
    return report_of(recipe, code=expected)


def results(store: Store, urn: str) -> dict[str, str]:
    """Return which metadata tests have a stored result on an entity, and which."""
    found = store.get_many([urn], ["testResults"]).get(urn, {}).get("testResults")
    stored: Mapping[str, Any] = {} if found is None else found.value
    return {one["test"]: kind for kind in ("passing", "failing") for one in stored.get(kind, ())}


def purge(store: SmallStore, *names: str) -> None:
    for name in names:
        store.change("DELETE FROM runs WHERE run_uuid = ?", name)


def removed(store: SmallStore, *names: str) -> set[str]:
    """Return those of the runs whose models are soft-deleted."""
    stored = store.stored(*map(model_urn, names))
    return {
        name for name in names if stored[model_urn(name)].get("status", {}).get("removed", False)
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", 2),  # a fifth by default
        ("limits: {max_removed_ratio: 0.33}", 2),
        ("limits: {max_removed_ratio: 0.34}", 0),
    ],
)
def test_a_third_of_all_entities_is_removed_only_by_leave_of_the_recipe(
    catalog: tuple[SmallStore, Store], options: str, expected: int
) -> None:
    store, _ = catalog
    names = [f"run{n}" for n in range(33)]
    for name in names:
        store.add_run(name)
    ingest(store)  # 35 models and a group
    purge(store, *names[:12])
    report = ingest(store, f"state: {{full_every: 0s}}\n{options}", expected)
    assert removed(store, *names) == (set() if expected else set(names[:12]))
    assert ("max_removed_ratio" in str(report["failure"])) == bool(expected)


@pytest.mark.parametrize("should_push", [True, False])
def test_results_are_stored_only_if_the_recipe_has_them_pushed(
    catalog: tuple[SmallStore, Store], *, should_push: bool
) -> None:
    store, stored = catalog
    report = ingest(store, f"evaluate: {{should_push: {str(should_push).lower()}}}")
    assert report["evaluation"]["evaluated"] == 3
    found = {RATE: "passing", TEXT: "failing"}
    assert results(stored, A) == (found if should_push else {})


def test_only_the_metadata_tests_that_the_recipe_names_are_evaluated(
    catalog: tuple[SmallStore, Store],
) -> None:
    store, stored = catalog
    ingest(store, f"evaluate: {{test_urns: ['{RATE}']}}")
    assert results(stored, A) == results(stored, B) == {RATE: "passing"}


@pytest.mark.parametrize(("scope", "evaluated"), [("written", 1), ("all", 4)])
def test_the_scope_decides_whether_unchanged_entities_are_evaluated(
    catalog: tuple[SmallStore, Store], scope: str, evaluated: int
) -> None:
    store, _ = catalog
    ingest(store)
    store.add_run("c")
    report = ingest(store, f"state: {{full_every: 0s}}\nevaluate: {{scope: {scope}}}")
    assert report["evaluation"]["evaluated"] == evaluated


@pytest.mark.parametrize(("full_every", "gone"), [("1h", set[str]()), ("1s", {"a"})])
def test_a_deleted_run_is_found_as_late_as_the_recipe_allows(
    catalog: tuple[SmallStore, Store], full_every: str, gone: set[str]
) -> None:
    store, _ = catalog
    ingest(store)
    purge(store, "a")
    time.sleep(1.1)
    ingest(store, f"state: {{full_every: {full_every}}}")
    assert removed(store, "a", "b") == gone


@pytest.mark.parametrize(
    ("options", "config", "full"),
    [
        ("evaluate: {enabled: false}\nlimits: {max_new_entities: 9}", "", False),
        ("", ", timeout_s: 9, retries: 1, page_size: 9, incremental: {overlap: 2h}", False),
        ("enrich: [{add_tags: [x]}]", "", True),
        ("", ", system_metrics: true", True),
    ],
)
def test_a_change_of_the_recipe_needs_a_full_pass_only_where_it_decides_what_is_written(
    catalog: tuple[SmallStore, Store], options: str, config: str, *, full: bool
) -> None:
    store, _ = catalog
    assert [one["full"] for one in ingest(store)["passes"]] == [True]
    assert [one["full"] for one in ingest(store, options, config=config)["passes"]] == [full]
