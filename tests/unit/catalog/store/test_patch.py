import json
import re
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog import limits
from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.schema.values import SYSTEM_ACTOR
from mlcat_ingest.catalog.store.patch import apply_patch, blank, read_patch

SDK_PATCHES = json.loads(Path(__file__).with_name("sdk_patches.json").read_text())
PROPERTIES = "mlModelProperties"
TAGS = {"tags": ["attribution␟source", "tag"]}
ACTION = "urn:li:dataHubAction:a"
BY_ACTION = {"time": 1, "actor": "urn:li:corpuser:a", "source": ACTION}


def patched(value: dict[str, Any], *operations: Any, aspect: str = PROPERTIES, **more: Any) -> Any:
    generic = {"forceGenericPatch": True} if aspect == PROPERTIES else {}
    return apply_patch(read_patch(aspect, {"patch": list(operations), **generic, **more}), value)


def op(name: str, path: str, value: Any = None, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, "value": value, **more}


@pytest.mark.parametrize(
    "case", SDK_PATCHES, ids=[f"{at}-{case['aspect']}" for at, case in enumerate(SDK_PATCHES)]
)
def test_what_the_sdk_sends_does_what_it_means(case: dict[str, Any]) -> None:
    body = case["body"]
    envelope = body if isinstance(body, dict) else {"patch": body}
    patch = read_patch(case["aspect"], envelope)
    before = json.dumps(case["before"])
    assert apply_patch(patch, case["before"]) == case["after"]
    assert json.dumps(case["before"]) == before


@pytest.mark.parametrize(
    ("before", "operation", "after"),
    [
        ({}, op("add", "/description", "d"), {"description": "d"}),
        ({"description": "c"}, op("add", "/description", "d"), {"description": "d"}),
        ({}, op("add", "/customProperties/a~1b~0", "1"), {"customProperties": {"a/b~": "1"}}),
        ({}, op("add", "/customProperties/0", "1"), {"customProperties": {"0": "1"}}),
        ({}, op("add", "/customProperties/", "1"), {"customProperties": {"": "1"}}),
        ({}, op("add", "/version/versionTag", "1"), {"version": {"versionTag": "1"}}),
        (
            {"version": None},
            op("add", "/version/versionTag", "1"),
            {"version": {"versionTag": "1"}},
        ),
        ({}, op("add", "/hyperParams/-", {"name": "a"}), {"hyperParams": [{"name": "a"}]}),
        ({}, op("add", "/hyperParams/0", {"name": "a"}), {"hyperParams": [{"name": "a"}]}),
        ({}, op("add", "/unknown/-", 1), {"unknown": [1]}),
        ({"tags": ["a", "c"]}, op("add", "/tags/1", "b"), {"tags": ["a", "b", "c"]}),
        ({"tags": ["a"]}, op("add", "/tags/1", "b"), {"tags": ["a", "b"]}),
        ({"tags": ["a", "b"]}, op("replace", "/tags/0", "c"), {"tags": ["c", "b"]}),
        ({"tags": ["a", "b"]}, op("remove", "/tags/1"), {"tags": ["a"]}),
        ({"type": "a"}, op("replace", "/type", None), {"type": None}),
        ({"type": "a"}, op("remove", "/type"), {}),
        ({"type": "a"}, op("replace", "", {"name": "b"}), {"name": "b"}),
        ({"type": "a"}, op("test", "/type", "a"), {"type": "a"}),
        ({"date": 1}, op("test", "/date", 1.0), {"date": 1}),
        ({"x": [{"a": [1]}]}, op("test", "/x", [{"a": [1.0]}]), {"x": [{"a": [1]}]}),
        ({"type": "a"}, op("move", "/name", **{"from": "/type"}), {"name": "a"}),
        ({"type": "a"}, op("copy", "/name", **{"from": "/type"}), {"type": "a", "name": "a"}),
        (
            {"hyperParams": [{"name": "a", "value": "1"}]},
            op("replace", "/hyperParams/0/value", "2"),
            {"hyperParams": [{"name": "a", "value": "2"}]},
        ),
    ],
)
def test_operations_do_what_json_patch_says(
    before: dict[str, Any], operation: dict[str, Any], after: dict[str, Any]
) -> None:
    assert patched(before, operation) == after


