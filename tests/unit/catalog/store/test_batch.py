"""PATCH, DELETE, UPDATE, RESTATE, and the conditions that any of them may carry."""

import gc
import threading
from typing import Any

import pytest
from sqlalchemy import text

from mlcat_ingest.catalog.errors import InvalidProposalError, VersionConflictError
from mlcat_ingest.catalog.schema.values import (
    AspectVersion,
    Change,
    Write,
    WriteResult,
)
from mlcat_ingest.catalog.store.batch import Batch
from mlcat_ingest.catalog.store.store import Store
from support.catalog_store import feature, group, incoming, model, named, put, statements, table

PROPERTIES = "mlModelProperties"
OWNER = {"aspect": "entity_id", "aspect_history": "entity_id", "edge": "source_id"}


def patch(urn: str, *operations: Any, aspect: str = PROPERTIES, **more: Any) -> Write:
    keys = more.pop("arrayPrimaryKeys", None)
    envelope: dict[str, Any] = {"patch": list(operations), "forceGenericPatch": True}
    if keys is not None:
        envelope["arrayPrimaryKeys"] = keys
    return Write(urn, aspect, envelope, "PATCH", **more)


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def remove(path: str) -> dict[str, Any]:
    return {"op": "remove", "path": path, "value": {}}


def stored(store: Store, urn: str, name: str = PROPERTIES) -> AspectVersion:
    return store.get_many([urn], [name])[urn][name]


def test_a_patch_makes_what_is_not_there_from_its_defaults(store: Store) -> None:
    [written] = store.write([patch(model("m"), add("/description", "d"))])
    assert written == WriteResult(model("m"), PROPERTIES, 1, changed=True)
    defaults: dict[str, Any] = {"customProperties": {}, "tags": []}
    assert stored(store, model("m")).value == {**defaults, "description": "d"}
    store.write([patch(model("m"), remove("/description"))])
    assert stored(store, model("m")).value == defaults


def test_a_patch_keeps_what_it_does_not_name(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": "n", "date": 1, "tags": ["a"]})
    [written] = store.write([patch(urn, add("/groups/-", group("g")), add("/name", "m2"))])
    assert written.version == 2
    assert stored(store, urn).value == {
        "name": "m2",
        "date": 1,
        "tags": ["a"],
        "groups": [group("g")],
    }
    related = incoming(store, group("g"), "MemberOf")
    assert [one.urn for one in related.entities] == [urn]
    assert named(store, "m2") == (urn,)


def test_a_patch_that_changes_nothing_makes_no_version(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": "n"})
    same = patch(urn, add("/name", "n"))
    gone = patch(urn, remove("/tags/x"), arrayPrimaryKeys={"tags": []})
    nowhere = patch(model("x"), remove("/tags/x"), arrayPrimaryKeys={"tags": []})
    assert store.write([same, gone, nowhere]) == [
        WriteResult(urn, PROPERTIES, 1, changed=False),
        WriteResult(urn, PROPERTIES, 1, changed=False),
        WriteResult(model("x"), PROPERTIES, 0, changed=False),
    ]
    assert store.exists([model("x")]) == set()
    assert stored(store, urn).value == {"name": "n"}


def test_patches_of_a_batch_see_each_other_and_what_was_written(store: Store) -> None:
    urn = model("m")
    written = store.write(
        [
            patch(urn, add("/customProperties/a", "1")),
            patch(urn, add("/customProperties/b", "2")),
            Write(urn, PROPERTIES, {"customProperties": {"c": "3"}}),
            patch(urn, remove("/customProperties/c"), add("/customProperties/d", "4")),
        ]
    )
    assert [one.version for one in written] == [1, 2, 3, 4]
    assert stored(store, urn).value == {"customProperties": {"d": "4"}}


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (patch(model("m"), remove("/description")), r"patch\[0\].path: /description: no value"),
        (
            patch(model("m"), add("/description", 3)),
            "/description :: 3 cannot be coerced to Str",
        ),
        (patch(model("m"), add("/groups/-", "x")), "/groups/0 :: "),
        (patch(model("m"), {"op": "merge"}), r"patch\[0\].op: "),
        (
            patch(model("m"), add("/name", "x"), aspect="mlModelKey"),
            "mlModelKey: cannot be patched",
        ),
        (patch(model("m"), add("/x", "x"), aspect="mlFeatureProperties"), "Unknown aspect"),
        (
            patch("urn:li:dataset:(urn:li:dataPlatform:s3,a,PROD)", aspect="operation"),
            "operation: a timeseries aspect",
        ),
        (patch(model("m"), add("/versionSet", "x"), aspect="versionProperties"), "is requ"),
        (
            patch("urn:li:assertion:a", add("/timestampMillis", 1), aspect="assertionRunEvent"),
            "assertionRunEvent: a timeseries aspect",
        ),
    ],
)
def test_a_patch_that_cannot_be_applied_takes_the_batch_back(
    store: Store, write: Write, sentence: str
) -> None:
    with pytest.raises(InvalidProposalError, match=sentence):
        store.write([Write(model("good"), PROPERTIES, {}), write])
    assert store.exists([model("good"), model("m")]) == set()


