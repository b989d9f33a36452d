"""The merge of whole entities: what is written, in which order, and what it is called."""

import math
import re

import pytest

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.pipeline.merge.applied import decode, encode, fingerprint, text_of_keys
from mlcat_ingest.pipeline.merge.aspects import fold
from mlcat_ingest.pipeline.merge.entity import MergedEntity, merge_entity, with_applied_of
from mlcat_ingest.pipeline.merge.provenance import refuse_second_store, with_all_sources
from support.fakes import group_urn, model_urn
from support.merging import HOME, RULES, Shelf

URN = model_urn("r1")
A, B = map(group_urn, "ab")


def stored(**aspects: Aspect) -> dict[str, StoredAspect]:
    return {name: StoredAspect(value) for name, value in aspects.items()}


def test_properties_are_written_last_and_carry_the_base() -> None:
    entity = Entity(
        URN,
        {HOME: {"name": "n"}, "ownership": {"owners": [{"owner": "o"}]}, "sourceCode": {}},
    )
    merged = merge_entity(entity, None, RULES)
    assert [one.aspect_name for one in merged.proposals] == ["ownership", "sourceCode", HOME]
    base = decode(merged.proposals[-1].aspect["customProperties"]["mlcat.applied.prod"])
    assert base == {
        HOME: {"name": fingerprint("n")},
        "ownership": {"owners": text_of_keys((("o", None, None, None),))},
    }
    assert (merged.urn, merged.change) == (URN, "created")


def test_an_aspect_that_has_no_json_is_merged_to_be_refused_when_it_is_written() -> None:
    entity = Entity(URN, {HOME: {"name": "n"}, "ownership": {"owners": [{"owner": math.inf}]}})
    merged = merge_entity(entity, None, RULES)
    assert [one.aspect_name for one in merged.proposals] == ["ownership", HOME]
    assert merged.proposals[0].aspect == entity.aspects["ownership"]


@pytest.mark.parametrize("text", [None, "1 {", "3"])
def test_a_remembered_base_goes_back_to_an_entity_that_is_equal_in_all_else(
    text: str | None,
) -> None:
    custom = {} if text is None else {"mlcat.applied.prod": text}
    held = {HOME: {"groups": [A], "customProperties": {"reviewed": "yes", **custom}}}
    base = encode({HOME: {"groups": text_of_keys((A,))}})
    entity = Entity(URN, {HOME: {"groups": [A]}})
    merged = merge_entity(entity, stored(**held), RULES, lambda _: base)
    assert not merged.without_base
    [proposal] = merged.proposals
    assert proposal.aspect["customProperties"] == {"reviewed": "yes", "mlcat.applied.prod": base}


def test_empty_aspects_are_not_written_for_what_has_none() -> None:
    entity = Entity(URN, {"globalTags": {"tags": []}, "status": {"removed": False}})
    assert merge_entity(entity, None, RULES).proposals == ()
    assert merge_entity(entity, None, RULES).change == "unchanged"
    named = Entity(URN, {"globalTags": {"tags": []}, HOME: {"name": "n", "description": None}})
    [proposal] = merge_entity(named, None, RULES).proposals
    assert list(proposal.aspect) == ["name", "customProperties"]


@pytest.mark.parametrize("message", [{}, {"description": None}])
def test_an_entity_of_which_nothing_is_reported_is_there_all_the_same(message: Aspect) -> None:
    merged = merge_entity(Entity(URN, {HOME: message}), None, RULES)
    assert [one.aspect for one in merged.proposals] == [
        {"customProperties": {"mlcat.applied.prod": "2:"}}
    ]
    assert merged.change == "created"


def test_an_entity_without_a_word_about_its_properties_has_a_base_all_the_same() -> None:
    shelf = Shelf()
    shelf.ingest({"globalTags": {"tags": [{"tag": "t"}]}})
    assert list(shelf.aspects) == ["globalTags", HOME]
    assert list(shelf.base()) == ["globalTags"]
    shelf.ingest({"globalTags": {"tags": []}})
    assert shelf.aspects["globalTags"] == {"tags": []}


