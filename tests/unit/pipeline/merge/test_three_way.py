"""The three-way merge, sentence by sentence: whose entry is whose, and what goes."""

from typing import Any

import pytest

from mlcat_ingest.client.base import StoredAspect
from mlcat_ingest.metadata.aliases import Sighting, decode
from mlcat_ingest.metadata.aliases import encode as sightings_text
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Aspect, Entity, Proposal
from mlcat_ingest.metadata.reserved import ALIAS_LOG
from mlcat_ingest.pipeline.merge.applied import applied_key, encode, fingerprint, text_of_keys
from mlcat_ingest.pipeline.merge.entity import MergedEntity, bases_of, merge_entity
from mlcat_ingest.pipeline.merge.rules import UNION, MergeRules
from mlcat_ingest.pipeline.write.conflicts import write_again
from mlcat_ingest.recipe.model import Policy
from support.fakes import group_urn, model_urn
from support.merging import HOME, RULES, Shelf

A, B, C, D = map(group_urn, "abcd")
OTHER = MergeRules(Writer("other"))


def groups(*urns: str) -> dict[str, dict[str, Any]]:
    return {HOME: {"groups": list(urns)}}


def ruled(policy: Policy, *fields: str, aspect: str = HOME) -> MergeRules:
    return MergeRules(Writer("prod"), {aspect: dict.fromkeys(fields, policy)})


# --- one writer ----------------------------------------------------------------------------------


def test_what_the_source_drops_goes_and_what_others_put_there_stays() -> None:
    shelf = Shelf()
    shelf.ingest(groups(A, B))
    shelf.edit(HOME, groups=[A, D, B])
    shelf.ingest(groups(B, C))
    assert shelf.field("groups") == [D, B, C]
    assert shelf.base() == {HOME: {"groups": text_of_keys((B, C))}}


def test_what_people_put_there_first_is_never_ours() -> None:
    shelf = Shelf()
    shelf.put(HOME, {"groups": [A]})
    shelf.ingest(groups(A, B))
    assert shelf.base() == {HOME: {"groups": text_of_keys((B,))}}
    shelf.ingest(groups())
    assert shelf.field("groups") == [A]


def test_an_entry_that_a_person_took_away_comes_back_as_long_as_the_source_says_it() -> None:
    shelf = Shelf()
    shelf.ingest(groups(A, B))
    shelf.edit(HOME, groups=[B])
    shelf.ingest(groups(A, B))
    assert shelf.field("groups") == [B, A]
    shelf.edit(HOME, groups=[B])
    shelf.ingest(groups(B))
    assert shelf.field("groups") == [B]
    assert shelf.base() == {HOME: {"groups": text_of_keys((B,))}}


def made(**actor: str | None) -> dict[str, Aspect]:
    return {HOME: {"created": {"time": 1, **actor}}}


def test_a_part_of_a_record_goes_with_the_source_if_all_of_the_record_is_ours() -> None:
    shelf = Shelf()
    shelf.ingest(made(actor=None))
    assert shelf.field("created") == {"time": 1}
    shelf.ingest(made(actor="u"))
    shelf.ingest(made())
    assert shelf.field("created") == {"time": 1, "actor": "u"}, "it was not read"
    shelf.ingest(made(actor="u"))
    shelf.ingest(made(actor=None))
    assert shelf.field("created") == {"time": 1}
    assert shelf.base() == {HOME: {"created": fingerprint({"time": 1})}}
    assert shelf.ingest(made(actor=None)).change == "unchanged"


def test_a_part_of_a_record_that_others_wrote_or_hold_stays() -> None:
    edited, shared = Shelf(), Shelf()
    edited.ingest(made(actor="u"))
    edited.edit(HOME, created={"time": 1, "actor": "v"})
    edited.ingest(made(actor=None))
    assert edited.field("created") == {"time": 1, "actor": "v"}
    shared.ingest(made(actor="u"))
    shared.ingest(made(actor="u"), OTHER)
    shared.ingest(made(actor=None))
    assert shared.field("created") == {"time": 1, "actor": "u"}


