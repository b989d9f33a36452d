"""The merge beside the base of another state with the recipe's name, and of other recipes."""

from typing import Any

import pytest

from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.applied import (
    Base,
    applied_key,
    decode,
    encode,
    text_of_keys,
    with_applied,
    writer_id_of,
)
from mlcat_ingest.pipeline.merge.entity import MergedEntity, bases_of, merge_entity
from mlcat_ingest.pipeline.merge.retract import merge_or_leave, retract_entity, whole_entity
from mlcat_ingest.pipeline.merge.rules import UNION, MergeRules
from support.merging import HOME, Shelf

ONE, TWO = Writer("prod", "one"), Writer("prod", "two")
OTHER = Writer("other", "x")
KEY = applied_key("prod")
TAGS = "globalTags"


def of(*names: str, source: str = "s", **custom: str) -> dict[str, Any]:
    tags = [{"tag": f"urn:li:tag:{name}"} for name in names]
    return {TAGS: {"tags": tags}, HOME: {"customProperties": {"mlcat.source": source, **custom}}}


def ingest(
    shelf: Shelf, writer: Writer, aspects: dict[str, Any], base: str | None = None
) -> MergedEntity:
    entity = Entity(shelf.urn, aspects)
    rules = MergeRules(writer)
    return shelf.write(merge_or_leave(entity, shelf.stored(), rules, lambda _: base))


def tags(shelf: Shelf) -> list[str]:
    return [one["tag"].rpartition(":")[2] for one in shelf.field("tags", [], TAGS)]


def id_on(shelf: Shelf) -> str:
    return writer_id_of(shelf.field("customProperties")[KEY])


def base_on(shelf: Shelf) -> Base:
    return decode(shelf.field("customProperties")[KEY]) or {}


@pytest.fixture
def shelf() -> Shelf:
    shelf = Shelf()
    ingest(shelf, ONE, of("a", "b", k="v"))
    return shelf


def test_the_first_base_has_the_id_of_its_writer(shelf: Shelf) -> None:
    assert id_on(shelf) == "one"


def test_what_another_state_wrote_stays_and_is_noted(shelf: Shelf) -> None:
    merged = ingest(shelf, TWO, of("a", k="v"))
    assert tags(shelf) == ["a", "b"]
    assert id_on(shelf) == "two"
    [note] = merged.notes
    assert note.kind == "other_writer"
    assert "'prod'" in note.detail
    assert "writer id one" in note.detail
    assert not ingest(shelf, TWO, of("a", k="v")).notes


def test_a_state_that_remembers_its_base_leaves_that_of_the_other_and_removes_its_own(
    shelf: Shelf,
) -> None:
    remembered = shelf.field("customProperties")[KEY]
    ingest(shelf, TWO, of("a", "c", k="v"))
    merged = ingest(shelf, ONE, of("a", "b", k="v"), remembered)
    assert not merged.proposals
    assert bases_of([merged]) == {}
    assert id_on(shelf) == "two"
    ingest(shelf, ONE, of("b", k="v"), remembered)
    assert tags(shelf) == ["a", "b", "c"], "the other one has it, too"
    ingest(shelf, ONE, of(k="v"), remembered)
    assert tags(shelf) == ["a", "c"]


@pytest.mark.parametrize("base_id", ["", "one"])
def test_an_id_that_is_taken_over_and_none_at_all_are_replaced(base_id: str) -> None:
    shelf = Shelf()
    ingest(shelf, Writer("prod", base_id), of("a", "b"))
    merged = ingest(shelf, Writer("prod", "two", frozenset({"one"})), of("a", "b"))
    assert merged.proposals
    assert id_on(shelf) == "two"
    assert not merged.notes
    ingest(shelf, Writer("prod", "two", frozenset({"one"})), of("a"))
    assert tags(shelf) == ["a"]


def test_a_writer_without_an_id_merges_as_its_own_and_keeps_the_id(shelf: Shelf) -> None:
    merged = ingest(shelf, Writer("prod"), of("a", k="v"))
    assert not merged.notes
    assert (tags(shelf), id_on(shelf)) == (["a"], "one")
    assert not ingest(shelf, Writer("prod"), of("a", k="v")).proposals


def test_only_the_own_id_and_those_taken_over_may_be_removed() -> None:
    writer = Writer("prod", "one", frozenset({"two"}))
    assert [writer.may_remove(one) for one in ("one", "two", "three", "")] == [
        True,
        True,
        False,
        False,
    ]
    assert not Writer("prod").may_remove("")
    assert [writer.is_own(one) for one in ("one", "two", "three", "")] == [True, True, False, True]
    assert Writer("prod").is_own("three")


def test_an_entity_that_others_have_is_not_removed_and_loses_what_is_ours(shelf: Shelf) -> None:
    ingest(shelf, OTHER, of("b", "c"))
    named = {**whole_entity(shelf.urn).aspects, STATUS: {"removed": True}}
    merged = ingest(shelf, ONE, named)
    assert STATUS not in shelf.aspects
    assert tags(shelf) == ["b", "c"]
    assert KEY not in shelf.field("customProperties")
    assert bases_of([merged]) == {shelf.urn: ""}
    assert not ingest(shelf, ONE, named).proposals
    ingest(shelf, OTHER, named)
    assert shelf.aspects[STATUS] == {"removed": True}
    assert tags(shelf) == ["b", "c"]


def test_an_entity_of_another_state_is_not_removed_either(shelf: Shelf) -> None:
    before = dict(shelf.aspects)
    ingest(shelf, TWO, {STATUS: {"removed": True}})
    assert shelf.aspects == before
    without_writer = merge_or_leave(
        Entity(shelf.urn, {STATUS: {"removed": True}}), shelf.stored(), UNION
    )
    assert [one.aspect_name for one in without_writer.proposals] == [STATUS]