def test_what_changes_nothing_is_not_written() -> None:
    shelf = Shelf()
    message: dict[str, Aspect] = {
        HOME: {"groups": [A]},
        "ownership": {"owners": [{"owner": "o"}]},
    }
    shelf.ingest(message)
    shelf.edit(HOME, groups=[A, B])
    shelf.edit("ownership", owners=[{"owner": "o"}, {"owner": "p"}])
    merged = shelf.ingest(message)
    assert (merged.change, merged.proposals) == ("unchanged", ())


def test_only_aspects_that_change_are_written() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"groups": [A]}, "ownership": {"owners": [{"owner": "o"}]}})
    merged = shelf.ingest({HOME: {"groups": [A]}, "ownership": {"owners": [{"owner": "p"}]}})
    assert merged.change == "updated"
    assert [one.aspect_name for one in merged.proposals] == ["ownership", HOME]
    again = shelf.ingest(
        {HOME: {"groups": [A], "name": "n"}, "ownership": {"owners": [{"owner": "p"}]}}
    )
    assert [one.aspect_name for one in again.proposals] == [HOME]


def test_what_is_written_waits_for_the_version_that_was_read() -> None:
    entity = Entity(URN, {"ownership": {"owners": [{"owner": "o"}]}, HOME: {"name": "n"}})
    first = merge_entity(entity, None, RULES)
    assert [one.headers for one in first.proposals] == [{"If-Version-Match": "-1"}] * 2
    held = {
        HOME: StoredAspect({"name": "m"}, "7"),
        "ownership": StoredAspect({"owners": []}),
    }
    second = merge_entity(entity, held, RULES)
    assert [one.headers for one in second.proposals] == [
        {"If-Version-Match": "1"},  # no version is told: DataHub takes it for the first
        {"If-Version-Match": "7"},
    ]
    assert second.stored is held


@pytest.mark.parametrize(
    ("before", "fresh", "written"),
    [
        (None, {"removed": False}, None),
        (None, {"removed": True}, {"removed": True}),
        ({}, {"removed": True}, {"removed": True}),
        ({"removed": False}, {"removed": False}, None),
        ({"removed": True}, {"removed": True}, None),
        ({"removed": True, "more": 1}, {"removed": False}, {"removed": False, "more": 1}),
    ],
)
def test_a_status_is_written_only_to_remove_and_to_revive(
    before: Aspect | None, fresh: Aspect, written: Aspect | None
) -> None:
    held = stored(mlModelProperties={"name": "n"})
    if before is not None:
        held["status"] = StoredAspect(before)
    merged = merge_entity(Entity(URN, {"status": fresh}), held, RULES)
    assert [one.aspect for one in merged.proposals] == ([] if written is None else [written])
    outcome = "removed" if fresh["removed"] else "updated"
    assert merged.change == ("unchanged" if written is None else outcome)
    assert not merged.without_base


@pytest.mark.parametrize("urn", [URN, "urn:li:tag:t"])
def test_an_entity_that_is_first_seen_removed_is_left_out(urn: str) -> None:
    entity = Entity(urn, {"status": {"removed": True}, HOME: {"name": "n"}})
    merged = merge_entity(entity, None, RULES)
    assert merged.change == "left_out"
    assert merged.proposals == ()


def test_an_entity_merely_referred_to_is_only_created() -> None:
    entity = Entity("urn:li:tag:t", {"tagProperties": {"name": "t"}}, only_if_absent=True)
    created = merge_entity(entity, {}, RULES)
    assert created.change == "created"
    assert [(one.aspect, one.headers) for one in created.proposals] == [
        ({"name": "t"}, {"If-Version-Match": "-1"})
    ]
    held = stored(tagKey={"name": "t"})
    assert merge_entity(entity, held, RULES).change == "unchanged"


def test_an_entity_whose_type_has_no_place_for_a_base_is_only_created() -> None:
    entity = Entity("urn:li:corpuser:u", {"corpUserInfo": {"active": True}, "status": {"x": []}})
    [proposal] = merge_entity(entity, None, RULES).proposals
    assert proposal.aspect == {"active": True}
    assert merge_entity(entity, stored(corpUserKey={}), RULES).change == "unchanged"