@pytest.mark.parametrize(
    ("policy", "left"), [("union", {"time": 1, "actor": "u"}), ("ours", {"time": 1})]
)
def test_a_part_of_a_record_goes_by_its_policy(policy: Policy, left: dict[str, Any]) -> None:
    shelf = Shelf()
    shelf.ingest(made(actor="u"), ruled(policy, "created"))
    shelf.ingest(made(actor=None), ruled(policy, "created"))
    assert shelf.field("created") == left


def test_a_field_that_was_not_read_is_left_alone_with_its_base() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"groups": [A], "name": "n"}, "globalTags": {"tags": [{"tag": "t"}]}})
    before = shelf.base()
    merged = shelf.ingest({HOME: {"name": "n"}})
    assert merged.change == "unchanged"
    shelf.ingest({HOME: {"name": "m"}})
    assert (shelf.field("groups"), shelf.field("name")) == ([A], "m")
    after = shelf.base()
    assert after["globalTags"] == before["globalTags"]
    assert after[HOME]["groups"] == before[HOME]["groups"]
    shelf.ingest({"ownership": {"owners": [{"owner": "u", "type": "NONE"}]}})
    assert shelf.base()[HOME] == after[HOME]


def test_an_empty_list_is_written_when_nothing_is_left() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"groups": [A]}, "globalTags": {"tags": [{"tag": "t"}]}})
    shelf.ingest({HOME: {"groups": None}, "globalTags": {"tags": []}})
    assert shelf.aspects["globalTags"] == {"tags": []}
    assert shelf.field("groups") == []
    assert shelf.base() == {}


def test_an_aspect_that_somebody_took_away_needs_no_taking_away() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"name": "n"}, "globalTags": {"tags": [{"tag": "t"}]}})
    del shelf.aspects["globalTags"]
    merged = shelf.ingest({HOME: {"name": "n"}, "globalTags": {"tags": []}})
    assert [one.aspect_name for one in merged.proposals] == [HOME]
    assert list(shelf.base()) == [HOME]


def test_maps_lose_our_keys_only() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"customProperties": {"mlcat.source": "s", "a": "1", "b": "2"}}})
    shelf.edit(HOME, customProperties={**shelf.field("customProperties"), "theirs": "x"})
    shelf.ingest({HOME: {"customProperties": {"mlcat.source": "s", "b": "3"}}})
    assert shelf.custom() == {"mlcat.source": "s", "b": "3", "theirs": "x"}
    shelf.ingest({HOME: {"customProperties": None}})
    assert shelf.custom() == {"mlcat.source": "s", "theirs": "x"}
    assert shelf.base() == {}


def test_our_own_keys_are_in_no_base_and_stay_even_if_a_base_names_them() -> None:
    shelf = Shelf()
    lie = encode({HOME: {"customProperties": text_of_keys(("mlcat.source", "gone"))}})
    custom = {"mlcat.source": "s", "gone": "x", applied_key("prod"): lie}
    shelf.put(HOME, {"customProperties": custom})
    shelf.ingest({HOME: {"customProperties": {}}})
    assert shelf.custom() == {"mlcat.source": "s"}


def test_keyed_records_go_by_key_and_unknown_fields_of_them_stay() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"hyperParams": [{"name": "a", "value": "1"}, {"name": "b"}]}})
    shelf.edit(HOME, hyperParams=[{"name": "x"}, *shelf.field("hyperParams")])
    shelf.edit(HOME, hyperParams=[{**one, "unit": "s"} for one in shelf.field("hyperParams")])
    shelf.ingest({HOME: {"hyperParams": [{"name": "a", "value": "2"}]}})
    assert shelf.field("hyperParams") == [
        {"name": "x", "unit": "s"},
        {"name": "a", "value": "2", "unit": "s"},
    ]


def test_an_owner_is_ours_by_owner_type_and_attribution() -> None:
    shelf = Shelf()
    ours = {"owner": "u", "type": "DATAOWNER"}
    shelf.ingest({HOME: {}, "ownership": {"owners": [ours]}})
    theirs = {**ours, "attribution": {"source": "bot"}}
    shelf.edit("ownership", owners=[ours, theirs, {"owner": "u", "type": "NONE"}])
    shelf.ingest({HOME: {}, "ownership": {"owners": []}})
    assert shelf.aspects["ownership"]["owners"] == [theirs, {"owner": "u", "type": "NONE"}]