@pytest.mark.parametrize(
    ("before", "operation", "sentence"),
    [
        ({}, op("remove", "/description"), "/description: no value to remove"),
        ({}, op("remove", "/customProperties/a~1b"), "/customProperties/a~1b: no value"),
        ({"tags": ["a"]}, op("remove", "/tags/1"), "no value to remove"),
        ({"tags": ["a"]}, op("remove", "/tags/a"), "no value to remove"),
        ({}, op("replace", "/type", "x"), "no value to replace"),
        (
            {"tags": ["a"]},
            op("replace", "/tags/-", "x"),
            "'-' is not an index of an array of length 1",
        ),
        ({"tags": ["a"]}, op("add", "/tags/3", "x"), "'3' is not an index"),
        ({"tags": ["a"]}, op("add", "/tags/01", "x"), "'01' is not an index"),
        ({"tags": ["a"]}, op("add", f"/tags/{'9' * 5000}", "x"), "is not an index"),
        ({"tags": ["a"]}, op("add", "/tags/\u0660", "x"), "is not an index"),
        ({"type": "a"}, op("add", "/type/x", 1), "/type/x: the parent is not an object"),
        ({"type": "a"}, op("test", "/type", "b"), "the test failed"),
        ({"x": True}, op("test", "/x", 1), "the test failed"),
        ({"x": [1]}, op("test", "/x", [1, 2]), "the test failed"),
        ({}, op("test", "/type", None), "no value"),
        ({}, op("copy", "/type", **{"from": "/name"}), "no value"),
    ],
)
def test_an_operation_that_does_not_fit_is_named(
    before: dict[str, Any], operation: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidProposalError, match=re.escape("patch[1].path: ")) as caught:
        patched(before, op("add", "/unknown", 1), operation)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("envelope", "sentence"),
    [
        ({"patch": [], "foo": 1}, "foo: unknown field of a patch"),
        ({"patch": [1]}, "patch[0]: expected an object"),
        ({"patch": [{}]}, "patch[0].op: expected one of add, copy, move"),
        ({"patch": [{"op": ["add"]}]}, "patch[0].op: expected one of"),
        ({"patch": [{"op": "add"}]}, "patch[0].path: expected a JSON pointer"),
        ({"patch": [op("add", "x", 1)]}, "patch[0].path: expected a JSON pointer"),
        ({"patch": [op("add", "/a~2", 1)]}, "patch[0].path: '~' must be followed"),
        ({"patch": [op("add", "/a~", 1)]}, "patch[0].path: '~' must be followed"),
        ({"patch": [op("add", "/a" * 51, 1)]}, "patch[0].path: more than 50 parts"),
        ({"patch": [{"op": "add", "path": "/a"}]}, "patch[0].value: missing"),
        ({"patch": [op("remove", "")]}, "patch[0].path: the whole aspect"),
        ({"patch": [op("move", "/a")]}, "patch[0].from: expected a JSON pointer"),
        ({"patch": [op("move", "/a/b", **{"from": "/a"})]}, "patch[0].path: inside"),
        ({"patch": [], "arrayPrimaryKeys": []}, "arrayPrimaryKeys: expected an object"),
        ({"patch": [], "arrayPrimaryKeys": {"tags": "tag"}}, "arrayPrimaryKeys.tags: expected"),
        ({"patch": [], "arrayPrimaryKeys": {"tags": [1]}}, "arrayPrimaryKeys.tags: expected"),
        ({"patch": [], "arrayPrimaryKeys": {"tags": ["a"] * 11}}, "tags: more than 10 fields"),
    ],
)
def test_what_is_no_patch_is_refused_by_the_name_of_its_field(
    envelope: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InvalidProposalError) as caught:
        read_patch(PROPERTIES, {"forceGenericPatch": True, **envelope})
    assert sentence in str(caught.value)


def test_a_patch_has_a_limit_of_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlcat_ingest.catalog.store.patch.PATCH_OPERATIONS", 1)
    assert limits.PATCH_OPERATIONS == 10_000
    with pytest.raises(InvalidProposalError, match="more than 1 operations"):
        read_patch("status", {"patch": [op("add", "/a", 1)] * 2})


def test_what_is_not_an_object_or_too_deep_is_refused() -> None:
    with pytest.raises(InvalidProposalError, match="is not an object"):
        patched({}, op("replace", "", []))
    deep: Any = 1
    for _ in range(240):
        deep = [deep]
    assert patched({}, op("add", "/a", deep)) == {"a": deep}
    for _ in range(20):
        deep = [deep]
    with pytest.raises(InvalidProposalError, match="no faithful JSON form"):
        patched({}, op("add", "/a", deep))


def test_copies_of_copies_do_not_grow_for_ever() -> None:
    doubling = [op("copy", f"/x{n}", **{"from": ""}) for n in range(60)]
    with pytest.raises(InvalidProposalError, match="too large for one patch"):
        patched({"a": "b" * 1_000}, *doubling)
    test = op("test", "", {"a": "b" * 1_000_000})
    with pytest.raises(
        InvalidProposalError, match=re.escape("patch[15].path: : the values to test")
    ):
        patched({"a": "b" * 1_000_000}, *[test] * 20)


