"""An object that was deleted and made anew under its name is another one: noted or cleared."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.applied import decode, fingerprint
from mlcat_ingest.pipeline.merge.provenance import is_reused, wrote_another
from mlcat_ingest.sources.mlflow.values.records import Metric, ModelVersion, RegisteredModel, Run
from support.fakes import FakeSink, group_urn, model_urn
from support.merging import Shelf
from support.mlflow_history import Recipe, Server

GROUP, VERSION, EXPERIMENT = group_urn("registered:churn"), model_urn("churn_1"), group_urn("fraud")
PEOPLES: dict[str, Aspect] = {
    "globalTags": {"tags": [{"tag": "urn:li:tag:approved"}]},
    "institutionalMemory": {"elements": [{"url": "https://w", "description": "review"}]},
}
DOCS = {
    GROUP: "editableMlModelGroupProperties",
    EXPERIMENT: "editableMlModelGroupProperties",
    VERSION: "editableMlModelProperties",
}


def register(server: Server, created_ms: int, run_id: str | None = None) -> None:
    server.store.registered = [RegisteredModel("churn", created_at_ms=created_ms)]
    server.store.versions = [ModelVersion("churn", "1", run_id, created_at_ms=created_ms)]


@pytest.fixture
def recipe(tmp_path: Path) -> Recipe:
    server = Server()
    register(server, 10)
    recipe = Recipe(server, f"sqlite:///{tmp_path}/state.db", FakeSink(place="fake://catalog"))
    recipe.ingest()
    for urn, docs in DOCS.items():
        for name, value in {**PEOPLES, docs: {"description": "reviewed"}}.items():
            recipe.sink.put(urn, name, value)
        main = main_aspect(urn)
        held = recipe.sink.stored[urn][main]
        custom = {**held["customProperties"], "reviewer": "ann"}
        recipe.sink.put(urn, main, {**held, "customProperties": custom})
    return recipe


def main_aspect(urn: str) -> str:
    return "mlModelProperties" if urn == VERSION else "mlModelGroupProperties"


def make_anew(recipe: Recipe, *, is_seen: bool) -> None:
    """Delete everything, let a pass see that or not, and make it again under the same names."""
    store = recipe.server.store
    experiment = store.experiments.pop(1)
    store.registered, store.versions = [], []
    if is_seen:
        recipe.ingest(full=True)
        assert recipe.sink.stored[VERSION]["status"]["removed"]
    store.experiments.append(replace(experiment, experiment_id="7", created_at_ms=700))
    register(recipe.server, 20)


def custom_of(recipe: Recipe, urn: str) -> dict[str, Any]:
    custom: dict[str, Any] = recipe.sink.stored[urn][main_aspect(urn)]["customProperties"]
    return custom


def entries(recipe: Recipe, urn: str) -> list[object]:
    """Return what people put on an entity."""
    aspects = recipe.sink.stored[urn]
    return [
        *(aspects.get("globalTags") or {}).get("tags", ()),
        *(aspects.get("institutionalMemory") or {}).get("elements", ()),
        *filter(None, [(aspects.get(DOCS[urn]) or {}).get("description")]),
        *filter(None, [custom_of(recipe, urn).get("reviewer")]),
    ]


@pytest.mark.parametrize("is_seen", [False, True])
def test_what_people_put_on_the_former_object_is_kept_and_marked(
    recipe: Recipe, *, is_seen: bool
) -> None:
    make_anew(recipe, is_seen=is_seen)
    assert recipe.ingest().notes["name_reused"] == 3
    for _ in range(2):
        for urn in DOCS:
            assert custom_of(recipe, urn)["mlcat.reused"] == "true"
            assert len(entries(recipe, urn)) == 4
            assert not recipe.sink.stored[urn].get("status", {}).get("removed")
        assert "name_reused" not in recipe.ingest(full=True).notes, "it is noted once"


@pytest.mark.parametrize("is_seen", [False, True])
@pytest.mark.parametrize("checks_versions", [False, True])
def test_what_people_put_on_the_former_object_can_be_cleared(
    recipe: Recipe, *, is_seen: bool, checks_versions: bool
) -> None:
    recipe.sink.checks_versions = checks_versions
    recipe.reused_names = "clear"
    make_anew(recipe, is_seen=is_seen)
    assert recipe.ingest().notes["name_reused"] == 3
    for urn in DOCS:
        assert entries(recipe, urn) == []
        assert "mlcat.reused" not in custom_of(recipe, urn)
        recipe.sink.put(urn, "globalTags", PEOPLES["globalTags"])
    recipe.ingest(full=True)
    assert [len(entries(recipe, urn)) for urn in DOCS] == [1, 1, 1], "of the object that is there"


@pytest.mark.parametrize("reused_names", ["keep", "clear"])
def test_an_edit_a_restored_object_and_a_moved_alias_reuse_no_name(
    recipe: Recipe, reused_names: str
) -> None:
    recipe.reused_names = reused_names
    server = recipe.server
    server.delete_experiment(1)
    recipe.ingest()
    server.restore_experiment(1)
    server.tag_version(1)
    server.move_alias(0)
    assert "name_reused" not in recipe.ingest(full=True).notes
    assert [len(entries(recipe, urn)) for urn in DOCS] == [4, 4, 4]


@pytest.mark.parametrize("reused_names", ["keep", "clear"])
def test_nothing_of_the_former_run_stays_where_the_new_one_is_not_read(
    recipe: Recipe, reused_names: str
) -> None:
    recipe.reused_names = reused_names
    register(recipe.server, 10, "a" * 32)
    metrics = [Metric("auc", 0.9, 1, 0)]
    run = Run("a" * 32, "1", user_id="ann", params={"depth": "3"}, metrics=metrics)
    recipe.server.store.runs = [run]
    recipe.ingest(full=True)
    held = recipe.sink.stored[VERSION]
    assert held["ownership"]["owners"]
    fields = ("hyperParams", "trainingMetrics")
    assert all(held["mlModelProperties"][name] for name in fields)
    assert held["mlModelProperties"]["created"]["actor"]
    register(recipe.server, 20, "b" * 32)
    recipe.ingest()
    held = recipe.sink.stored[VERSION]
    assert not held["ownership"]["owners"]
    assert not any(held["mlModelProperties"].get(name) for name in fields)
    assert held["mlModelProperties"]["created"] == {"time": 20}
    sent = recipe.ingest(full=True).proposals_sent
    assert sent == 0


def test_another_run_tells_two_versions_apart_where_no_time_is_known(recipe: Recipe) -> None:
    register(recipe.server, 0, "a" * 32)
    recipe.ingest()
    register(recipe.server, 0, "b" * 32)
    assert recipe.ingest().notes["name_reused"] == 1
    assert custom_of(recipe, VERSION)["mlcat.reused"] == "true"


def test_swapped_names_are_other_objects_under_both_names(recipe: Recipe) -> None:
    server = recipe.server
    server.store.experiments[0] = replace(server.store.experiments[0], name="fraud")
    server.store.experiments[1] = replace(server.store.experiments[1], name="Default")
    assert recipe.ingest().notes["name_reused"] == 2
    assert custom_of(recipe, EXPERIMENT)["mlflow.experiment_id"] == "0"
    assert "mlcat.renamed_to" not in custom_of(recipe, EXPERIMENT)


def test_a_base_tells_when_its_object_was_made() -> None:
    run, group = "mlModelProperties", "mlModelGroupProperties"
    older, same = ({"createdAt": fingerprint(at), "date": fingerprint(at)} for at in (1, 2))
    in_set = {"versionProperties": {"versionSet": "urn:li:versionSet:(a,mlModel)"}}
    made = Entity(GROUP, {group: {"createdAt": 2}})
    version = Entity(VERSION, {run: {"date": 2}, **in_set})
    assert wrote_another(made, {group: older})
    assert wrote_another(version, {run: older})
    assert not wrote_another(made, {group: same})
    assert not wrote_another(version, {run: same})
    assert not wrote_another(made, {})
    assert not wrote_another(Entity(GROUP, {}), {group: older})
    assert not wrote_another(Entity(model_urn("r"), {run: {"date": 2}}), {run: older})


def test_only_groups_and_versions_are_found_again_by_their_names() -> None:
    custom = {"mlcat.source": "mlflow:a:default"}
    run, group = "mlModelProperties", "mlModelGroupProperties"
    made = [{"customProperties": custom, "created": {"time": time}} for time in (1, 2)]
    held = {name: StoredAspect(made[0]) for name in (run, group)}
    assert is_reused(Entity(EXPERIMENT, {group: made[1]}), held)
    assert not is_reused(Entity(model_urn("r"), {run: made[1]}), held)
    assert not is_reused(Entity(EXPERIMENT, {group: made[1]}), {run: held[run]})
    assert not is_reused(Entity(EXPERIMENT, {"status": {"removed": False}}), held)


@pytest.mark.parametrize("order", ["ab", "ba"])
@pytest.mark.parametrize("lost", [False, True], ids=["kept", "lost"])
def test_each_recipe_takes_back_what_it_wrote_of_the_former_object(
    tmp_path: Path, order: str, *, lost: bool
) -> None:
    """`a` reads the former run alone, `b` both; a tool may drop the custom properties."""
    server, sink = Server(), FakeSink(place="fake://catalog")
    runs = [
        Run(one * 32, number, user_id=f"user-{one}", params={f"p-{one}": "1"})
        for one, number in (("a", "1"), ("b", "0"))
    ]
    server.store.runs = runs
    register(server, 10, runs[0].run_id)
    server.store.versions.append(ModelVersion("churn", "2", runs[0].run_id, created_at_ms=10))
    recipes = {
        name: Recipe(server, f"sqlite:///{tmp_path}/{name}.db", sink, config, name=name)
        for name, config in (("a", {"experiments": {"allow": ["^fraud$"]}}), ("b", {}))
    }
    for name in "ab":
        recipes[name].ingest(full=True)
    held = sink.stored[VERSION]["mlModelProperties"]
    if lost:
        sink.put(VERSION, "mlModelProperties", {**held, "customProperties": {"tool": "1"}})
    made_anew = ModelVersion("churn", "1", runs[1].run_id, created_at_ms=20)
    server.store.registered = [RegisteredModel("churn", created_at_ms=20)]
    server.store.versions[0] = made_anew
    for name in order:
        recipes[name].ingest(full=True)
    held = sink.stored[VERSION]
    assert [one["owner"] for one in held["ownership"]["owners"]] == ["urn:li:corpuser:user-b"]
    assert [one["name"] for one in held["mlModelProperties"]["hyperParams"]] == ["p-b"]
    assert held["mlModelProperties"]["created"]["actor"] == "urn:li:corpuser:user-b"


def test_aspects_that_only_the_former_object_had_lose_what_is_ours() -> None:
    def made(time: int, **aspects: Aspect) -> dict[str, Aspect]:
        properties = {"customProperties": {"mlcat.source": "mlflow:a:b"}, "created": {"time": time}}
        return {"mlModelGroupProperties": properties, **aspects}

    ours, theirs = ({"owner": f"urn:li:corpuser:{who}", "type": "NONE"} for who in ("bob", "ann"))
    instance = {"platform": "urn:li:dataPlatform:mlflow"}
    shelf = Shelf(GROUP)
    shelf.ingest(made(1, ownership={"owners": [ours]}, dataPlatformInstance=instance))
    shelf.edit("ownership", owners=[ours, theirs])
    shelf.put("institutionalMemory", PEOPLES["institutionalMemory"])
    shelf.ingest(made(2))
    assert shelf.aspects["ownership"]["owners"] == [theirs]
    assert "dataPlatformInstance" not in shelf.aspects
    assert shelf.aspects["institutionalMemory"] == PEOPLES["institutionalMemory"]
    held = shelf.field("customProperties", aspect="mlModelGroupProperties")
    assert decode(held["mlcat.applied.prod"]) == {
        "mlModelGroupProperties": {"created": fingerprint({"time": 2})}
    }


@pytest.mark.parametrize(("policy", "word"), [("keep", "is kept"), ("clear", "is cleared")])
def test_the_note_says_what_becomes_of_it(recipe: Recipe, policy: str, word: str) -> None:
    recipe.reused_names = policy
    make_anew(recipe, is_seen=True)
    assert word in recipe.ingest().note_examples["name_reused"][0]
