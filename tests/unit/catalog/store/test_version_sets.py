"""Versions as a DataHub server keeps them: the latest of a set is computed, labels are unique."""

from typing import Any

import pytest

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.store.version_sets import _WITH_SORT_ID_OR_LABEL
from support.catalog_store import model, put, statements

SET = "urn:li:versionSet:(churn,mlModel)"
OTHER = "urn:li:versionSet:(fraud,mlModel)"
GENERATED = "ALPHANUMERIC_GENERATED_BY_DATAHUB"


def version(name: str, sort_id: str, label: str | None = None, **more: Any) -> Write:
    label = label or f"v{sort_id}"
    value = {"versionSet": SET, "version": {"versionTag": label}, "sortId": sort_id, **more}
    return Write(model(name), "versionProperties", value)


def is_latest(store: Store, name: str) -> Any:
    found = store.get_many([model(name)], ["versionProperties"])[model(name)]
    return found["versionProperties"].value.get("isLatest")


def latest(store: Store) -> Any:
    return store.get_many([SET])[SET]["versionSetProperties"].value


@pytest.mark.parametrize(("first", "second"), [("10", "1"), ("10", "0"), ("9", "10")])
def test_a_sort_id_that_is_smaller_as_text_is_not_marked_at_all(
    store: Store, first: str, second: str
) -> None:
    store.write([version("a", first)])
    store.write([version("b", second)])
    assert (is_latest(store, "a"), is_latest(store, "b")) == (True, None)
    assert latest(store)["latest"] == model("a")


def test_a_patch_keeps_the_mark(store: Store) -> None:
    store.write([version("a", "1")])
    store.write([version("b", "2")])
    for name, mark in (("a", False), ("b", True)):
        patch = {"patch": [{"op": "add", "path": "/comment", "value": "better"}]}
        store.write([Write(model(name), "versionProperties", patch, "PATCH")])
        assert is_latest(store, name) is mark


def test_a_patched_sort_id_can_make_a_version_the_latest(store: Store) -> None:
    store.write([version("a", "1")])
    store.write([version("b", "2")])
    patch = {"patch": [{"op": "replace", "path": "/sortId", "value": "3"}]}
    store.write([Write(model("a"), "versionProperties", patch, "PATCH")])
    assert (is_latest(store, "a"), is_latest(store, "b")) == (True, False)
    assert latest(store)["latest"] == model("a")


def test_new_versions_of_one_request_are_all_the_latest(store: Store) -> None:
    store.write([version("b", "2"), version("c", "3"), version("a", "1")])
    assert [is_latest(store, name) for name in "abc"] == [True, True, True]
    assert latest(store)["latest"] == model("a")
    store.write([version("d", "4"), version("e", "5"), version("f", "0")])
    assert [is_latest(store, name) for name in "adef"] == [False, True, True, None]
    assert latest(store)["latest"] == model("e")


def test_the_latest_that_a_set_is_given_is_marked_and_the_one_before_is_not(store: Store) -> None:
    for name, sort_id in (("a", "1"), ("b", "2"), ("c", "3")):
        store.write([version(name, sort_id)])
    for name, sort_id in (("a", "1"), ("b", "2"), ("c", "3")):
        store.write([version(name, sort_id)])
    assert [is_latest(store, name) for name in "abc"] == [None, None, None]

    def enter(name: str) -> None:
        value = {"latest": model(name), "versioningScheme": "LEXICOGRAPHIC_STRING"}
        store.write([Write(SET, "versionSetProperties", value)])

    enter("c")
    assert is_latest(store, "c") is None
    for name in "abc":
        enter(name)
    assert [is_latest(store, name) for name in "abc"] == [False, False, True]


def test_the_next_version_takes_over_from_a_latest_that_is_no_version_any_more(
    store: Store,
) -> None:
    store.write([version("a", "2")])
    store.write([Write(model("a"), "versionProperties", change="DELETE")])
    assert latest(store)["latest"] == model("a")
    store.write([version("b", "1")])
    assert latest(store)["latest"] == model("b")
    assert is_latest(store, "b") is True


@pytest.mark.parametrize(
    ("first", "second"), [(("1", "one"), ("1", "two")), (("1", "one"), ("2", "one"))]
)
def test_sort_ids_and_labels_are_unique(
    store: Store, first: tuple[str, str], second: tuple[str, str]
) -> None:
    says = "Sort Id and Version label must be unique: sort ID: {} version label: {}"
    with pytest.raises(InvalidProposalError, match=says.format(*second)):
        store.write([version("a", *first), version("b", *second)])
    store.write([version("a", *first)])
    with pytest.raises(InvalidProposalError, match=says.format(*second)):
        store.write([version("b", *second)])
    # The same version again is not in its own way, nor is one of another set.
    store.write([version("a", *first, comment="again")])
    store.write([version("b", *second, versionSet=OTHER)])


