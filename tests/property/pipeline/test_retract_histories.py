"""Histories of us, another recipe and people, and then we take back what we wrote.

Where the others touch nothing of ours, the catalog holds what it would hold had we never written.
Where they do, nothing goes that they put there first or that another recipe claims.
"""

from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.metadata.codec import canonical
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.retract import retract_entity, whole_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from support.examples import examples
from support.merging import HOME, WRITER, Shelf

OTHER = MergeRules(Writer("other"))
Who = Literal["us", "other", "people"]
KEPT: dict[Who, str] = {"us": "abc", "other": "pqr", "people": "xyz"}
RECORDS = {"hyperParams": "name", "tags": "tag"}


def message_of(names: list[str], *, scalar: str | None) -> dict[str, dict[str, Any]]:
    """What a source says of an entity that has `names` of everything."""
    aspects: dict[str, dict[str, Any]] = {
        HOME: {
            "groups": list(names),
            "customProperties": {name: f"{name}'s" for name in names},
            "hyperParams": [{"name": name, "value": "1"} for name in names],
        },
        "globalTags": {"tags": [{"tag": name} for name in names]},
    }
    if scalar is not None:
        aspects[HOME][scalar] = f"{scalar} of a source"
    version = {
        "versionSet": "urn:li:versionSet:(a,b)",
        "version": {"versionTag": names[0] if names else ""},
        "sortId": "1",
    }
    aspects["versionProperties"] = version if names else dict.fromkeys(version)
    return aspects


def ingest(shelf: Shelf, who: Who, names: list[str]) -> None:
    if who == "us":
        shelf.ingest(message_of(names, scalar="name"))
        return
    if who == "other":
        fresh = message_of(names, scalar="externalUrl")
        del fresh["versionProperties"]
        shelf.ingest(fresh, OTHER)
        return
    aspects = message_of([], scalar=None)
    del aspects["versionProperties"]
    for aspect, fields in aspects.items():
        for field in fields:
            people_have(shelf, aspect, field, names)


def people_have(shelf: Shelf, aspect: str, field: str, names: list[str]) -> None:
    """Let people have exactly `names` of what is theirs in a field, and touch nothing else."""
    mine = message_of(names, scalar=None)[aspect][field]
    now = shelf.field(field, type(mine)(), aspect)
    if isinstance(now, dict):
        others = {key: one for key, one in now.items() if key not in KEPT["people"]}
        value: Any = {**others, **mine}
    else:
        value = [one for one in now if name_of(field, one) not in KEPT["people"]] + mine
    if value != now:
        shelf.edit(aspect, **{field: value})


def name_of(field: str, entry: Any) -> str:
    return str(entry[RECORDS[field]]) if field in RECORDS else str(entry)


def retract(shelf: Shelf, *aspects: str) -> MergedEntity:
    whole = whole_entity(shelf.urn)
    entity = Entity(shelf.urn, {name: {} for name in aspects}) if aspects else whole
    return shelf.write(retract_entity(entity, shelf.stored(), writer=Writer(WRITER)))


def content(shelf: Shelf) -> dict[str, dict[str, Any]]:
    """What an entity says: an empty collection says as much as none, and order does not count."""
    found: dict[str, dict[str, Any]] = {}
    for aspect, fields in shelf.aspects.items():
        kept = {
            field: sorted(value, key=canonical) if isinstance(value, list) else value
            for field, value in fields.items()
            if value not in ([], {})
        }
        if kept and aspect != "status":
            found[aspect] = kept
    return found


def names(letters: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(letters), max_size=3, unique=True)


def steps(who: Who) -> st.SearchStrategy[tuple[Who, list[str]]]:
    return st.tuples(st.just(who), names(KEPT[who]))


histories = st.lists(st.one_of(steps("us"), steps("other"), steps("people")), max_size=8)


@settings(max_examples=examples(200))
@given(histories, st.booleans())
def test_what_is_left_is_what_would_be_there_had_we_never_written(
    history: list[tuple[Who, list[str]]],
    by_aspect: bool,  # noqa: FBT001 - drawn
) -> None:
    shelf, without = Shelf(), Shelf()
    for who, some in history:
        ingest(shelf, who, some)
        if who != "us":
            ingest(without, who, some)
    if by_aspect:
        # As a delivery does where the catalog refuses one of them.
        for name in (HOME, "globalTags", "versionProperties"):
            retract(shelf, name)
    merged = retract(shelf)
    others = any(who == "other" for who, _ in history)
    if not others or any(who == "us" for who, _ in history):
        assert content(shelf) == content(without)
    if merged.proposals and not by_aspect:
        removed = shelf.field("removed", False, "status")
        assert removed == (not others and not content(without))
    before = dict(shelf.aspects)
    assert retract(shelf).proposals == ()
    assert shelf.aspects == before


@settings(max_examples=examples(200))
@given(histories, names("abc"))
def test_after_a_new_run_all_is_as_it_was(
    history: list[tuple[Who, list[str]]], last: list[str]
) -> None:
    shelf = Shelf()
    for who, some in history:
        ingest(shelf, who, some)
    ingest(shelf, "us", last)
    before, applied = content(shelf), shelf.base()
    retract(shelf)
    shelf.ingest({**message_of(last, scalar="name"), "status": {"removed": False}})
    assert content(shelf) == before
    assert shelf.base() == applied
    assert not shelf.field("removed", False, "status")


overlapping = st.lists(
    st.tuples(st.sampled_from(["us", "other", "people"]), names("abc")), min_size=1, max_size=8
)


@settings(max_examples=examples(300))
@given(overlapping)
def test_nothing_of_others_goes_where_all_say_the_same(
    history: list[tuple[Who, list[str]]],
) -> None:
    shelf = Shelf()
    first: set[str] = set()
    applied: set[str] = set()
    for who, some in history:
        if who == "people":
            there = set(shelf.field("groups", []))
            bases = shelf.field("customProperties", {})
            free = not any(key.startswith("mlcat.applied.") for key in bases)
            first |= {name for name in some if name not in there} if free else set()
            shelf.edit(HOME, groups=[*shelf.field("groups", []), *sorted(set(some) - there)])
        else:
            fresh: dict[str, dict[str, Any]] = {HOME: {"name": "n", "groups": some}}
            shelf.ingest(fresh, MergeRules(Writer(WRITER)) if who == "us" else OTHER)
            applied = set(some) if who == "other" else applied
    before = set(shelf.field("groups", []))
    wrote = f"mlcat.applied.{WRITER}" in shelf.field("customProperties", {})
    retract(shelf)
    after = set(shelf.field("groups", []))
    assert after <= before
    assert first & before <= after
    assert applied & before <= after | (first & before)
    if not wrote:
        assert after == before