@pytest.mark.parametrize("text", ["mlflow:b:", "mlflow:b:team", "feast:x:,mlflow:b:"])
def test_two_servers_of_one_type_do_not_share_a_urn(text: str) -> None:
    entity = Entity(URN, {HOME: {"customProperties": {"mlcat.source": text}}})
    held = stored(mlModelProperties={"customProperties": {"mlcat.source": "mlflow:a:"}})
    with pytest.raises(RecipeError, match="set `instance: NAME`"):
        merge_entity(entity, held, RULES)


def test_sources_of_different_types_share_a_urn() -> None:
    shelf = Shelf()
    shelf.put(HOME, {"customProperties": {"mlcat.source": "mlflow:a:"}})
    shelf.ingest({HOME: {"customProperties": {"mlcat.source": "feast:f:"}}})
    assert shelf.custom() == {"mlcat.source": "mlflow:a:,feast:f:"}
    merged = shelf.ingest({HOME: {"customProperties": {"mlcat.source": "feast:f:"}}})
    assert merged.change == "unchanged"


def test_a_feature_is_of_one_store_only_unless_the_other_gave_it_up() -> None:
    theirs = {"mlFeatureProperties": {"customProperties": {"mlcat.source": "feast:a:"}}}
    ours = {"mlFeatureProperties": {"customProperties": {"mlcat.source": "definitions:b:"}}}
    entity = Entity("urn:li:mlFeature:(n.t,f)", {**ours, "status": {"removed": False}})
    with pytest.raises(RecipeError, match=r"feast:a: and definitions:b:.*`namespace_prefix`"):
        merge_entity(entity, stored(**theirs), RULES)
    with pytest.raises(RecipeError, match="`namespace_prefix`"):
        fold(Entity(entity.urn, theirs), entity)
    given_up = stored(**theirs, status={"removed": True})
    *_, last = merge_entity(entity, given_up, RULES).proposals
    assert last.aspect["customProperties"]["mlcat.source"] == "definitions:b:"


def test_the_browse_path_is_deleted_where_nothing_is_left_of_it() -> None:
    urn = "urn:li:mlFeatureTable:(urn:li:dataPlatform:x,n.t)"
    home = {"mlFeatureTableProperties": {"customProperties": {"mlcat.source": "x:a:"}}}
    path = {"browsePathsV2": {"path": [{"id": "n"}]}}
    made = merge_entity(Entity(urn, {**path, **home}), None, RULES)
    held = stored(**{one.aspect_name: one.aspect for one in made.proposals})
    gone = Entity(urn, {"browsePathsV2": {"path": None}, **home})
    first, _ = merge_entity(gone, held, RULES).proposals
    assert (first.aspect_name, first.change_type) == ("browsePathsV2", "DELETE")


def test_two_workspaces_of_one_server_are_both_named() -> None:
    shelf = Shelf()
    for source in ("mlflow:a:x", "mlflow:a:y", "definitions:b"):
        shelf.ingest({HOME: {"customProperties": {"mlcat.source": source}}})
    assert shelf.custom() == {"mlcat.source": "mlflow:a:x,mlflow:a:y,definitions:b"}
    message = r"in the catalog already, from another mlflow server \(a; this one is b\) \(for a se"
    with pytest.raises(RecipeError, match=message):
        shelf.ingest({HOME: {"customProperties": {"mlcat.source": "mlflow:b:x"}}})


@pytest.mark.parametrize("entity_type", ["mlFeatureTable", "mlFeature", "mlPrimaryKey"])
def test_of_feature_stores_one_alone_may_have_an_entity(entity_type: str) -> None:
    fresh = {"customProperties": {"mlcat.source": "sagemaker:a:"}}
    message = "two feature stores have the same name for .* set `server_id` to db:5432"
    with pytest.raises(RecipeError, match=rf"{message}\)$"):
        with_all_sources(
            f"urn:li:{entity_type}:(a,b)",
            fresh,
            {"mlcat.source": "feast:db%3A5432:lab,feast:other:lab"},
        )


@pytest.mark.parametrize("stored_source", [None, "feast:f:"])
def test_a_table_of_the_same_store_or_of_none_is_not_refused(stored_source: object) -> None:
    refuse_second_store(URN, stored_source, "feast:f:")