def test_what_is_put_into_two_entries_is_not_shared() -> None:
    twice = {"entries": [{"k": "a"}, {"k": "a", "x": 1}]}
    after = patched(
        twice,
        op("add", "/entries/a/list", []),
        op("add", "/entries/a/list/-", 1),
        arrayPrimaryKeys={"entries": ["k"]},
    )
    assert [one["list"] for one in after["entries"]] == [[1], [1]]


def test_keyed_arrays_are_found_by_fields_and_nothing_is_there_to_miss() -> None:
    before = {
        "tags": [
            {"tag": "urn:li:tag:a", "attribution": BY_ACTION},
            {"tag": "urn:li:tag:b"},
            {"tag": "urn:li:tag:a"},
        ]
    }

    def tags(*operations: Any) -> Any:
        after = patched(before, *operations, aspect="globalTags", arrayPrimaryKeys=TAGS)
        return [(one["tag"][-1], "attribution" in one) for one in after["tags"]]

    everything = [("a", True), ("b", False), ("a", False)]
    assert tags(op("remove", "/tags//urn:li:tag:z")) == everything
    assert tags(op("remove", "/description")) == everything
    assert tags(op("remove", "/nothing/below")) == everything
    assert tags(op("remove", "/tags//urn:li:tag:a")) == everything[:2]
    assert tags(op("remove", "/tags/*/urn:li:tag:a")) == [("b", False)]
    assert tags(op("remove", f"/tags/{ACTION.replace('/', '~1')}")) == everything[1:]
    assert tags(op("remove", "/tags/")) == [("a", True)]
    assert tags(op("remove", "/tags/*")) == []
    assert tags(op("remove", "/tags/*/*")) == []
    assert tags(op("add", "/tags//urn:li:tag:b", {"tag": "urn:li:tag:b"})) == everything
    assert tags(op("add", "/tags//urn:li:tag:c", {})) == [*everything, ("c", False)]
    assert tags(op("add", "/tags", [])) == []


def test_entries_of_keyed_arrays_can_be_edited_inside() -> None:
    keys = {"hyperParams": ["name"]}
    before = {"hyperParams": [{"name": "a", "value": "1"}, {"name": "b"}]}
    after = patched(
        before,
        op("replace", "/hyperParams/a/value", "2"),
        op("add", "/hyperParams/c/value", "3"),
        op("test", "/hyperParams/c", {"name": "c", "value": "3"}),
        op("remove", "/hyperParams/*/description"),
        arrayPrimaryKeys=keys,
    )
    assert after["hyperParams"] == [
        {"name": "a", "value": "2"},
        {"name": "b"},
        {"name": "c", "value": "3"},
    ]
    nowhere = patched(after, op("remove", "/hyperParams/*/value"), arrayPrimaryKeys=keys)
    assert nowhere["hyperParams"] == [{"name": "a"}, {"name": "b"}, {"name": "c"}]
    for refused in (
        op("add", "/hyperParams/*/createdAt", 1),
        op("add", "/hyperParams/*", {"name": "a"}),
        op("replace", "/hyperParams/z", {"name": "z"}),
        op("test", "/hyperParams/*", {}),
        op("test", "/hyperParams/z", {}),
    ):
        with pytest.raises(InvalidProposalError):
            patched(before, refused, arrayPrimaryKeys=keys)
    moved = patched(
        before,
        op("move", "/hyperParams/z", **{"from": "/hyperParams/a"}),
        arrayPrimaryKeys=keys,
    )
    assert moved["hyperParams"] == [{"name": "b"}, {"name": "a", "value": "1"}]


def test_an_array_of_texts_is_keyed_by_itself() -> None:
    keys: dict[str, list[str]] = {"groups": []}
    before = {"groups": ["g1", "g2"]}
    add, remove = op("add", "/groups/g3", "g3"), op("remove", "/groups/g1")
    assert patched(before, add, add, arrayPrimaryKeys=keys) == {"groups": ["g1", "g2", "g3"]}
    assert patched(before, remove, remove, arrayPrimaryKeys=keys) == {"groups": ["g2"]}
    assert patched({}, op("add", "/groups/g3", {}), arrayPrimaryKeys=keys) == {"groups": ["g3"]}
    assert patched({}, remove, arrayPrimaryKeys=keys) == {}


def test_an_entry_that_names_itself_otherwise_is_put_once() -> None:
    keys = {"hyperParams": ["name"]}
    add = op("add", "/hyperParams/x", {"name": "a", "value": "2"})
    before = {"hyperParams": [{"name": "a", "value": "1"}, {"name": "b"}]}
    once = patched(before, add, add, arrayPrimaryKeys=keys)
    assert once["hyperParams"] == [{"name": "a", "value": "2"}, {"name": "b"}]
    assert patched(once, add, arrayPrimaryKeys=keys) == once