# --- scalars and records -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "ours", "theirs"),
    [
        ("description", "ours", "theirs"),
        ("created", {"time": 1}, {"time": 2, "actor": "urn:li:corpuser:u"}),
        ("date", 0, 1),
    ],
)
def test_a_value_goes_only_if_it_is_still_the_one_we_wrote(
    field: str, ours: object, theirs: object
) -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {field: ours, "name": "n"}})
    assert shelf.base()[HOME][field] == fingerprint(ours)
    cleared = Shelf(aspects=dict(shelf.aspects))
    cleared.ingest({HOME: {field: None, "name": "n"}})
    assert field not in cleared.aspects[HOME]
    assert field not in cleared.base()[HOME]
    shelf.edit(HOME, **{field: theirs})
    shelf.ingest({HOME: {field: None, "name": "n"}})
    assert shelf.field(field) == theirs


def test_a_value_that_the_source_has_is_ours_whoever_wrote_last() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"description": "ours"}})
    shelf.edit(HOME, description="theirs")
    shelf.ingest({HOME: {"description": "ours"}})
    assert shelf.field("description") == "ours"


def test_an_equal_value_that_stood_there_first_is_not_ours() -> None:
    shelf = Shelf()
    shelf.put(HOME, {"description": "same"})
    shelf.ingest({HOME: {"description": "same"}})
    assert shelf.base() == {}
    shelf.ingest({HOME: {"description": None}})
    assert shelf.field("description") == "same"


def test_a_record_keeps_what_we_do_not_know_and_stays_while_it_has_it() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"version": {"versionTag": "1"}}})
    shelf.edit(HOME, version={"versionTag": "1", "metadataAttribution": {"time": 1}})
    merged = shelf.ingest({HOME: {"version": {"versionTag": "1"}}})
    assert merged.change == "unchanged"
    shelf.ingest({HOME: {"version": {"versionTag": "2"}}})
    assert shelf.field("version") == {"versionTag": "2", "metadataAttribution": {"time": 1}}
    shelf.ingest({HOME: {"version": None}})
    assert shelf.field("version") == {"versionTag": "2", "metadataAttribution": {"time": 1}}


def test_a_path_is_one_value() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {}, "browsePathsV2": {"path": [{"id": "a"}]}})
    shelf.ingest({HOME: {}, "browsePathsV2": {"path": [{"id": "b"}, {"id": "c"}]}})
    assert shelf.aspects["browsePathsV2"] == {"path": [{"id": "b"}, {"id": "c"}]}
    assert len(shelf.base()["browsePathsV2"]["path"]) == 6


# --- several writers -----------------------------------------------------------------------------


def test_an_entry_leaves_only_when_no_writer_claims_it() -> None:
    shelf = Shelf()
    shelf.ingest(groups(A, B))
    shelf.ingest(groups(A, C), OTHER)
    assert shelf.base("other") == {HOME: {"groups": text_of_keys((A, C))}}
    shelf.ingest(groups(B))
    assert shelf.field("groups") == [A, B, C]
    shelf.ingest(groups(C), OTHER)
    assert shelf.field("groups") == [B, C]


def test_a_value_stays_while_another_writer_claims_it() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {"description": "same"}})
    shelf.ingest({HOME: {"description": "same"}}, OTHER)
    assert shelf.base("other") == shelf.base()
    shelf.ingest({HOME: {"description": None}})
    assert shelf.field("description") == "same"
    shelf.ingest({HOME: {"description": None}}, OTHER)
    assert "description" not in shelf.aspects[HOME]


# --- a lost base ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stripped", "broken", "newer"])
def test_without_a_base_nothing_goes_once_and_the_report_can_count_it(how: str) -> None:
    shelf = Shelf()
    assert not shelf.ingest(groups(A, B)).without_base
    assert not shelf.ingest(groups(A)).without_base
    if how == "stripped":
        shelf.strip()
    else:
        text = {"broken": "1 {", "newer": "3"}[how]
        custom = {**shelf.field("customProperties"), applied_key("prod"): text}
        shelf.edit(HOME, customProperties=custom)
    merged = shelf.ingest(groups(C))
    assert merged.without_base
    assert shelf.field("groups") == [A, C]
    assert not shelf.ingest(groups(C)).without_base
    shelf.ingest(groups())
    assert shelf.field("groups") == [A]


