"""Version sets: linking and unlinking, and the newest version."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.mutations import link, next_sort_id, unlink
from support.catalog_store import group, model, open_store, put

SET = "urn:li:versionSet:(churn,mlModel)"


def named(version_set: str, urn: str, label: str, **more: Any) -> dict[str, Any]:
    """Return the input that links a version."""
    return {"versionSet": version_set, "linkedEntity": urn, "version": label, **more}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(open_store(tmp_path / "catalog.db")) as opened:
        for name in ("a", "b", "c"):
            put(opened, model(name), mlModelProperties={})
        yield opened


def latest(store: Store) -> Any:
    found = store.get_many([SET]).get(SET)
    return found and found["versionSetProperties"].value["latest"]


def version(store: Store, name: str) -> Any:
    found = store.get_many([model(name)])[model(name)].get("versionProperties")
    return None if found is None else found.value


def test_the_last_that_was_linked_is_the_newest(store: Store) -> None:
    link(store, named(SET, model("b"), "1", comment="first"))
    link(store, named(SET, model("a"), "2", sourceTimestamp=7))
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
        link(store, named(SET, model(name), str(place)))
    assert unlink(store, SET, model("b")) == SET
    assert latest(store) == model("c")
    assert unlink(store, None, model("c")) == SET
    assert latest(store) == model("a")
    assert version(store, "a")["isLatest"] is True
    assert version(store, "c") is None
    unlink(store, SET, model("a"))
    assert latest(store) is None
    link(store, named(SET, model("c"), "again"))
    assert latest(store) == model("c")


def test_a_set_with_an_order_of_its_own_goes_by_labels(store: Store) -> None:
    value = {"versionSet": SET, "version": {"versionTag": "1"}, "sortId": "v1"}
    put(store, model("b"), versionProperties=value)
    link(store, named(SET, model("a"), "v2"))
    assert version(store, "a")["sortId"] == "v2"
    assert latest(store) == model("a")


@pytest.mark.parametrize(
    ("version_set", "urn", "error", "says"),
    [
        (SET, group("g"), BadRequestError, "entity type mlModelGroup does not support versions"),
        (model("a"), model("a"), BadRequestError, "not the URN of a version set"),
        ("urn:li:versionSet:(x,dataset)", model("a"), BadRequestError, "a version set of dataset"),
    ],
)
def test_what_cannot_be_linked(
    store: Store, version_set: str, urn: str, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        link(store, named(version_set, urn, "1"))


def test_an_entity_is_in_one_set_at_a_time(store: Store) -> None:
    other = "urn:li:versionSet:(other,mlModel)"
    assert link(store, named(SET, model("a"), "1"))
    assert not link(store, named(other, model("a"), "1"))
    assert version(store, "a")["versionSet"] == SET
    with pytest.raises(BadRequestError, match="not of urn:li:versionSet:"):
        unlink(store, other, model("a"))
    assert unlink(store, None, model("b")) is None


def test_an_entity_that_was_never_written_becomes_a_version(store: Store) -> None:
    assert link(store, named(SET, model("new"), "1"))
    assert latest(store) == model("new")


def test_a_set_that_changes_meanwhile_is_not_overwritten(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    link(store, named(SET, model("a"), "1"))
    write = store.write

    def late(items: Any, *rest: Any) -> Any:
        monkeypatch.setattr(store, "write", write)
        link(store, named(SET, model("b"), "2"))
        return write(items, *rest)

    monkeypatch.setattr(store, "write", late)
    with pytest.raises(InvalidProposalError, match="must be unique"):
        link(store, named(SET, model("c"), "3"))
    assert latest(store) == model("b")
    assert version(store, "c") is None


@pytest.mark.parametrize(
    ("before", "after"),
    [("AAAAAAAA", "AAAAAAAB"), ("AAAZ", "AABA"), ("AZZZ", "BAAA"), ("ZZ", "ZZA"), ("v1", "v1A")],
)
def test_the_next_sort_id_sorts_behind(before: str, after: str) -> None:
    assert next_sort_id(before) == after
    assert before < after
