"""What holds of every patch, whatever the aspect and whoever edited it before."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.store.patch import apply_patch, read_patch
from support.examples import examples

ASPECT = "status"
KEYS = {"entries": ["name", "by␟source"]}

texts = st.sampled_from(["", "a", "b", "a/b", "~", "~1", "0", "-", "é", "*x"])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(0, 1) | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
)
objects = st.dictionaries(texts, values, max_size=4)


def key_of(one: dict[str, Any]) -> tuple[str, str]:
    return one["name"], one.get("by", {}).get("source", "")


def entry(name: str, source: str, note: Any) -> dict[str, Any]:
    by = {"by": {"source": source, "time": 1}} if source else {}
    return {"name": name, **by, "note": note}


names = st.sampled_from(["a", "b", "c/d", "e~f"])
sources = st.sampled_from(["", "x", "y/z"])
entries = st.builds(entry, names, sources, scalars)
distinct = st.lists(entries, unique_by=key_of, max_size=8)


def pointer(*parts: str) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in parts)


def op(name: str, path: str, value: Any = None) -> dict[str, Any]:
    return {"op": name, "path": path, "value": value}


def plain(value: Any, *operations: dict[str, Any]) -> Any:
    return apply_patch(read_patch(ASPECT, {"patch": list(operations)}), value)


def keyed(value: Any, *operations: dict[str, Any]) -> Any:
    envelope = {"patch": list(operations), "arrayPrimaryKeys": KEYS}
    return apply_patch(read_patch(ASPECT, envelope), value)


def put(one: dict[str, Any]) -> dict[str, Any]:
    return op("add", pointer("entries", *key_of(one)), one)


def take(one: dict[str, Any]) -> dict[str, Any]:
    return op("remove", pointer("entries", *key_of(one)))


def edits(chosen: list[dict[str, Any]], *, removing: bool) -> list[dict[str, Any]]:
    return [take(one) if removing else put(one) for one in chosen]


@given(objects, texts, values)
def test_what_is_added_is_there_and_can_be_taken_away(
    value: dict[str, Any], name: str, added: Any
) -> None:
    with_it = plain(value, op("add", pointer(name), added))
    assert with_it == {**value, name: added}
    assert plain(with_it, op("add", pointer(name), added)) == with_it
    without = plain(with_it, op("remove", pointer(name)))
    assert without == {key: one for key, one in value.items() if key != name}


@given(objects, st.lists(texts, min_size=1, max_size=4), values)
def test_a_patch_makes_a_copy_or_a_refusal(
    value: dict[str, Any], path: list[str], added: Any
) -> None:
    before = json.dumps(value)
    for name in ("add", "replace", "remove", "test"):
        try:
            made = plain(value, op(name, pointer(*path), added))
        except InvalidProposalError:
            continue
        finally:
            assert json.dumps(value) == before
        if name == "test":
            assert made == value
        if name == "replace":
            assert plain(made, op("test", pointer(*path), added)) == made


paths = st.lists(texts | st.just("fineGrainedLineages") | st.just("*"), max_size=6).map(
    lambda parts: pointer(*parts)
)
strange_operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "test", "move", "copy"]), "path": paths},
    optional={"value": values, "from": paths},
)
strange_keys = st.dictionaries(texts, st.lists(st.sampled_from(["a", "b␟a", ""]), max_size=3))


@settings(max_examples=examples(400))
@given(
    st.sampled_from(["globalTags", "upstreamLineage", "mlModelProperties", ASPECT]),
    objects | st.fixed_dictionaries({"fineGrainedLineages": values, "tags": values}),
    st.lists(strange_operations, max_size=4),
    st.none() | strange_keys,
)
def test_whatever_comes_there_is_a_result_or_a_refusal(
    aspect: str, value: dict[str, Any], operations: Any, keys: Any
) -> None:
    try:
        patch = read_patch(aspect, {"patch": operations, "arrayPrimaryKeys": keys})
        made = apply_patch(patch, value)
    except InvalidProposalError:
        return
    assert isinstance(made, dict)
    json.dumps(made)


@given(distinct, entries)
def test_adding_to_a_keyed_array_is_idempotent_and_touches_one_entry(
    held: list[dict[str, Any]], one: dict[str, Any]
) -> None:
    once = keyed({"entries": held}, put(one))["entries"]
    assert keyed({"entries": once}, put(one))["entries"] == once
    assert keyed({"entries": held}, put(one), put(one))["entries"] == once
    others = [other for other in held if key_of(other) != key_of(one)]
    assert [other for other in once if key_of(other) != key_of(one)] == others
    assert [other for other in once if key_of(other) == key_of(one)] == [one]
    known = [key_of(other) for other in held]
    if key_of(one) in known:
        assert [key_of(other) for other in once] == known
    else:
        assert once[-1] == one


@given(distinct, entries)
def test_removing_from_a_keyed_array_is_idempotent_and_touches_one_entry(
    held: list[dict[str, Any]], one: dict[str, Any]
) -> None:
    left = keyed({"entries": held}, take(one))["entries"]
    assert left == [other for other in held if key_of(other) != key_of(one)]
    assert keyed({"entries": left}, take(one))["entries"] == left
    assert keyed({"entries": left}, put(one), take(one))["entries"] == left


@given(distinct, distinct, st.booleans(), st.booleans(), st.data())
def test_edits_of_other_entries_can_come_before_or_after(
    held: list[dict[str, Any]],
    chosen: list[dict[str, Any]],
    ours_remove: bool,  # noqa: FBT001
    theirs_remove: bool,  # noqa: FBT001
    data: st.DataObject,
) -> None:
    split = data.draw(st.integers(0, len(chosen)))
    ours = edits(chosen[:split], removing=ours_remove)
    theirs = edits(chosen[split:], removing=theirs_remove)
    start = {"entries": held, "other": 1}
    one_way = keyed(keyed(start, *ours), *theirs)
    other_way = keyed(keyed(start, *theirs), *ours)
    assert sorted(one_way["entries"], key=key_of) == sorted(other_way["entries"], key=key_of)
    assert one_way["other"] == other_way["other"] == 1
    assert keyed(start, *ours, *theirs) == one_way


@given(distinct, sources)
def test_a_prefix_and_a_star_take_what_they_say(held: list[dict[str, Any]], source: str) -> None:
    for name in ("a", "c/d"):
        left = keyed({"entries": held}, op("remove", pointer("entries", name)))["entries"]
        assert left == [one for one in held if one["name"] != name]
    starred = keyed({"entries": held}, op("remove", "/entries/*" + pointer(source)))["entries"]
    assert starred == [one for one in held if key_of(one)[1] != source]
    assert keyed({"entries": held}, op("remove", "/entries/*"))["entries"] == []


@given(st.lists(entries, max_size=8), names)
def test_what_takes_nothing_leaves_everything_where_it_was(
    held: list[dict[str, Any]], name: str
) -> None:
    nothing = [op("remove", pointer("entries", "none", name)), op("remove", "/nowhere/at/all")]
    assert keyed({"entries": held}, *nothing) == {"entries": held}


@given(objects, st.lists(st.tuples(st.lists(texts, max_size=3), st.lists(texts, max_size=3))))
def test_moving_is_copying_and_removing(
    value: dict[str, Any], pairs: list[tuple[list[str], list[str]]]
) -> None:
    for source, target in pairs:
        origin, end = pointer(*source), pointer(*target)
        if not source or target[: len(source)] == source or source[: len(target)] == target:
            continue
        try:
            moved = plain(value, {"op": "move", "path": end, "from": origin})
        except InvalidProposalError:
            continue
        if not any(part in {"0", "-"} for part in (*source, *target)):
            copied = plain(value, {"op": "copy", "path": end, "from": origin})
            assert plain(copied, op("remove", origin)) == moved