def test_an_entity_of_others_has_no_base_and_gets_one() -> None:
    shelf = Shelf()
    shelf.put(HOME, {"groups": [A]})
    merged = shelf.ingest(groups(A))
    assert (merged.without_base, merged.change) == (True, "updated")
    assert shelf.base() == {}
    assert shelf.ingest(groups(A)).change == "unchanged"


# --- policies ------------------------------------------------------------------------------------


def test_union_takes_nothing_away_and_keeps_its_claims() -> None:
    rules = ruled("union", "groups", "description", "customProperties")
    shelf = Shelf()
    message = {"groups": [A, B], "description": "d", "customProperties": {"k": "v"}}
    shelf.ingest({HOME: message}, rules)
    shelf.edit(HOME, groups=[A, D, B])
    shelf.ingest({HOME: {"groups": [C], "description": None, "customProperties": {}}}, rules)
    assert shelf.field("groups") == [A, D, B, C]
    assert shelf.field("description") == "d"
    assert shelf.custom() == {"k": "v"}
    assert shelf.base()[HOME] == {
        "groups": text_of_keys((A, B, C)),
        "description": fingerprint("d"),
        "customProperties": text_of_keys(("k",)),
    }
    shelf.edit(HOME, groups=[])
    shelf.drop(HOME, "groups")
    shelf.ingest({HOME: {"groups": [D]}}, rules)
    assert shelf.base()[HOME]["groups"] == text_of_keys((A, B, C, D))


def test_ours_lets_the_source_alone_decide() -> None:
    rules = ruled("ours", "groups", "description", "customProperties", "hyperParams", "created")
    shelf = Shelf()
    custom = {"theirs": "x", "mlcat.source": "s", applied_key("other"): "1 {}"}
    shelf.put(
        HOME,
        {
            "groups": [B, A],
            "description": "theirs",
            "customProperties": custom,
            "hyperParams": [{"name": "a", "unit": "s"}],
            "created": {"time": 1, "actor": "u"},
            "name": "kept",
        },
    )
    message = {
        "groups": [A, C],
        "description": None,
        "customProperties": {"k": "v"},
        "hyperParams": [{"name": "a"}],
        "created": {"time": 1},
    }
    shelf.ingest({HOME: message}, rules)
    assert shelf.field("groups") == [A, C]
    assert "description" not in shelf.aspects[HOME]
    assert shelf.custom() == {"mlcat.source": "s", "k": "v"}
    assert applied_key("other") in shelf.field("customProperties")
    assert shelf.field("hyperParams") == [{"name": "a"}]
    assert shelf.field("created") == {"time": 1}
    assert shelf.field("name") == "kept"
    assert shelf.base()[HOME]["groups"] == text_of_keys((A, C))
    assert shelf.ingest({HOME: message}, rules).change == "unchanged"


def test_under_ours_a_value_that_was_there_already_is_ours() -> None:
    shelf = Shelf()
    shelf.put(HOME, {"description": "d", "groups": [A]})
    shelf.ingest(
        {HOME: {"description": "d", "groups": [B, B]}}, ruled("ours", "description", "groups")
    )
    assert shelf.base()[HOME].keys() == {"description", "groups"}
    assert shelf.field("groups") == [B]


def test_a_writer_without_a_name_adds_and_keeps_no_base() -> None:
    shelf = Shelf()
    shelf.ingest(groups(A, B))
    merged = shelf.ingest({HOME: {"groups": [C], "description": "d"}}, MergeRules(None))
    assert not merged.without_base
    assert shelf.field("groups") == [A, B, C]
    assert list(shelf.field("customProperties")) == [applied_key("prod")]
    assert shelf.ingest({HOME: {"groups": []}}, MergeRules(None)).change == "unchanged"
    fresh = Shelf()
    assert len(fresh.ingest({"ownership": {"owners": []}}, MergeRules(None)).proposals) == 0
    assert len(fresh.ingest({HOME: {"name": "n"}}, MergeRules(None)).proposals) == 1
    assert fresh.aspects == {HOME: {"name": "n"}}