def test_versions_without_a_label_are_in_nobodys_way(store: Store) -> None:
    store.write([version("a", "1", version={}), version("b", "2", version={})])
    store.write([version("c", "3", version={})])
    assert latest(store)["latest"] == model("c")


def test_the_label_of_a_removed_version_is_free(store: Store) -> None:
    put(store, model("a"), status={"removed": True})
    store.write([version("a", "1")])
    store.write([version("b", "1")])
    put(store, model("a"), status={"removed": False})
    with pytest.raises(InvalidProposalError, match="must be unique"):
        store.write([version("c", "1")])


def test_a_label_is_free_for_what_stands_behind_its_deletion_or_change(store: Store) -> None:
    store.write([version("a", "1"), version("b", "2"), version("c", "3")])
    store.write(
        [
            Write(model("a"), "versionProperties", change="DELETE"),
            Write(model("b"), "status", {"removed": True}),
            version("c", "4"),
            version("d", "1"),
            version("e", "2"),
            version("f", "3"),
        ]
    )
    with pytest.raises(InvalidProposalError, match="must be unique"):
        store.write([Write(model("d"), "mlModelKey", change="DELETE"), version("g", "4")])
    store.write([Write(model("d"), "mlModelKey", change="DELETE"), version("g", "1")])


@pytest.mark.parametrize(
    ("write", "says"),
    [
        (version("b", "2", versioningScheme=GENERATED), "Expected Scheme: LEXICOGRAPHIC_STRING"),
        (version("b", "2", versionSet="urn:li:versionSet:(x,dataset)"), "expected type: dataset"),
        (Write(SET, "versionSetProperties", {"latest": model("a"), "versioningScheme": GENERATED}),
         "Versioning Scheme cannot change"),
        (Write(SET, "versionSetProperties",
               {"latest": model("b"), "versioningScheme": "LEXICOGRAPHIC_STRING"}),
         "Cannot set latest version to unversioned entity"),
    ],
)  # fmt: skip
def test_rules_of_a_set(store: Store, write: Write, says: str) -> None:
    store.write([version("a", "1")])
    with pytest.raises(InvalidProposalError, match=says):
        store.write([write])


def test_a_set_that_the_service_orders_has_its_form_of_sort_ids(store: Store) -> None:
    store.write([version("a", "AAAAAAAA", versioningScheme=GENERATED)])
    with pytest.raises(InvalidProposalError, match="Invalid sortID for Versioning Scheme"):
        store.write([version("b", "AAAAAAB", versioningScheme=GENERATED)])
    store.write([version("b", "AAAAAAAB", versioningScheme=GENERATED)])
    assert latest(store) == {"versioningScheme": GENERATED, "latest": model("b")}


def test_a_set_whose_aspect_was_deleted_goes_on_counting(store: Store) -> None:
    store.write([version("a", "1")])
    store.write([Write(SET, "versionSetProperties", change="DELETE")])
    store.write([version("b", "2")])
    assert store.get_many([SET])[SET]["versionSetProperties"].version == 2
    store.write([version("c", "3")])
    assert latest(store)["latest"] == model("c")


def test_other_writes_ask_nothing_about_versions(store: Store) -> None:
    put(store, model("a"), status={"removed": False})
    with statements(store) as seen:
        put(store, model("a"), mlModelProperties={"name": "a"}, status={"removed": True})
    assert not [one for one in seen if "versionSet" in one]
    # Reading what is there takes three statements, and the search index the rest.
    store.write([version("a", "0")])
    many = [version(str(at), f"{at:04}") for at in range(50)]
    with statements(store) as seen:
        store.write(many)
    assert len([one for one in seen if "json_extract" in one]) == 50
    assert len(seen) < 50 + 40


def test_labels_are_found_by_an_index(store: Store) -> None:
    plan = store.read(
        lambda connection: connection.exec_driver_sql(
            f"EXPLAIN QUERY PLAN {_WITH_SORT_ID_OR_LABEL}", (SET, "1", SET, "v1")
        ).all()
    )
    reported = " ".join(str(row[-1]) for row in plan)
    assert "aspect_by_version_sort_id (<expr>=? AND <expr>=?)" in reported
    assert "aspect_by_version_label (<expr>=? AND <expr>=?)" in reported
