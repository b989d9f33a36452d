"""`--changes`: the changes that a run's writes made, and the plan before it announced."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.cli.main import call
from support import small_store
from support.catalog_server import running_catalog
from support.machine import needs_dev_full
from support.small_store import GROUP, A, B, C, SmallStore

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::datahub.errors.ExperimentalWarning"),
]

Record = dict[str, Any]

RULES = "enrich: [{match: {entity: mlModel}, add_tags: [shipped]}]\n"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SmallStore]:
    with running_catalog(tmp_path / "served.db") as catalog:
        yield small_store.make(tmp_path, catalog.url)


def changes_of(store: SmallStore, *words: str) -> list[Record]:
    file = store.folder / "changes.jsonl"
    assert call([*words, "--changes", str(file)]) == 0
    return [json.loads(line) for line in file.read_text().splitlines()]


def planned(capfd: pytest.CaptureFixture[str], *words: str) -> list[Record]:
    """Return what `plan --json` prints, an entry a record, without names and reasons."""
    capfd.readouterr()
    assert call(["plan", *words, "--json"]) == 0
    *entities, _ = map(json.loads, capfd.readouterr().out.splitlines())
    return sorted_records(record for one in entities for record in _flat(one))


def _flat(entity: Record) -> Iterator[Record]:
    urn = {"urn": entity["urn"]}
    if entity["action"] in {"remove", "revive"}:
        gone = entity["action"] == "remove"
        yield {**urn, "aspect": "status", "field": "removed", "before": not gone, "after": gone}
    for aspect, content in entity["aspects"].items():
        for field, diff in content["fields"].items():
            place = {**urn, "aspect": aspect, "field": field}
            if not diff.keys() & {"added", "removed", "changed"}:
                yield {**place, **_sides(diff)}
            for label, value in diff.get("added", {}).items():
                yield {**place, "entry": label, "after": value}
            for label, value in diff.get("removed", {}).items():
                yield {**place, "entry": label, "before": value}
            for label, pair in diff.get("changed", {}).items():
                yield {**place, "entry": label, **_sides(pair)}


def _sides(pair: Record) -> Record:
    names = {"old": "before", "new": "after"}
    return {names[name]: value for name, value in pair.items()}


def sorted_records(records: Any) -> list[Record]:
    return sorted(records, key=lambda one: json.dumps(one, sort_keys=True))


def bare(records: list[Record]) -> list[Record]:
    shown = [{k: v for k, v in one.items() if k not in {"name", "why"}} for one in records]
    return sorted_records(shown)


def reasons(records: list[Record], urn: str) -> dict[tuple[str, str, str | None], str]:
    return {
        (one["aspect"], one["field"], one.get("entry")): one["why"]
        for one in records
        if one["urn"] == urn
    }


def edit(store: SmallStore, urn: str, **lists: Any) -> None:
    """Change the tags and the properties of a model as another writer does, by DataHub's SDK."""
    emitter = pytest.importorskip("datahub.emitter.rest_emitter")
    mcp = pytest.importorskip("datahub.emitter.mcp")
    schema = pytest.importorskip("datahub.metadata.schema_classes")
    properties = store.stored(urn)[urn]["mlModelProperties"]
    aspect = schema.MLModelPropertiesClass.from_obj({**properties, **lists})
    tags = schema.GlobalTagsClass(tags=[schema.TagAssociationClass(tag="urn:li:tag:theirs")])
    with emitter.DatahubRestEmitter(store.server) as rest:
        for each in (aspect, tags):
            rest.emit_mcp(mcp.MetadataChangeProposalWrapper(entityUrn=urn, aspect=each))


def test_a_run_writes_the_changes_that_its_plan_announced(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe(more=RULES)
    before = planned(capfd, recipe)
    announced = changes_of(store, "plan", recipe)
    assert store.stored(A)[A] == {}
    made = changes_of(store, recipe, "-q")
    assert sorted_records(made) == sorted_records(announced)
    assert bare(made) == before
    why = reasons(made, A)
    assert why["mlModelProperties", "hyperParams", "lr"] == "new at the source"
    tag = ("globalTags", "tags", "urn:li:tag:shipped")
    assert why[tag] == "rule of the recipe: enrich[0].add_tags"
    assert {one["why"] for one in made if one["urn"] == tag[2]} == {"referenced by another entity"}
    assert {one["name"] for one in made if one["urn"] == A} == {"run a (churn)"}
    assert not any("mlcat.applied" in json.dumps(one) for one in made)
    assert changes_of(store, recipe, "-q", "--full") == []


def test_changes_beside_the_edits_of_another_writer(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe(more=RULES)
    assert call([recipe, "-q"]) == 0
    params = [{"name": "lr", "value": "0.1"}, {"name": "theirs", "value": "1"}]
    edit(store, A, hyperParams=params, description="theirs")
    store.change("UPDATE params SET value = '9' WHERE run_uuid = 'a' AND key = 'lr'")
    store.add_run("c", lr="1")
    before = planned(capfd, recipe, "--full")
    made = changes_of(store, recipe, "-q", "--full")
    assert bare(made) == before
    assert {one["urn"] for one in made} == {A, C}
    records = {(one["field"], one.get("entry")): one for one in made if one["urn"] == A}
    lr = records["hyperParams", "lr"]
    assert (lr["before"]["value"], lr["after"]["value"]) == ("0.1", "9")
    assert lr["why"] == "changed at the source"
    depth = records["hyperParams", "depth"]
    assert "before" not in depth
    by_others = "changed by others, unchanged at the source"
    assert depth["why"] == records["tags", "urn:li:tag:shipped"]["why"] == by_others
    assert len(records) == 3  # what the other writer added is as it was


def test_a_removal_and_a_return_are_changes(
    store: SmallStore, capfd: pytest.CaptureFixture[str]
) -> None:
    recipe = store.recipe(more=RULES)
    assert call([recipe, "-q"]) == 0
    store.change("UPDATE runs SET lifecycle_stage = 'deleted' WHERE run_uuid = 'b'")
    before = planned(capfd, recipe, "--full")
    gone = changes_of(store, recipe, "-q", "--full")
    assert bare(gone) == before
    (status,) = [one for one in gone if one["aspect"] == "status"]
    removed = {"aspect": "status", "field": "removed", "before": False, "after": True}
    why = "deleted at the source"
    assert status == {"urn": B, "name": "run b (churn)", **removed, "why": why}
    store.change("UPDATE runs SET lifecycle_stage = 'active' WHERE run_uuid = 'b'")
    back = changes_of(store, recipe, "-q", "--full")
    assert reasons(back, B)["status", "removed", None] == "restored at the source"


def test_a_rule_that_is_gone_and_an_experiment_with_another_name(store: SmallStore) -> None:
    assert call([store.recipe(more=RULES), "-q"]) == 0
    store.put(GROUP, globalTags={"tags": [{"tag": "urn:li:tag:theirs"}]})
    store.change("UPDATE experiments SET name = 'churn 2'")
    made = changes_of(store, store.recipe(), "-q", "--full")
    untagged = reasons(made, A)["globalTags", "tags", "urn:li:tag:shipped"]
    assert untagged == "no longer at the source or in a rule of the recipe"
    renamed = {(one["aspect"], one["urn"] == GROUP) for one in made if one["why"] == "renamed"}
    assert renamed == {("globalTags", False), ("status", True)}


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
