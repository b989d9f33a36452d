"""Datasets: ours while no other writer describes them, by the better of the runs that used them."""

from dataclasses import replace
from typing import Any

import pytest

from mlcat_ingest.metadata.identity import Writer, schema_hash
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.aspects import fold
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.retract import merge_or_leave, retract_entity, whole_entity
from mlcat_ingest.pipeline.merge.rules import UNION, MergeRules
from support.merging import RULES, US, Shelf

URN = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/train,PROD)"
PROPERTIES, SCHEMA, STATUS = "datasetProperties", "schemaMetadata", "status"
OTHER = MergeRules(Writer("other"))
GONE = Entity(URN, {**whole_entity(URN).aspects, STATUS: {"removed": True}})
THEIRS = {"customProperties": {"w": "1"}, "name": "TRAIN"}


def schema(*names: str, mark: str | None = None) -> Aspect:
    fields = [{"fieldPath": name} for name in names]
    return {"fields": fields, "hash": schema_hash(fields) if mark is None else mark}


def run(at: int, *columns: str, server: str = "1") -> Entity:
    """Return the dataset as a run of that time tells of it, with the columns that it logged."""
    custom = {"mlcat.described_by": str(at), "mlcat.source": f"mlflow:{server}:", "at": str(at)}
    aspects: dict[str, Aspect] = {PROPERTIES: {"name": "train", "customProperties": custom}}
    return Entity(URN, {SCHEMA: schema(*columns), **aspects} if columns else aspects)


def ingest(shelf: Shelf, entity: Entity, rules: MergeRules = RULES, **options: Any) -> MergedEntity:
    return shelf.write(merge_or_leave(entity, shelf.stored(), rules, **options))


def retract(shelf: Shelf) -> MergedEntity:
    return shelf.write(retract_entity(whole_entity(URN), shelf.stored(), writer=US))


def ingested(*runs: Entity, rules: MergeRules = RULES) -> Shelf:
    shelf = Shelf(URN)
    for one in runs or (run(1, "a"),):
        ingest(shelf, one, rules)
    return shelf


@pytest.mark.parametrize(
    ("earlier", "later", "best"),
    [
        (run(1, "a"), run(2, "b"), "2"),
        (run(2, "a"), run(1, "b"), "2"),
        (run(1, "a"), run(2), "1"),
        (run(2), run(1, "a"), "1"),
        (run(2), run(1), "2"),
    ],
)
def test_the_better_description_stays(earlier: Entity, later: Entity, best: str) -> None:
    for shelf in (ingested(earlier, later), ingested(fold(earlier, later))):
        assert shelf.field("customProperties", aspect=PROPERTIES)["at"] == best
        columns = (
            earlier if best == earlier.aspects[PROPERTIES]["customProperties"]["at"] else later
        )
        assert shelf.aspects.get(SCHEMA) == columns.aspects.get(SCHEMA)


def after_trash(entity: Entity, *marks: str) -> Entity:
    """Return a dataset of which the runs of these times are in the trash."""
    custom = {"mlcat.described_by": "\n".join(marks)}
    return replace(entity, formerly={PROPERTIES: {"customProperties": custom}})


@pytest.mark.parametrize("better", [run(2, "b"), run(2)])
@pytest.mark.parametrize("left", [run(1, "a"), run(1)])
def test_the_description_of_a_run_in_the_trash_goes(better: Entity, left: Entity) -> None:
    shelf = ingested(better)
    assert ingest(shelf, left).change == (
        "unchanged" if better.aspects.keys() >= left.aspects.keys() else "updated"
    )
    shelf = ingested(better)
    assert ingest(shelf, after_trash(left, "0", "2")).change == "updated"
    assert shelf.field("customProperties", aspect=PROPERTIES)["at"] == "1"
    assert shelf.aspects.get(SCHEMA) == left.aspects.get(SCHEMA)
    assert ingest(shelf, after_trash(left, "0", "2")).proposals == ()
    assert retract(shelf).change == "removed"
    assert shelf.aspects == {STATUS: {"removed": True}}


def test_a_description_of_a_run_that_is_there_stays_whatever_is_in_the_trash() -> None:
    shelf = ingested(run(5, "a"))
    for marks in (("3", "7"), ("",)):
        assert ingest(shelf, after_trash(run(1, "b"), *marks)).proposals == ()
    shelf.put(PROPERTIES, {"name": "x"})
    assert ingest(shelf, after_trash(run(1, "b"), "")).change == "left_out"


def test_a_run_says_again_what_changed_of_it() -> None:
    shelf = ingested()
    assert ingest(shelf, run(1, "b")).change == "updated"
    assert ingest(shelf, run(1, "b")).change == "unchanged"
    assert ingest(shelf, run(0, "b")).stored == shelf.stored()