# --- fields that nobody owns ---------------------------------------------------------------------


def test_the_first_stamp_stays_and_is_nobodys() -> None:
    terms = [{"urn": "urn:li:glossaryTerm:a"}]
    stamps = [{"time": at, "actor": "urn:li:corpuser:u"} for at in (1, 2)]
    shelf = Shelf()
    for stamp in stamps:
        shelf.ingest({HOME: {}, "glossaryTerms": {"terms": terms, "auditStamp": stamp}})
        assert shelf.aspects["glossaryTerms"] == {"terms": terms, "auditStamp": stamps[0]}
        assert shelf.base()["glossaryTerms"].keys() == {"terms"}
    shelf.drop("glossaryTerms", "auditStamp")
    shelf.ingest({HOME: {}, "glossaryTerms": {"terms": terms, "auditStamp": stamps[1]}})
    assert shelf.aspects["glossaryTerms"]["auditStamp"] == stamps[1]
    assert shelf.base()["glossaryTerms"].keys() == {"terms"}


# --- aspects that cannot be empty ----------------------------------------------------------------

VERSION = {
    "versionSet": "urn:li:versionSet:(x,mlModel)",
    "version": {"versionTag": "1"},
    "sortId": "0001",
    "aliases": [{"versionTag": "champion"}],
    "comment": "note",
}
NO_VERSION: dict[str, Any] = {
    **dict.fromkeys(("versionSet", "version", "sortId", "comment")),
    "aliases": [],
}


def test_an_aspect_that_cannot_be_empty_and_is_wholly_ours_is_deleted() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {}, "versionProperties": VERSION})
    shelf.edit("versionProperties", isLatest=True)  # the service's own
    merged = shelf.ingest({HOME: {}, "versionProperties": NO_VERSION})
    assert [one.change_type for one in merged.proposals] == ["DELETE", "UPSERT"]
    assert merged.kept_aspects == ()
    assert "versionProperties" not in shelf.aspects
    assert shelf.base() == {}
    assert shelf.ingest({HOME: {}, "versionProperties": NO_VERSION}).change == "unchanged"


def test_what_the_service_computes_is_never_sent_back() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {}, "versionProperties": VERSION})
    shelf.edit("versionProperties", isLatest=True)
    assert shelf.ingest({HOME: {}, "versionProperties": VERSION}).change == "unchanged"
    merged = shelf.ingest({HOME: {}, "versionProperties": {**VERSION, "comment": "other"}})
    sent = [one.aspect for one in merged.proposals if one.aspect_name == "versionProperties"]
    assert sent == [{**VERSION, "comment": "other", "isLatest": True}], "as it is to be"
    [patch] = [one for one in merged.proposals if one.aspect_name == "versionProperties"]
    assert patch.headers == {"If-Version-Match": "2"}
    assert loads(patch.wire()["aspect"]["value"]) == [
        {"op": "add", "path": "/comment", "value": "other"}
    ]
    gone = shelf.ingest({HOME: {}, "versionProperties": {**VERSION, "comment": None}})
    [patch] = [one for one in gone.proposals if one.aspect_name == "versionProperties"]
    assert loads(patch.wire()["aspect"]["value"]) == [{"op": "remove", "path": "/comment"}]
    left = {field: value for field, value in VERSION.items() if field != "comment"}
    assert shelf.aspects["versionProperties"] == {**left, "isLatest": True}


OWNER = {"owner": "urn:li:corpuser:ada", "type": "DATAOWNER"}
DOMAIN = "urn:li:domain:sales"


def test_what_the_service_computes_of_an_aspect_is_neither_sent_nor_compared() -> None:
    shelf = Shelf()
    aspects: dict[str, Any] = {
        HOME: {},
        "ownership": {"owners": [OWNER]},
        "domains": {"domains": [DOMAIN]},
    }
    shelf.ingest(aspects)
    assert shelf.field("ownerTypes", aspect="ownership")
    assert shelf.field("domainAssociations", aspect="domains")
    assert shelf.ingest(aspects).proposals == ()
    nobody: dict[str, Any] = {HOME: {}, "ownership": {"owners": []}, "domains": {"domains": []}}
    merged = shelf.ingest(nobody)
    assert {one.aspect_name: one.aspect for one in merged.proposals if one.aspect_name != HOME} == {
        "ownership": {"owners": []},
        "domains": {"domains": []},
    }
    assert "ownerTypes" not in shelf.aspects["ownership"]