@pytest.mark.parametrize("copied", [{}, {"mlcat.copied_to": "urn:li:x"}])
def test_an_old_group_that_is_read_again_is_no_longer_renamed(copied: dict[str, str]) -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"name": "n"}})
    marks = {"mlcat.renamed_to": "urn:li:x", **copied}
    shelf.edit(HOME, customProperties={**shelf.field("customProperties"), **marks})
    shelf.ingest({"globalTags": {"tags": [{"tag": "a"}]}})
    assert shelf.custom() == marks
    shelf.ingest({HOME: {"name": "n"}})
    assert shelf.custom() == {}


def test_custom_properties_that_are_none_have_no_base() -> None:
    shelf = Shelf()
    shelf.put(HOME, {"customProperties": ["odd"]})
    assert shelf.ingest({HOME: {"name": "n"}}).without_base
    assert list(shelf.base()) == [HOME]


def test_an_aspect_that_only_adds_takes_nothing_away() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {}, "globalTags": {"tags": [{"tag": "a"}]}})
    adding = Entity(
        shelf.urn,
        {HOME: {}, "globalTags": {"tags": [{"tag": "b"}]}},
        adds_only=frozenset({"globalTags"}),
    )
    shelf.write(merge_entity(adding, shelf.stored(), RULES))
    assert shelf.aspects["globalTags"] == {"tags": [{"tag": "a"}, {"tag": "b"}]}


def test_an_entity_that_is_removed_with_changes_counts_as_removed() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"name": "n"}})
    removed: dict[str, Aspect] = {
        "globalTags": {"tags": [{"tag": "a"}]},
        "status": {"removed": True},
    }
    merged = shelf.ingest({HOME: {"name": "n"}, **removed})
    assert merged.change == "removed"
    assert merged.is_removed
    assert not shelf.ingest({HOME: {"name": "n"}}).is_removed


def test_a_field_that_was_not_read_keeps_its_base_though_somebody_deleted_the_aspect() -> None:
    shelf = Shelf()
    uses = {"primaryUses": ["a"], "primaryUsers": ["ENTERPRISE"]}
    shelf.ingest({HOME: {}, "intendedUse": uses})
    before = shelf.base()["intendedUse"]
    del shelf.aspects["intendedUse"]
    shelf.ingest({HOME: {}, "intendedUse": {"primaryUses": []}})
    assert shelf.base()["intendedUse"] == {"primaryUsers": before["primaryUsers"]}


def test_a_reference_is_merged_with_what_is_stored() -> None:
    held = stored(mlModelProperties={"name": "n"})
    reference = Entity(URN, {HOME: {"name": "other"}}, only_if_absent=True)
    merged = merge_entity(reference, held, RULES)
    assert (merged.stored, merged.change) == (held, "unchanged")


# --- one URN said twice --------------------------------------------------------------------------


def test_of_one_urn_reported_twice_the_later_word_on_a_field_stands() -> None:
    first = Entity(
        URN, {HOME: {"groups": [A], "description": "d", "name": "n"}}, notes=(Note("k", "1"),)
    )
    second = Entity(
        URN,
        {HOME: {"groups": [B], "description": None, "type": None}, "status": {}},
        notes=(Note("k", "2"),),
    )
    assert fold(first, second) == Entity(
        URN,
        {HOME: {"groups": [B], "description": None, "name": "n", "type": None}, "status": {}},
        notes=(Note("k", "1"), Note("k", "2")),
    )


def test_two_sources_that_say_one_urn_are_both_named() -> None:
    one, two = (
        Entity(URN, {HOME: {"customProperties": {"mlcat.source": source, source: "x"}}})
        for source in ("mlflow:a:", "feast:f:")
    )
    assert fold(one, two).aspects[HOME]["customProperties"] == {
        "mlcat.source": "mlflow:a:,feast:f:",
        "feast:f:": "x",
    }


@pytest.mark.parametrize("before", [{}, {"groups": [A], "customProperties": {"theirs": "1"}}])
def test_folding_comes_to_the_same_as_merging_one_after_the_other(before: Aspect) -> None:
    one = {HOME: {"groups": [A], "name": "n", "customProperties": {"mlcat.source": "a:a:"}}}
    two = {HOME: {"groups": [B], "customProperties": {"mlcat.source": "b:b:"}}, "status": {}}
    in_turn, at_once = (Shelf(aspects={HOME: before} if before else {}) for _ in range(2))
    in_turn.ingest(one)
    in_turn.ingest(two)
    at_once.ingest(fold(Entity(URN, one), Entity(URN, two)).aspects)
    assert in_turn.aspects == at_once.aspects


