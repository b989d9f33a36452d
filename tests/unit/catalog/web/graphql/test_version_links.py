"""Version sets: linking and unlinking as DataHub's SDK does it, and the newest version."""

from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.mutations import _next_sort_id
from support.catalog_graphql import ask, refused
from support.catalog_store import group, model, put

SET = "urn:li:versionSet:(churn,mlModel)"
LINK = """mutation ($inputs: LinkVersionInput!) { linkAssetVersion(input: $inputs) {
    urn latestVersion { urn } } }"""
UNLINK = (
    "mutation ($inputs: UnlinkVersionInput!) { unlinkAssetVersion(input: $inputs) { urn exists } }"
)


def given(urn: str, label: str, version_set: str = SET, **more: Any) -> dict[str, Any]:
    """Return the input that links a version."""
    return {"versionSet": version_set, "linkedEntity": urn, "version": label, **more}


def link(store: Store, urn: str, label: str, version_set: str = SET, **more: Any) -> Any:
    return ask(store, LINK, inputs=given(urn, label, version_set, **more))["linkAssetVersion"]


def unlink(store: Store, urn: str, version_set: str | None = SET) -> Any:
    inputs = {"versionSet": version_set, "unlinkedEntity": urn}
    return ask(store, UNLINK, inputs=inputs)["unlinkAssetVersion"]


@pytest.fixture(autouse=True)
def models(store: Store) -> None:
    for name in ("a", "b", "c"):
        put(store, model(name), mlModelProperties={})


def latest(store: Store) -> Any:
    found = store.get_many([SET]).get(SET)
    return found and found["versionSetProperties"].value["latest"]


def version(store: Store, name: str) -> Any:
    found = store.get_many([model(name)])[model(name)].get("versionProperties")
    return None if found is None else found.value


def test_the_last_that_was_linked_is_the_newest(store: Store) -> None:
    link(store, model("b"), "1", comment="first")
    link(store, model("a"), "2", sourceTimestamp=7)
    assert latest(store) == model("a")
    first, second = version(store, "b"), version(store, "a")
    assert (first["isLatest"], second["isLatest"]) == (False, True)
    assert first["sortId"] < second["sortId"]
    assert first["comment"] == "first"
    assert second["sourceCreatedTimestamp"]["time"] == 7
    stamp = second["metadataCreatedTimestamp"]
    assert second["version"] == {"versionTag": "2", "metadataAttribution": stamp}


def test_when_the_newest_leaves_the_one_before_it_is_newest_again(store: Store) -> None:
    for place, name in enumerate(("a", "b", "c")):
        link(store, model(name), str(place))
    assert unlink(store, model("b")) == {"urn": SET, "exists": True}
    assert latest(store) == model("c")
    assert unlink(store, model("c"), None)["urn"] == SET
    assert latest(store) == model("a")
    assert version(store, "a")["isLatest"] is True
    assert version(store, "c") is None
    assert unlink(store, model("a")) == {"urn": SET, "exists": False}
    assert latest(store) is None
    link(store, model("c"), "again")
    assert latest(store) == model("c")


def test_a_set_with_an_order_of_its_own_goes_by_labels(store: Store) -> None:
    value = {"versionSet": SET, "version": {"versionTag": "1"}, "sortId": "v1"}
    put(store, model("b"), versionProperties=value)
    link(store, model("a"), "v2")
    assert version(store, "a")["sortId"] == "v2"
    assert latest(store) == model("a")


@pytest.mark.parametrize(
    ("version_set", "urn", "says"),
    [
        (SET, group("g"), "entity type mlModelGroup does not support versions"),
        (model("a"), model("a"), "not the URN of a version set"),
        ("urn:li:versionSet:(x,dataset)", model("a"), "a version set of dataset"),
    ],
)
def test_what_cannot_be_linked(store: Store, version_set: str, urn: str, says: str) -> None:
    error = refused(store, LINK, inputs=given(urn, "1", version_set))
    assert says in error["message"]
    assert error["extensions"]["code"] == 400


def test_an_entity_is_in_one_set_at_a_time(store: Store) -> None:
    other = "urn:li:versionSet:(other,mlModel)"
    linked = {"urn": SET, "latestVersion": {"urn": model("new")}}
    assert link(store, model("new"), "1", comment=None) == linked
    assert link(store, model("new"), "1", other) is None
    assert version(store, "new")["versionSet"] == SET
    inputs = {"versionSet": other, "unlinkedEntity": model("new")}
    assert "not of urn:li:versionSet:" in refused(store, UNLINK, inputs=inputs)["message"]
    assert unlink(store, model("b"), None) is None
    assert "unlinkedEntity" in refused(store, UNLINK, inputs={})["message"]


def test_a_set_that_changes_meanwhile_is_not_overwritten(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    link(store, model("a"), "1")
    write = store.write

    def late(items: Any, *rest: Any) -> Any:
        monkeypatch.setattr(store, "write", write)
        link(store, model("b"), "2")
        return write(items, *rest)

    monkeypatch.setattr(store, "write", late)
    error = refused(store, LINK, inputs=given(model("c"), "3"))
    assert "must be unique" in error["message"]
    assert latest(store) == model("b")
    assert version(store, "c") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [("AAAAAAAA", "AAAAAAAB"), ("AAAZ", "AABA"), ("AZZZ", "BAAA"), ("ZZ", "ZZA"), ("v1", "v1A")],
)
def test_the_next_sort_id_sorts_behind(before: str, after: str) -> None:
    assert _next_sort_id(before) == after
    assert before < after