def test_a_computed_field_that_a_source_names_is_left_out() -> None:
    shelf = Shelf()
    owners = {"owners": [OWNER], "ownerTypes": {"urn:li:ownershipType:x": ["urn:li:corpuser:b"]}}
    aspects: dict[str, Any] = {HOME: {}, "ownership": owners}
    [first, _] = shelf.ingest(aspects).proposals
    assert first.aspect == {"owners": [OWNER]}
    assert shelf.ingest(aspects).proposals == ()
    shelf.drop("ownership", "ownerTypes")
    assert shelf.ingest(aspects).proposals == ()
    assert "ownerTypes" not in shelf.base()["ownership"]


def test_a_stored_version_without_a_computed_field_is_replaced() -> None:
    shelf = Shelf()
    first = shelf.ingest({HOME: {}, "versionProperties": VERSION})
    second = shelf.ingest({HOME: {}, "versionProperties": {**VERSION, "comment": "other"}})
    for merged in (first, second):
        assert {one.change_type for one in merged.proposals} == {"UPSERT"}


@pytest.mark.parametrize(
    "theirs",
    [{"comment": "mine"}, {"aliases": [{"versionTag": "champion"}, {"versionTag": "theirs"}]}],
)
def test_an_aspect_that_cannot_be_empty_is_kept_while_others_have_entries_in_it(
    theirs: dict[str, Any],
) -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {}, "versionProperties": VERSION})
    shelf.edit("versionProperties", **theirs)
    merged = shelf.ingest({HOME: {}, "versionProperties": NO_VERSION})
    assert merged.kept_aspects == ("versionProperties",)
    left = shelf.aspects["versionProperties"]
    assert None not in left.values()
    assert left["versionSet"] == VERSION["versionSet"]
    assert [one["versionTag"] for one in left["aliases"]] == (
        ["theirs"] if "aliases" in theirs else []
    )
    again = shelf.ingest({HOME: {}, "versionProperties": NO_VERSION})
    assert (again.change, again.kept_aspects) == ("unchanged", ("versionProperties",))
    shelf.edit("versionProperties", aliases=[])
    if "comment" in theirs:
        shelf.drop("versionProperties", "comment")
    shelf.ingest({HOME: {}, "versionProperties": NO_VERSION})
    assert "versionProperties" not in shelf.aspects


def test_a_foreign_aspect_that_cannot_be_empty_stays_whole() -> None:
    shelf = Shelf()
    shelf.put("versionProperties", VERSION)
    merged = shelf.ingest({HOME: {"name": "n"}, "versionProperties": NO_VERSION})
    assert shelf.aspects["versionProperties"] == VERSION
    assert merged.kept_aspects == ()


def test_ours_clears_what_cannot_be_empty_only_with_the_aspect() -> None:
    rules = ruled("ours", "versionSet", "version", "sortId", aspect="versionProperties")
    shelf = Shelf()
    shelf.put("versionProperties", VERSION)
    merged = shelf.ingest({HOME: {"name": "n"}, "versionProperties": NO_VERSION}, rules)
    assert merged.kept_aspects == ("versionProperties",)
    assert shelf.aspects["versionProperties"] == VERSION


# --- writing again -------------------------------------------------------------------------------


