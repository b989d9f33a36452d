"""Entities without custom properties: the state has their bases."""

from typing import Any

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.entity import bases_of, merge_entity, with_applied_of
from mlcat_ingest.pipeline.merge.retract import retract_entity, whole_entity
from mlcat_ingest.pipeline.merge.rules import BASE_IN_STATE
from support.fakes import model_urn
from support.merging import HOME, RULES, US

TOOL = "urn:li:api:mlflow:a/b/t"
NAME = "apiProperties"


def tags(*names: str) -> dict[str, Any]:
    return {"tags": [{"tag": f"urn:li:tag:{name}"} for name in names]}


def stored(**aspects: Any) -> dict[str, StoredAspect]:
    return {name: StoredAspect(value, "1") for name, value in aspects.items()}


def entity(*names: str, **properties: Any) -> Entity:
    return Entity(TOOL, {NAME: {"name": "t", **properties}, "globalTags": tags(*names)})


FIRST = merge_entity(entity("ours", description="d"), None, RULES)
BASE = bases_of([FIRST])


def test_the_base_is_in_no_aspect_and_goes_to_the_state() -> None:
    assert {one.aspect_name: one.aspect for one in FIRST.proposals} == {
        NAME: {"name": "t", "description": "d"},
        "globalTags": tags("ours"),
    }
    assert BASE[TOOL].startswith("2:")
    assert merge_entity(Entity(model_urn("m"), {HOME: {"name": "m"}}), None, RULES).base == ""


def test_what_is_ours_goes_and_what_is_of_others_stays() -> None:
    held = stored(**{NAME: {"name": "t", "description": "d"}, "globalTags": tags("ours", "theirs")})
    merged = merge_entity(entity(description=None), held, RULES, BASE.get)
    assert {one.aspect_name: one.aspect for one in merged.proposals} == {
        NAME: {"name": "t"},
        "globalTags": tags("theirs"),
    }
    assert not merged.without_base
    assert bases_of([merged])[TOOL] != BASE[TOOL]
    same = merge_entity(entity("ours", description="d"), held, RULES, BASE.get)
    assert same.proposals == ()
    assert bases_of([same]) == BASE


def test_a_removal_keeps_the_base() -> None:
    gone = Entity(TOOL, {"status": {"removed": True}})
    merged = merge_entity(gone, stored(**{NAME: {"name": "t"}}), RULES, BASE.get)
    assert merged.change == "removed"
    assert bases_of([merged]) == BASE


def test_without_a_state_nothing_is_taken_away() -> None:
    held = stored(**{NAME: {"name": "t"}, "globalTags": tags("ours")})
    merged = merge_entity(entity(), held, RULES)
    assert merged.proposals == ()
    assert merged.without_base


def test_a_retraction_leaves_what_is_of_others_and_adds_no_field() -> None:
    held = stored(**{NAME: {"name": "t", "externalUrl": "x"}, "globalTags": tags("ours", "theirs")})
    found = retract_entity(whole_entity(TOOL), held, writer=US, remembered=BASE.get)
    assert {one.aspect_name: one.aspect for one in found.proposals} == {
        "globalTags": tags("theirs")
    }
    alone = retract_entity(
        whole_entity(TOOL), stored(**{NAME: {"name": "t"}}), writer=US, remembered=BASE.get
    )
    assert {one.aspect_name: one.change_type for one in alone.proposals} == {
        NAME: "DELETE",
        "status": "UPSERT",
    }
    assert retract_entity(whole_entity(TOOL), held, writer=US).proposals == ()


def test_a_merge_after_a_conflict_adds_no_field() -> None:
    now = stored(**{NAME: {"name": "t"}})
    assert with_applied_of(FIRST, now) == now


def test_these_types_have_their_base_in_the_state() -> None:
    assert set(BASE_IN_STATE) == {"api", "agentSkill", "aiAgent"}
