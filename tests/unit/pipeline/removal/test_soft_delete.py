"""Removal: on proof, all or none, and what people put on a group goes along with its experiment."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.errors import LimitError
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.sources.mlflow.values.records import Run
from support.fake_mlflow import FakeReader
from support.fakes import FakeSink, group_urn, model_urn
from support.mlflow_history import Recipe, Server

PERSON = "urn:li:corpuser:ada"


@pytest.fixture
def server() -> Server:
    server = Server()
    runs = [Run(f"{n:032x}", "1", name=f"run {n}", start_time_ms=n) for n in range(1, 31)]
    server.store.runs = [*runs, Run("e" * 32, "0", start_time_ms=99)]
    return server


@pytest.fixture
def recipe(server: Server, tmp_path: Path) -> Recipe:
    recipe = Recipe(server, f"sqlite:///{tmp_path}/state.db", max_removed_ratio=0.2)
    recipe.ingest()
    return recipe


def run_urns(*numbers: int) -> set[str]:
    return {model_urn(f"{number:032x}") for number in numbers}


def properties(sink: FakeSink, urn: str) -> dict[str, Any]:
    return dict(sink.stored[urn]["mlModelGroupProperties"]["customProperties"])


def over_limit(recipe: Recipe, **options: Any) -> Report:
    report = recipe.report(**options)
    assert isinstance(report.error, LimitError)
    assert report.exit_code == 2
    return report


# --- proof ----------------------------------------------------------------------------------------


def test_a_run_that_is_gone_is_removed_and_comes_back_with_all_that_was_on_it(
    server: Server, recipe: Recipe
) -> None:
    runs = list(server.store.runs)
    (gone,) = run_urns(1)
    recipe.sink.put(gone, "ownership", {"owners": [{"owner": PERSON, "type": "NONE"}]})
    server.store.runs = runs[1:]
    recipe.ingest()
    assert recipe.sink.removed() == set(), "a pass over changes has no proof"
    report = recipe.ingest(full=True)
    assert recipe.sink.removed() == {gone}
    assert report.entities["mlModel"].removed == 1
    server.store.runs = runs
    assert recipe.ingest(full=True).entities["mlModel"].updated == 1
    assert recipe.sink.removed() == set()
    assert recipe.sink.stored[gone]["ownership"]["owners"][0]["owner"] == PERSON


def test_a_run_that_the_search_does_not_find_is_removed_too(server: Server, recipe: Recipe) -> None:
    (gone,) = run_urns(1)
    server.store.runs = server.store.runs[1:]
    recipe.sink.not_indexed = {gone}
    recipe.ingest(full=True)
    assert recipe.sink.removed() == {gone}


def test_an_empty_listing_and_a_workspace_out_of_sight_are_noted(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = Recipe(server, f"sqlite:///{tmp_path}/state.db", workspace="team")
    recipe.ingest()
    monkeypatch.setattr(FakeReader, "is_gone", lambda *_: False)
    server.store.experiments, recipe.workspace = [], "default"
    for full in (False, True):
        report = recipe.ingest(full=full)
        assert report.note_examples["nothing_listed"][0].startswith("MLflow listed no experiment")
        (note,) = report.note_examples["unlisted_kept"]
        assert note.endswith(":team: 33 records of a source that this run did not list")
    assert recipe.sink.removed() == set()


def with_custom(aspect: Aspect, changes: dict[str, str]) -> dict[str, Any]:
    return {**aspect, "customProperties": {**aspect["customProperties"], **changes}}


# --- limits ---------------------------------------------------------------------------------------


def test_too_many_are_not_removed_at_all(server: Server, recipe: Recipe) -> None:
    del server.store.runs[:15]
    server.store.runs[0] = replace(server.store.runs[0], name="edited")
    for _ in range(2):
        report = over_limit(recipe, full=True)
        assert report.failure is not None
        assert "15 of 33 entities" in report.failure.message
        assert "max_removed_ratio (0.2)" in report.failure.message
        assert recipe.sink.removed() == set()
    (edited,) = run_urns(16)
    assert recipe.sink.stored[edited]["mlModelProperties"]["name"] == "edited"
    recipe.max_removed_ratio = 0.5
    assert recipe.ingest(full=True).entities["mlModel"].removed == 15


def test_the_trash_counts_too_also_in_a_pass_over_changes(server: Server, recipe: Recipe) -> None:
    for at in range(11):
        server.delete(at)
    over_limit(recipe)
    assert recipe.sink.removed() == set()
    server.restore(0)
    report = recipe.ingest()
    assert not report.passes[0].full
    assert recipe.sink.removed() == run_urns(*range(2, 12))
    for at in range(11):
        server.restore(at)
    recipe.ingest()
    assert recipe.sink.removed() == set()


def test_what_another_recipe_has_too_counts_before_its_entries_are_taken_back(
    server: Server, recipe: Recipe, tmp_path: Path
) -> None:
    two = Recipe(server, f"sqlite:///{tmp_path}/two.db", recipe.sink, name="two")
    two.ingest()
    for at in range(11):
        server.delete(at)
    before = copy.deepcopy(recipe.sink.stored)
    over_limit(recipe)
    assert recipe.sink.stored == before
    recipe.max_removed_ratio = 0.5
    recipe.ingest()
    assert recipe.sink.removed() == set()
    assert recipe.sink.stored != before
    two.ingest()
    assert recipe.sink.removed() == run_urns(*range(1, 12))


@pytest.mark.parametrize("beside", [None, Server()])
def test_what_is_over_the_limit_is_reported_again_by_whatever_run_comes_next(
    server: Server, recipe: Recipe, beside: Server | None
) -> None:
    recipe.beside = beside
    recipe.ingest()
    del server.store.runs[:15]
    over_limit(recipe, full=True)
    over_limit(recipe)
    recipe.max_removed_ratio = 0.5
    report = recipe.ingest()
    assert [one.full for one in report.passes] == [True, False][: len(report.passes)]
    assert recipe.sink.removed() == run_urns(*range(1, 16))
    assert not any(one.full for one in recipe.ingest().passes)


# --- renaming -------------------------------------------------------------------------------------

THEIRS: dict[str, Aspect] = {
    "ownership": {"owners": [{"owner": PERSON, "type": "TECHNICAL_OWNER"}]},
    "globalTags": {"tags": [{"tag": "urn:li:tag:theirs"}]},
    "domains": {"domains": ["urn:li:domain:risk"]},
    "glossaryTerms": {
        "terms": [{"urn": "urn:li:glossaryTerm:Fraud"}],
        "auditStamp": {"time": 1, "actor": PERSON},
    },
    "editableMlModelGroupProperties": {"description": "their words"},
}


def put_theirs(sink: FakeSink, urn: str) -> None:
    for name, aspect in THEIRS.items():
        sink.put(urn, name, aspect)
    home = sink.stored[urn]["mlModelGroupProperties"]
    sink.put(urn, "mlModelGroupProperties", with_custom(home, {"team": "risk"}))


@pytest.mark.parametrize("full", [False, True])
def test_a_renamed_experiment_takes_along_what_people_put_on_it(
    server: Server, recipe: Recipe, *, full: bool
) -> None:
    old, new = group_urn("fraud"), group_urn("renamed 1")
    put_theirs(recipe.sink, old)
    server.experiment(1, tags={"mlflow.user": "bob"})
    recipe.ingest()
    server.rename(1)
    recipe.ingest(full=full)
    assert recipe.sink.removed() == {old}
    for _ in range(2):
        stored = recipe.sink.stored[new]
        owners = {one["owner"] for one in stored["ownership"]["owners"]}
        assert owners == {PERSON, "urn:li:corpuser:bob"}
        for name in THEIRS.keys() - {"ownership"}:
            assert stored[name] == THEIRS[name]
        assert properties(recipe.sink, new)["team"] == "risk"
        assert properties(recipe.sink, new)["mlflow.experiment_id"] == "1"
        # Theirs on the new group too: what the source drops is ours alone.
        server.experiment(1, tags={"mlflow.user": "bob", "extra": "x"})
        recipe.ingest(full=True)
    for run in server.store.runs[:-1]:
        assert recipe.sink.stored[model_urn(run.run_id)]["mlModelProperties"]["groups"] == [new]


def test_an_old_group_that_could_not_be_removed_is_removed_by_the_next_run(
    server: Server, recipe: Recipe
) -> None:
    old = group_urn("fraud")
    server.rename(1)
    recipe.sink.refuse = [(old, "status")]
    for _ in range(2):
        assert recipe.report().exit_code == 4
    recipe.sink.refuse = ()
    recipe.ingest()
    assert recipe.sink.removed() == {old}
    assert not any(one.full for one in recipe.ingest().passes)


def test_a_group_with_models_of_others_stays_and_is_copied_once(
    server: Server, recipe: Recipe
) -> None:
    old, new = group_urn("fraud"), group_urn("renamed 1")
    put_theirs(recipe.sink, old)
    recipe.sink.put(model_urn("theirs"), "mlModelProperties", {"groups": [old]})
    server.rename(1)
    recipe.ingest()
    assert recipe.sink.removed() == set()
    assert recipe.sink.stored[new]["domains"] == THEIRS["domains"]
    recipe.sink.put(new, "domains", {"domains": []})
    recipe.ingest(full=True)
    assert recipe.sink.stored[new]["domains"] == {"domains": []}
    recipe.sink.put(model_urn("theirs"), "status", {"removed": True})
    recipe.ingest(full=True)
    assert recipe.sink.removed() == {old, model_urn("theirs")}


def test_a_name_given_back_and_taken_again_takes_along_what_was_put_on_it_meanwhile(
    server: Server, recipe: Recipe
) -> None:
    old, new = group_urn("fraud"), group_urn("renamed 1")
    for at, name in enumerate(("renamed 1", "fraud", "renamed 1")):
        recipe.sink.put(old, "domains", {"domains": [f"urn:li:domain:{at}"]})
        server.experiment(1, name=name)
        recipe.ingest()
    assert recipe.sink.removed() == {old}
    assert "urn:li:domain:2" in recipe.sink.stored[new]["domains"]["domains"]
    assert "mlcat.renamed_to" not in properties(recipe.sink, new)


# --- plans ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True])
def test_a_plan_shows_what_would_be_removed_and_copied_and_does_none_of_it(
    server: Server, recipe: Recipe, *, full: bool
) -> None:
    old, new = group_urn("fraud"), group_urn("renamed 1")
    put_theirs(recipe.sink, old)
    server.rename(1)
    server.delete(0)
    del server.store.runs[1]
    before = copy.deepcopy(recipe.sink.stored)
    with recipe.plan(full=full) as plan:
        planned = {one.urn: one for one in plan.entities()}
    assert recipe.sink.stored == before
    assert planned[old].action == "remove"
    assert planned[new].action == "create"
    assert {"domains", "globalTags"} <= {one.aspect for one in planned[new].aspects}
    gone = run_urns(1, 2) if full else run_urns(1)
    assert {u for u, one in planned.items() if one.action == "remove"} == {old, *gone}
    report = recipe.ingest(full=full)
    assert recipe.sink.removed() == {old, *gone}
    assert sum(one.written for one in report.entities.values()) == len(planned)


def test_a_plan_tells_that_too_many_would_be_removed(server: Server, recipe: Recipe) -> None:
    del server.store.runs[:15]
    with recipe.plan(full=True) as plan:
        assert isinstance(plan.report.error, LimitError)
        assert not [one for one in plan.entities() if one.action == "remove"]