def test_an_entity_is_written_again_with_all_that_was_read_of_it() -> None:
    urn = model_urn("a")
    version = {"versionSet": "urn:li:versionSet:(g,mlModel)", "sortId": "1", "isLatest": True}
    stored = {
        "mlModelKey": StoredAspect({"name": "a"}, "1"),
        "versionProperties": StoredAspect(version, "4"),
        "ownership": StoredAspect({"owners": [], "ownerTypes": {}}, "2"),
        HOME: StoredAspect({"name": "old"}, "3"),
    }
    changed = Proposal(urn, HOME, {"name": "new"})
    before = MergedEntity(Entity(urn, {}), stored, "updated", (changed,))
    again = write_again(before)
    assert (again.change, again.is_rewrite) == ("updated", True)
    key, patch, owners, last = again.proposals
    assert key == Proposal(
        urn,
        "mlModelKey",
        {"name": "a", "platform": "urn:li:dataPlatform:mlflow", "origin": "PROD"},
    )
    assert (patch.aspect_name, patch.change_type, patch.headers) == (
        "versionProperties",
        "PATCH",
        {"If-Version-Match": "4"},
    )
    assert list(patch.patch) == [
        {"op": "add", "path": "/versionSet", "value": version["versionSet"]},
        {"op": "add", "path": "/sortId", "value": "1"},
    ]
    assert owners == Proposal(urn, "ownership", {"owners": []}, headers={"If-Version-Match": "2"})
    assert last is changed


def test_an_entity_that_was_removed_before_is_not_removed_once_more() -> None:
    urn = model_urn("a")
    stored = {"status": StoredAspect({"removed": True}, "1")}
    gone = Entity(urn, {"status": {"removed": True}})
    assert write_again(MergedEntity(gone, stored, "unchanged")).change == "unchanged"
    going = MergedEntity(gone, stored, "removed", (Proposal(urn, "status", {"removed": True}),))
    assert write_again(going).change == "removed"


def test_an_entity_that_is_not_there_is_not_written_again() -> None:
    one = MergedEntity(Entity(model_urn("a"), {}), {}, "unchanged")
    assert write_again(one) is one


def test_what_is_neither_stored_nor_written_has_no_base() -> None:
    assert (
        bases_of([MergedEntity(Entity(model_urn("a"), {}), {}, "unchanged", writer=Writer("prod"))])
        == {}
    )


def test_a_base_is_found_whatever_is_written_after_it() -> None:
    urn = model_urn("a")
    home = Proposal(urn, HOME, {"customProperties": {"mlcat.applied.prod": "2"}})
    tags = Proposal(urn, "globalTags", {"tags": []})
    one = MergedEntity(Entity(urn, {}), {}, "created", (home, tags), writer=Writer("prod"))
    assert bases_of([one]) == {urn: "2"}


def test_a_base_that_somebody_dropped_is_the_remembered_one() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {}, "globalTags": {"tags": [{"tag": "ours"}]}})
    text = shelf.field("customProperties")["mlcat.applied.prod"]
    shelf.edit("globalTags", tags=[{"tag": "ours"}, {"tag": "theirs"}])
    shelf.put(HOME, {"name": "theirs"})
    nothing = Entity(shelf.urn, {HOME: {}, "globalTags": {"tags": []}})
    remembered = {shelf.urn: text}.get
    merged = shelf.write(merge_entity(nothing, shelf.stored(), RULES, remembered))
    assert shelf.aspects["globalTags"] == {"tags": [{"tag": "theirs"}]}
    assert not merged.without_base
    assert shelf.base() == {}


def test_a_new_entity_is_not_looked_up_in_the_state() -> None:
    def remembered(urn: str) -> str:
        raise AssertionError(urn)

    entity = Entity(model_urn("r1"), {HOME: {"name": "a"}})
    assert merge_entity(entity, None, RULES, remembered).change == "created"
    first = merge_entity(entity, None, RULES)
    stored = {one.aspect_name: StoredAspect(one.aspect, "1") for one in first.proposals}
    assert merge_entity(entity, stored, RULES, remembered).change == "unchanged"


def test_the_bases_of_entities_are_those_that_they_end_with() -> None:
    shelf = Shelf()
    created = shelf.ingest({HOME: {"name": "a"}, "globalTags": {"tags": [{"tag": "t"}]}})
    text = shelf.field("customProperties")["mlcat.applied.prod"]
    unchanged = shelf.ingest({HOME: {"name": "a"}})
    assert bases_of([created]) == bases_of([unchanged]) == {shelf.urn: text}
    updated = shelf.ingest({HOME: {"name": "a"}, "globalTags": {"tags": []}})
    assert bases_of([updated]) == {shelf.urn: shelf.field("customProperties")["mlcat.applied.prod"]}
    assert bases_of([updated]) != {shelf.urn: text}
    unreadable = {**shelf.stored(), HOME: StoredAspect({"customProperties": {"mlcat.applied.": 1}})}
    nobody = merge_entity(Entity(shelf.urn, {HOME: {}}), unreadable, UNION)
    assert bases_of([nobody]) == {}