def test_the_runs_of_two_servers_share_a_dataset() -> None:
    shelf = ingested(run(1), run(2, server="2"))
    custom = shelf.field("customProperties", aspect=PROPERTIES)
    assert custom["mlcat.source"] == "mlflow:1:,mlflow:2:"


@pytest.mark.parametrize(
    ("others", "left"),
    [
        ({SCHEMA: schema("a", mark="")}, {SCHEMA}),
        ({PROPERTIES: THEIRS}, {PROPERTIES}),
        ({PROPERTIES: {"customProperties": {}}}, {PROPERTIES}),
        ({PROPERTIES: {**THEIRS, "customProperties": {"mlcat.applied.prod": "2:"}}}, {PROPERTIES}),
        ({PROPERTIES: {"customProperties": {"mlcat.applied.prod": "2:"}}}, set()),
    ],
)
def test_what_is_ours_goes_where_another_writer_describes_a_dataset(
    others: dict[str, Aspect], left: set[str]
) -> None:
    shelf = ingested()
    shelf.aspects |= others
    assert ingest(shelf, run(9, "z")).change == "left_out"
    assert shelf.aspects.keys() == left
    if left:
        assert ingest(shelf, run(9, "z")).proposals == ()


@pytest.mark.parametrize(
    ("fields", "is_theirs"),
    [
        ({"name": "TRAIN"}, True),
        ({"description": "theirs"}, True),
        ({"customProperties": {"w": "1"}}, True),
        ({"description": "", "tags": []}, True),
        ({"tags": [], "customProperties": {"mlcat.other": "1"}}, False),
    ],
)
def test_a_value_that_no_recipe_applied_makes_a_dataset_anothers(
    fields: dict[str, Any], *, is_theirs: bool
) -> None:
    shelf = ingested()
    held = shelf.aspects[PROPERTIES]
    custom = held["customProperties"] | fields.get("customProperties", {})
    shelf.put(PROPERTIES, {**held, **fields, "customProperties": custom})
    assert (ingest(shelf, run(1, "a")).change == "left_out") == is_theirs
    assert (SCHEMA not in shelf.aspects) == is_theirs


def test_without_a_base_or_a_look_at_the_catalog_a_dataset_is_left_out() -> None:
    shelf = Shelf(URN)
    for merged in (ingest(shelf, run(1), UNION), ingest(shelf, run(1), can_read=False)):
        assert (merged.change, merged.proposals) == ("left_out", ())
    reference = Entity(URN, {STATUS: {"removed": False}}, only_if_absent=True)
    assert ingest(shelf, reference, UNION).change == "created"


def test_a_mark_of_removal_is_nobodys_and_goes_with_the_next_run() -> None:
    shelf = ingested()
    assert ingest(shelf, GONE).change == "removed"
    assert shelf.aspects == {STATUS: {"removed": True}}
    assert ingest(shelf, run(1, "a")).change == "updated"
    assert shelf.aspects.keys() == {SCHEMA, PROPERTIES}
    shelf.put(STATUS, {"removed": True})
    assert ingest(shelf, run(0)).change == "updated"
    assert shelf.aspects.keys() == {SCHEMA, PROPERTIES}


def test_a_status_of_others_stays_as_it_is() -> None:
    shelf = ingested()
    shelf.put(STATUS, {"removed": False})
    ingest(shelf, run(2, "a"))
    assert retract(shelf).change == "updated"
    assert shelf.aspects == {STATUS: {"removed": False}}


def test_the_schema_stays_with_the_last_recipe() -> None:
    shelf = ingested()
    ingest(shelf, run(0), OTHER)
    ingest(shelf, run(2, "a"), OTHER)
    retract(shelf)
    assert shelf.aspects.keys() == {SCHEMA, PROPERTIES}
    assert ingest(shelf, GONE, OTHER).change == "removed"
    assert shelf.aspects == {STATUS: {"removed": True}}


def test_what_has_our_schema_alone_is_removed_by_a_retraction() -> None:
    shelf = ingested()
    del shelf.aspects[PROPERTIES]
    assert (retract(shelf).change, shelf.aspects) == ("removed", {STATUS: {"removed": True}})


def test_a_retraction_takes_our_schema_from_what_others_describe_and_no_other() -> None:
    shelf = ingested()
    shelf.put(PROPERTIES, THEIRS)
    remembered = ingested(Entity(URN, {PROPERTIES: THEIRS}))
    text = remembered.field("customProperties", aspect=PROPERTIES)["mlcat.applied.prod"]

    def again() -> MergedEntity:
        stored = shelf.stored()
        return retract_entity(whole_entity(URN), stored, writer=US, remembered=lambda _: text)

    assert shelf.write(again()).change == "updated"
    assert shelf.aspects == {PROPERTIES: THEIRS}
    shelf.put(SCHEMA, schema("a", mark=""))
    assert again().proposals == ()