def test_a_patch_that_nests_too_deeply_is_refused_as_one_of_its_batch(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={})
    deep: Any = 1
    for _ in range(240):
        deep = [deep]
    with pytest.raises(InvalidProposalError, match="no faithful JSON form"):
        store.write([patch(model("a"), add("/x", 1)), patch(urn, add("/a" * 50, deep))])


def test_concurrent_patches_lose_no_entry(store: Store) -> None:
    urn = put(store, table("t"), mlFeatureTableProperties={})

    def work(number: int) -> None:
        for turn in range(5):
            name = feature("t", f"{number}_{turn}")
            edit = patch(
                urn,
                add(f"/mlFeatures/{name}", name),
                aspect="mlFeatureTableProperties",
                arrayPrimaryKeys={"mlFeatures": []},
            )
            store.write([edit])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    held = stored(store, urn, "mlFeatureTableProperties")
    assert len(set(held.value["mlFeatures"])) == len(held.value["mlFeatures"]) == 30
    assert held.version == 31


@pytest.mark.parametrize("change", ["UPSERT", "PATCH", "DELETE"])
def test_a_batch_takes_as_many_statements_as_a_single_write(store: Store, change: Change) -> None:
    value: dict[str, Any] = {"name": "n"}
    if change == "PATCH":
        value = {"patch": [add("/name", "n")], "forceGenericPatch": True}
    counts = []
    for size in (2, 60):
        urns = [put(store, model(f"{size}_{n}"), mlModelProperties={}) for n in range(size)]
        with statements(store) as seen:
            store.write([Write(urn, PROPERTIES, value, change) for urn in urns])
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_a_deleted_aspect_is_gone_and_its_versions_can_be_read(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": "called", "groups": [group("g")]})
    delete = Write(urn, PROPERTIES, change="DELETE")
    assert store.write([delete]) == [WriteResult(urn, PROPERTIES, 0, changed=True)]
    assert PROPERTIES not in store.get_many([urn])[urn]
    assert incoming(store, group("g")).total == 0
    assert named(store, "called") == ()
    first = store.get_version(urn, PROPERTIES, 1)
    assert first is not None
    assert first.value["name"] == "called"
    assert store.write([delete]) == [WriteResult(urn, PROPERTIES, 0, changed=False)]
    [again] = store.write(
        [Write(urn, PROPERTIES, {"name": "called"}, "CREATE", expected_version="-1")]
    )
    assert again.version == 2
    assert store.get_version(urn, PROPERTIES, 3) is None


def test_an_aspect_may_be_deleted_and_written_in_one_batch(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": "a"}, status={"removed": True})
    delete = Write(urn, PROPERTIES, change="DELETE")
    written = store.write(
        [
            delete,
            Write(urn, PROPERTIES, {"name": "b"}),
            delete,
            patch(urn, add("/name", "c")),
            Write(urn, "subTypes", {"typeNames": ["x"]}),
            Write(urn, "subTypes", change="DELETE"),
        ]
    )
    assert [one.version for one in written] == [0, 2, 0, 3, 1, 0]
    held = store.get_many([urn])[urn]
    assert held[PROPERTIES].value["name"] == "c"
    assert "subTypes" not in held
    past = [store.get_version(urn, PROPERTIES, n) for n in (1, 2, 3)]
    assert [one.value["name"] for one in past if one] == ["a", "b", "c"]


def test_deleting_the_key_deletes_the_entity(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": "a", "groups": [group("g")]})
    put(store, urn, mlModelProperties={"name": "b"})
    key = Write(urn, "mlModelKey", change="DELETE")
    written = store.write([key, key, Write(model("never"), "mlModelKey", change="DELETE")])
    assert [one.changed for one in written] == [True, False, False]
    for name in ("aspect", "aspect_history", "edge"):
        rows = text(
            f"SELECT count(*) FROM {name} JOIN entity ON id = {OWNER[name]} WHERE urn = :urn"
        )
        assert store.read(lambda c, rows=rows: c.scalar(rows, {"urn": urn})) == 0  # type: ignore[misc]
    assert store.exists([urn]) == set()
    assert put(store, urn, mlModelProperties={}) == urn
    assert stored(store, urn).version == 1


def test_an_entity_may_be_deleted_and_made_again_in_one_batch(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": "a"}, status={"removed": True})
    written = store.write(
        [
            Write(urn, PROPERTIES, {"name": "b", "groups": [group("g")]}),
            Write(urn, "mlModelKey", change="DELETE"),
            Write(urn, PROPERTIES, {"name": "c"}),
            Write(model("new"), "status", {"removed": False}),
            Write(model("new"), "mlModelKey", change="DELETE"),
        ]
    )
    assert [one.version for one in written] == [2, 0, 1, 1, 0]
    held = store.get_many([urn, model("new")])
    assert list(held) == [urn]
    assert held[urn][PROPERTIES].value == {"name": "c"}
    assert "status" not in held[urn]
    assert incoming(store, group("g")).total == 0


@pytest.mark.parametrize("change", ["UPSERT", "UPDATE", "PATCH", "DELETE", "CREATE"])
def test_any_change_may_depend_on_the_version(store: Store, change: Change) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": "a"})
    value: dict[str, Any] = {"name": "b"}
    if change == "PATCH":
        value = {"patch": [add("/name", "b")], "forceGenericPatch": True}
    wrong = Write(urn, PROPERTIES, value, change, expected_version="2")
    with pytest.raises(VersionConflictError, match="Expected version 2, actual version 1"):
        store.write([wrong])
    absent = Write(model("x"), PROPERTIES, value, change, expected_version="1")
    with pytest.raises(VersionConflictError, match="Expected version 1, actual version -1"):
        store.write([absent])
    unborn = Write(urn, PROPERTIES, value, change, expected_version="-1")
    with pytest.raises(VersionConflictError, match="Expected version -1, actual version 1"):
        store.write([unborn])
    if change != "CREATE":
        [written] = store.write([Write(urn, PROPERTIES, value, change, expected_version="1")])
        assert written.changed
        assert written.version == (0 if change == "DELETE" else 2)


def test_a_write_may_depend_on_the_time_of_the_last_change(store: Store) -> None:
    urn = put(store, model("m"), mlModelProperties={"name": "a"})
    at = stored(store, urn).modified_ms

    def attempt(name: str, urn: str = urn, **times: int) -> bool:
        try:
            store.write([Write(urn, PROPERTIES, {"name": name}, **times)])  # type: ignore[arg-type]
        except VersionConflictError:
            return False
        return True

    assert not attempt("b", if_modified_since_ms=at)
    assert not attempt("b", if_unmodified_since_ms=at - 1)
    assert not attempt("b", model("x"), if_modified_since_ms=0)
    assert attempt("b", if_modified_since_ms=at - 1)
    assert attempt("c", if_unmodified_since_ms=stored(store, urn).modified_ms)
    assert attempt("d", model("x"), if_unmodified_since_ms=0)


def test_a_batch_is_freed_without_a_search_for_garbage(store: Store) -> None:
    def batches() -> int:
        return sum(isinstance(one, Batch) for one in gc.get_objects())

    gc.disable()
    try:
        before = batches()
        store.write([Write(model("m"), PROPERTIES, {"name": "m"})])
        assert batches() == before
    finally:
        gc.enable()
