"""Tags and versions, changed over GraphQL as DataHub's SDK does it."""

import pytest

from mlcat_ingest.catalog.store.store import Store
from support.catalog_graphql import ask, read, refused
from support.catalog_store import model, put

CREATE = "mutation ($tag: CreateTagInput!) { createTag(input: $tag) }"
REMOVE = "mutation ($inputs: TagAssociationInput!) { removeTag(input: $inputs) }"
LINK = """mutation ($inputs: LinkVersionInput!) { linkAssetVersion(input: $inputs) {
    urn latestVersion { urn } } }"""
UNLINK = (
    "mutation ($inputs: UnlinkVersionInput!) { unlinkAssetVersion(input: $inputs) { urn exists } }"
)
TAGS = "... on MLModel { tags { tags { tag { urn } } } }"
SET = "urn:li:versionSet:(churn,mlModel)"


def tags(store: Store, urn: str) -> list[str]:
    return [one["tag"]["urn"] for one in read(store, urn, TAGS)["tags"]["tags"]]


def test_a_tag_is_made_and_not_replaced(store: Store) -> None:
    made = ask(store, CREATE, tag={"id": "pii", "name": "PII", "description": "private"})
    assert made == {"createTag": "urn:li:tag:pii"}
    error = refused(store, CREATE, tag={"id": "pii", "name": "Private"})
    assert error["message"] == "This Tag already exists!"
    fields = "... on Tag { properties { name description } }"
    assert read(store, "urn:li:tag:pii", fields)["properties"] == {
        "name": "PII",
        "description": "private",
    }
    assert ask(store, CREATE, tag={"name": "x"})["createTag"].startswith("urn:li:tag:")


def test_a_tag_is_taken_off_one_entity_and_no_other_tag_with_it(store: Store) -> None:
    odd = "urn:li:tag:a/b~c"
    tagged = {"tags": [{"tag": odd}, {"tag": "urn:li:tag:b", "context": "kept"}]}
    put(store, model("m"), globalTags=tagged)
    inputs = {"tagUrn": odd, "resourceUrn": model("m")}
    for _ in range(2):
        assert ask(store, REMOVE, inputs=inputs) == {"removeTag": True}
        assert tags(store, model("m")) == ["urn:li:tag:b"]


def test_what_has_no_tags_gets_none(store: Store) -> None:
    put(store, model("m"), mlModelProperties={})
    inputs = {"tagUrn": "urn:li:tag:a", "resourceUrn": model("m")}
    assert ask(store, REMOVE, inputs=inputs) == {"removeTag": True}
    assert read(store, model("m"), TAGS) == {"tags": None}


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"resourceUrn": model("no")}, "Entity does not exist."),
        ({"subResource": "field"}, "whole entities only"),
        ({"tagUrn": "a"}, "'a' is not the URN of a tag"),
    ],
)
def test_tags_that_cannot_be_removed(store: Store, changed: dict[str, str], says: str) -> None:
    put(store, model("m"), mlModelProperties={})
    inputs = {"tagUrn": "urn:li:tag:a", "resourceUrn": model("m"), **changed}
    error = refused(store, REMOVE, inputs=inputs)
    assert says in error["message"]
    assert error["extensions"]["code"] == 400


def test_versions_are_linked_and_unlinked(store: Store) -> None:
    put(store, model("m"), mlModelProperties={})
    inputs = {"versionSet": SET, "linkedEntity": model("m"), "version": "1", "comment": None}
    linked = ask(store, LINK, inputs=inputs)["linkAssetVersion"]
    assert linked == {"urn": SET, "latestVersion": {"urn": model("m")}}
    assert ask(store, LINK, inputs=inputs) == {"linkAssetVersion": None}
    inputs = {"versionSet": SET, "unlinkedEntity": model("m")}
    assert ask(store, UNLINK, inputs=inputs)["unlinkAssetVersion"] == {"urn": SET, "exists": False}
    assert "unlinkedEntity" in refused(store, UNLINK, inputs={})["message"]
    assert ask(store, UNLINK, inputs=inputs) == {"unlinkAssetVersion": None}