def test_a_reference_adds_nothing_to_an_entity() -> None:
    full = Entity(URN, {HOME: {"name": "n"}})
    reference = Entity(URN, {HOME: {"name": "other"}}, only_if_absent=True)
    assert fold(full, reference) is full
    assert fold(reference, full) is full


def test_what_only_adds_takes_nothing_from_what_was_reported_before_it() -> None:
    tags = [{"tags": [{"tag": name}]} for name in "ab"]
    read = Entity(URN, {"globalTags": tags[0]})
    unread = Entity(URN, {"globalTags": tags[1]}, adds_only=frozenset({"globalTags"}))
    both = fold(read, unread)
    assert both.aspects == {"globalTags": {"tags": [{"tag": "a"}, {"tag": "b"}]}}
    assert both.adds_only == frozenset()
    assert fold(unread, read) == read
    assert fold(unread, unread) == unread


@pytest.mark.parametrize(
    ("urn", "writer"),
    [
        ("urn:li:tag:t", Writer("recipe")),
        ("urn:li:mlModel:(urn:li:dataPlatform:mlflow,r,PROD)", None),
    ],
)
def test_an_entity_that_keeps_no_base_is_merged_again_with_what_is_stored(
    urn: str, writer: Writer | None
) -> None:
    now = stored(mlModelProperties={"name": "r"})
    one = MergedEntity(Entity(urn, {}), {}, "updated", writer=writer)
    assert with_applied_of(one, now) == now


def test_an_entity_of_which_nothing_was_written_gets_no_base() -> None:
    one = MergedEntity(Entity(URN, {}), {}, "updated", writer=Writer("prod"))
    again = with_applied_of(one, stored(mlModelProperties={"name": "r"}))
    assert again[HOME].value["customProperties"] == {}


def test_an_entity_that_is_merged_again_has_the_bases_of_all_that_it_wrote() -> None:
    def owned_by(owner: str) -> Entity:
        return Entity(URN, {HOME: {"name": "n"}, "ownership": {"owners": [{"owner": owner}]}})

    def owners(properties: Aspect) -> str:
        base = properties["customProperties"]["mlcat.applied.prod"]
        return (decode(base) or {})["ownership"]["owners"]

    first = merge_entity(owned_by("before"), None, RULES)
    now = stored(**{one.aspect_name: one.aspect for one in first.proposals})
    second = merge_entity(owned_by("after"), now, RULES)
    again = with_applied_of(second, stored(mlModelProperties={"name": "theirs"}))
    before, after = (owners(one.proposals[-1].aspect) for one in (first, second))
    assert before != after
    assert {before, after} == {*re.findall(".{6}", owners(again[HOME].value))}


def test_a_file_says_that_an_entity_was_removed_before_it_says_anything_else() -> None:
    entity = Entity(URN, {"status": {"removed": True}, HOME: {"name": "n"}})
    merged = merge_entity(entity, None, RULES, can_read=False)
    assert [one.aspect_name for one in merged.proposals] == ["status", HOME]
    assert merged.proposals[0].aspect == {"removed": True}
    [base] = [
        decode(text)
        for key, text in merged.proposals[1].aspect["customProperties"].items()
        if key.startswith("mlcat.applied.")
    ]
    assert base is not None
    assert base.keys() == {HOME}


@pytest.mark.parametrize(
    ("aspects", "names"),
    [
        ({HOME: {"groups": []}}, [HOME]),
        ({"globalTags": {"tags": []}}, []),
        ({"ownership": {"owners": [{"owner": "o"}]}}, ["ownership", HOME]),
    ],
)
def test_an_entity_without_properties_gets_them_with_the_first_of_ours(
    aspects: dict[str, Aspect], names: list[str]
) -> None:
    held = stored(globalTags={"tags": [{"tag": "theirs"}]})
    merged = merge_entity(Entity(URN, aspects), held, RULES)
    assert [one.aspect_name for one in merged.proposals] == names
    if names:
        assert "mlcat.applied.prod" in merged.proposals[-1].aspect["customProperties"]