def test_entries_with_equal_keys_are_kept_until_they_are_replaced() -> None:
    keys = {"hyperParams": ["name"]}
    twice = {"hyperParams": [{"name": "a"}, {"name": "b"}, {"name": "a", "value": "1"}]}
    added = patched(twice, op("add", "/hyperParams/c", {}), arrayPrimaryKeys=keys)
    assert added["hyperParams"] == [*twice["hyperParams"], {"name": "c"}]
    replaced = patched(twice, op("add", "/hyperParams/a", {}), arrayPrimaryKeys=keys)
    assert replaced["hyperParams"] == [{"name": "a"}, {"name": "b"}]


def test_keys_may_be_numbers_booleans_unions_or_missing() -> None:
    keys = {"entries": ["k"]}
    values: list[Any] = [1, 2.5, True, None, {"string": "u"}, {"a": 1, "b": 2}, "t"]
    entries = [{"k": value} for value in values] + [7]
    for key, left in (("1", 7), ("2.5", 7), ("true", 7), ("u", 7), ("t", 7), ("", 5)):
        after = patched(
            {"entries": entries}, op("remove", f"/entries/{key}"), arrayPrimaryKeys=keys
        )
        assert len(after["entries"]) == left, key


def test_generic_patches_leave_the_known_keys_alone() -> None:
    tags = {"tags": [{"tag": "urn:li:tag:a"}]}
    add = op("add", "/tags/urn:li:tag:b", {"tag": "urn:li:tag:b"})
    assert len(patched(tags, add, aspect="globalTags")["tags"]) == 2
    with pytest.raises(InvalidProposalError, match="not an index"):
        patched(tags, add, aspect="globalTags", forceGenericPatch=True)
    with pytest.raises(InvalidProposalError, match="no value to remove"):
        patched(tags, op("remove", "/tags/urn:li:tag:b"), aspect="globalTags")


@pytest.mark.parametrize(
    "path",
    [
        "/fineGrainedLineages/NONE",
        "/fineGrainedLineages/NONE/d",
        "/fineGrainedLineages/NONE/d/NONE",
    ],
)
def test_fine_grained_lineage_takes_nothing_but_its_own_shape(path: str) -> None:
    with pytest.raises(InvalidProposalError, match="/<operation>/<downstream>"):
        patched({}, op("add", path, 5), aspect="upstreamLineage")


def test_fine_grained_lineage_with_strange_entries_keeps_them() -> None:
    strange: list[Any] = [
        1,
        {"downstreams": ["d"]},
        {"downstreams": [{}], "upstreams": ["u"]},
        {"downstreams": ["d"], "upstreams": ["u"], "query": 5},
    ]
    path = "/fineGrainedLineages/COPY/d/q"
    after = patched(
        {"fineGrainedLineages": strange},
        op("add", f"{path}/u", 0.5),
        op("add", f"{path}/v", {"confidenceScore": None}),
        op("add", "/fineGrainedLineages/COPY/e/q/u", {}),
        op("remove", "/fineGrainedLineages/COPY/e/q/u"),
        aspect="upstreamLineage",
    )
    assert after["fineGrainedLineages"][:4] == strange
    assert after["fineGrainedLineages"][4:] == [
        {
            "upstreamType": "FIELD_SET",
            "upstreams": ["u", "v"],
            "downstreamType": "FIELD",
            "downstreams": ["d"],
            "transformOperation": "COPY",
            "confidenceScore": 1.0,
            "query": "q",
        }
    ]
    whole = patched(
        {},
        op("add", f"{path}/u", {}),
        op("add", "/fineGrainedLineages", []),
        aspect="upstreamLineage",
    )
    assert whole == {"fineGrainedLineages": []}


@pytest.mark.parametrize(
    ("aspect", "start"),
    [
        ("mlModelProperties", {"customProperties": {}, "tags": []}),
        ("mlFeatureTableProperties", {"customProperties": {}}),
        ("globalTags", {"tags": []}),
        ("status", {"removed": False}),
        ("glossaryTerms", {"terms": [], "auditStamp": {"time": 5, "actor": SYSTEM_ACTOR}}),
        ("upstreamLineage", {"upstreams": []}),
        ("schemaMetadata", {}),
        ("nobodyKnows", {}),
    ],
)
def test_what_is_absent_starts_from_its_defaults(aspect: str, start: dict[str, Any]) -> None:
    assert blank(aspect, 5) == start