def test_what_a_live_entity_says_is_merged_beside_others(shelf: Shelf) -> None:
    ingest(shelf, OTHER, of("c"))
    assert tags(shelf) == ["a", "b", "c"]
    left_out = merge_or_leave(Entity(shelf.urn, {STATUS: {"removed": True}}), None, MergeRules(ONE))
    assert left_out.change == "left_out"


@pytest.mark.parametrize(("source", "noted"), [("s", True), ("another", False)])
def test_an_entity_that_another_recipe_made_of_one_store_is_noted_once(
    source: str, *, noted: bool
) -> None:
    shelf = Shelf()
    ingest(shelf, OTHER, {HOME: {"customProperties": {"mlcat.source": "s"}}})
    merged = ingest(shelf, ONE, {HOME: {"customProperties": {"mlcat.source": source}}})
    assert [note.kind for note in merged.notes] == ["same_store"] * noted
    assert all("'other' from s" in note.detail for note in merged.notes)
    assert not ingest(shelf, ONE, {HOME: {"customProperties": {"mlcat.source": "s"}}}).notes


def test_two_entities_without_a_source_are_of_no_store() -> None:
    shelf = Shelf()
    ingest(shelf, OTHER, {HOME: {"name": "n"}})
    assert not ingest(shelf, ONE, {HOME: {"name": "n"}}).notes


def test_a_copy_that_keeps_no_base_forgets_none(shelf: Shelf) -> None:
    merged = merge_entity(Entity(shelf.urn, of("c")), shelf.stored(), UNION)
    assert bases_of([merged]) == {}


def test_retracting_leaves_what_another_state_wrote(shelf: Shelf) -> None:
    remembered = shelf.field("customProperties")[KEY]
    ingest(shelf, TWO, of("a", k="v"))
    entity = whole_entity(shelf.urn)
    assert not retract_entity(entity, shelf.stored(), writer=Writer("prod", "three")).proposals
    shelf.write(retract_entity(entity, shelf.stored(), writer=ONE, remembered=lambda _: remembered))
    assert (tags(shelf), id_on(shelf)) == (["a"], "two")
    assert STATUS not in shelf.aspects


@pytest.mark.parametrize(("writer", "after"), [(ONE, "one"), (Writer("prod"), "one")])
def test_what_is_left_of_a_base_keeps_an_id(shelf: Shelf, writer: Writer, after: str) -> None:
    named = Entity(shelf.urn, {TAGS: {}})
    shelf.write(retract_entity(named, shelf.stored(), writer=writer))
    assert (tags(shelf), id_on(shelf)) == ([], after)


def test_a_part_of_a_retraction_leaves_the_base_of_another_state(shelf: Shelf) -> None:
    remembered = shelf.field("customProperties")[KEY]
    ingest(shelf, TWO, of("a", k="v"))
    before = shelf.field("customProperties")[KEY]
    named = Entity(shelf.urn, {TAGS: {}})
    shelf.write(retract_entity(named, shelf.stored(), writer=ONE, remembered=lambda _: remembered))
    assert (tags(shelf), shelf.field("customProperties")[KEY]) == (["a"], before)


# --- bases that are written over ------------------------------------------------------------------

A, B, C = (text_of_keys((name,)) for name in "abc")


def base(text: str, base_id: str = "one") -> str:
    return encode({TAGS: {"tags": text}}, base_id)


def test_a_base_has_what_it_had_before_and_what_is_in_none_any_more() -> None:
    properties = {KEY: base(A), applied_key("other"): base(B, "x")}
    between = [{KEY: base(A), applied_key("other"): base(B + C, "x")}]
    united = with_applied(properties, ONE, [{KEY: base(B)}], between)
    assert decode(united[KEY]) == {TAGS: {"tags": "".join(sorted((A, B, C)))}}
    assert united[applied_key("other")] == base(B, "x")
    assert writer_id_of(united[KEY]) == "one"
    without = with_applied({applied_key("other"): base(B, "x")}, ONE, (), between[:0])
    assert KEY not in without


def test_what_others_have_still_is_not_taken_into_the_base() -> None:
    properties = {applied_key("other"): base(B, "x")}
    united = with_applied(properties, ONE, (), [{applied_key("other"): base(B, "x")}])
    assert decode(united[KEY]) == {TAGS: {"tags": ""}}


def test_the_base_of_another_state_is_no_earlier_one() -> None:
    united = with_applied({KEY: base(A)}, ONE, [{KEY: base(B, "two")}, {}])
    assert decode(united[KEY]) == {TAGS: {"tags": A}}
    kept = with_applied({KEY: base(A)}, Writer("prod"), [{KEY: base(B, "")}])
    assert (decode(kept[KEY]), writer_id_of(kept[KEY])) == (
        {TAGS: {"tags": "".join(sorted((A, B)))}},
        "one",
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2:one", "one"),
        ("2:one:nM6r", "one"),
        ("2::", ""),
        ("2", ""),
        ("3:x", ""),
        (7, ""),
        (None, ""),
    ],
)
def test_the_id_in_a_text(text: object, expected: str) -> None:
    assert writer_id_of(text) == expected


def test_what_another_tool_wrote_formerly_is_taken_over_at_the_first_merge_alone() -> None:
    shelf = Shelf()
    theirs = of("a", "x")[TAGS]
    shelf.put(TAGS, theirs)
    shelf.put(HOME, {"name": "n"})
    for stays in ([], ["x"]):
        shelf.write(
            merge_entity(
                Entity(shelf.urn, of("a"), formerly={TAGS: theirs}),
                shelf.stored(),
                MergeRules(ONE),
            )
        )
        assert tags(shelf) == ["a", *stays]
        shelf.put(TAGS, theirs)