def test_a_key_aspect_has_no_condition() -> None:
    shelf = Shelf()
    shelf.ingest({HOME: {}, "mlModelKey": {"name": "r1", "origin": "PROD"}})
    merged = merge_entity(
        Entity(shelf.urn, {"mlModelKey": {"origin": "DEV"}, HOME: {"name": "x"}}),
        shelf.stored(),
        RULES,
    )
    assert [(one.aspect_name, one.headers) for one in merged.proposals] == [
        ("mlModelKey", None),
        (HOME, {"If-Version-Match": "1"}),
    ]


# --- texts that people write, too -----------------------------------------------------------------

CAVEATS = "mlModelCaveatsAndRecommendations"


def advice(text: str | None) -> dict[str, Aspect]:
    return {HOME: {"name": "m"}, CAVEATS: {"recommendations": text}}


def test_a_text_that_people_write_too_is_ours_as_long_as_nobody_changes_it() -> None:
    shelf = Shelf()
    for text in ("Check weekly.", "Check daily.", "Check daily."):
        shelf.ingest(advice(text))
        assert shelf.field("recommendations", aspect=CAVEATS) == text
    shelf.ingest(advice(None))
    assert shelf.field("recommendations", aspect=CAVEATS) is None


def test_what_a_person_wrote_there_stays() -> None:
    shelf = Shelf()
    shelf.ingest(advice("Check weekly."))
    shelf.edit(CAVEATS, recommendations="Ask the owner.")
    for text in ("Check daily.", None, "Ask the owner.", None, "Check weekly."):
        shelf.ingest(advice(text))
        assert shelf.field("recommendations", aspect=CAVEATS) == "Ask the owner."
    assert CAVEATS not in shelf.base()
    shelf.ingest(advice("Check daily."), ruled("ours", "recommendations", aspect=CAVEATS))
    assert shelf.field("recommendations", aspect=CAVEATS) == "Check daily."


def test_of_two_recipes_the_first_keeps_a_text_that_yields() -> None:
    shelf = Shelf()
    for _ in range(2):
        shelf.ingest(advice("Check weekly."))
        shelf.ingest(advice("Check daily."), OTHER)
    assert shelf.field("recommendations", aspect=CAVEATS) == "Check weekly."
    shelf.ingest(advice(None))
    shelf.ingest(advice("Check daily."), OTHER)
    assert shelf.field("recommendations", aspect=CAVEATS) == "Check daily."


def test_of_two_recipes_with_one_text_each_claims_it() -> None:
    shelf = Shelf()
    shelf.ingest(advice("Check weekly."))
    shelf.ingest(advice("Check weekly."), OTHER)
    shelf.ingest(advice(None))
    assert shelf.field("recommendations", aspect=CAVEATS) == "Check weekly."
    shelf.ingest(advice("Check daily."), OTHER)
    assert shelf.field("recommendations", aspect=CAVEATS) == "Check daily."


def test_a_text_is_ours_again_after_the_state_was_lost() -> None:
    shelf, anew = Shelf(), MergeRules(Writer("prod", "anew"))
    shelf.ingest(advice("Check weekly."), MergeRules(Writer("prod", "lost")))
    for text in ("Check weekly.", "Check daily.", None):
        shelf.ingest(advice(text), anew)
        assert shelf.field("recommendations", aspect=CAVEATS) == text


def test_sightings_of_aliases_are_added_to_the_stored_ones() -> None:
    first, second = (Sighting("champion", str(n), n, n, "event") for n in (1, 2))
    shelf = Shelf()
    for sightings in ([first], [second], []):
        log = {ALIAS_LOG: sightings_text(sightings)} if sightings else {}
        shelf.ingest({HOME: {"name": "m", "customProperties": log}})
    assert decode(shelf.custom()[ALIAS_LOG]) == [first, second]
