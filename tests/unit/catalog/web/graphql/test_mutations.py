"""Entities and tags, changed over GraphQL as DataHub's clients do it."""

import pytest

from mlcat_ingest.catalog.store.store import Store
from support.catalog_graphql import ask, read, refused
from support.catalog_store import model, put

CREATE = "mutation ($tag: CreateTagInput!) { createTag(input: $tag) }"
REMOVE = "mutation ($inputs: TagAssociationInput!) { removeTag(input: $inputs) }"
TAGS = "... on MLModel { tags { tags { tag { urn } } } }"


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
        ({"subResource": "field"}, "only whole entities"),
        ({"tagUrn": "a"}, "'a' is not a URN"),
    ],
)
def test_tags_that_cannot_be_removed(store: Store, changed: dict[str, str], says: str) -> None:
    put(store, model("m"), mlModelProperties={})
    inputs = {"tagUrn": "urn:li:tag:a", "resourceUrn": model("m"), **changed}
    error = refused(store, REMOVE, inputs=inputs)
    assert says in error["message"]
    assert error["extensions"]["code"] == 400


EVERY = """mutation ($m: String!, $n: String!) {
    addTags(input: {tagUrns: ["urn:li:tag:a", "urn:li:tag:b"], resourceUrn: $m})
    batchRemoveTags(input: {tagUrns: ["urn:li:tag:a"], resources: [{resourceUrn: $m}]})
    batchAddTerms(input: {termUrns: ["urn:li:glossaryTerm:t"],
        resources: [{resourceUrn: $m}, {resourceUrn: $n}]})
    removeTerm(input: {termUrn: "urn:li:glossaryTerm:t", resourceUrn: $n})
    batchAddOwners(input: {resources: [{resourceUrn: $m}],
        ownershipTypeUrn: "urn:li:ownershipType:__system__data_steward",
        owners: [{ownerUrn: "urn:li:corpuser:jane", ownerEntityType: CORP_USER},
            {ownerUrn: "urn:li:corpGroup:ml", ownerEntityType: CORP_GROUP, type: DEVELOPER}]})
    batchSetDomain(input: {domainUrn: "urn:li:domain:d", resources: [{resourceUrn: $m}]})
    updateDeprecation(input: {urn: $m, deprecated: true, note: "old"})
    updateDescription(input: {resourceUrn: $m, description: "by people"})
    addLink(input: {resourceUrn: $m, linkUrl: "https://x.example", label: "X",
        settings: {showInAssetPreview: true}})
    upsertStructuredProperties(input: {assetUrn: $m, structuredPropertyInputParams: [
        {structuredPropertyUrn: "urn:li:structuredProperty:p", values: [{stringValue: "x"}]},
        {structuredPropertyUrn: "urn:li:structuredProperty:q", values: [{numberValue: 2}]}]}) {
        properties { values { ... on StringValue { stringValue }
            ... on NumberValue { numberValue } } } }
    removeStructuredProperties(input: {assetUrn: $m,
        structuredPropertyUrns: ["urn:li:structuredProperty:q"]}) {
        properties { structuredProperty { urn } } }
}"""
AFTER = """... on MLModel { editableProperties { description } deprecation { note }
    tags { tags { tag { urn } } } glossaryTerms { terms { term { urn } } }
    ownership { owners { type ownershipType { urn } } } domain { domain { urn } }
    institutionalMemory { elements { url label } } }"""


@pytest.mark.parametrize(("resources", "labels"), [(10_001, 1), (1, 10_001), (101, 100)])
@pytest.mark.parametrize("name", ["batchAddTags", "batchRemoveTags"])
def test_a_mutation_has_the_limit_of_a_batch(
    store: Store, name: str, resources: int, labels: int
) -> None:
    inputs = {
        "resources": [{"resourceUrn": model(str(one))} for one in range(resources)],
        "tagUrns": [f"urn:li:tag:{one}" for one in range(labels)],
    }
    query = f"mutation ($it: {name[0].upper()}{name[1:]}Input!) {{ {name}(input: $it) }}"
    error = refused(store, query, it=inputs)
    count = resources * labels
    assert error["message"] == f"the body has {count} changes; the limit is 10000"


def test_people_edit_entities(store: Store) -> None:
    for name in ("a", "b"):
        put(store, f"urn:li:tag:{name}", tagProperties={"name": name})
    put(store, "urn:li:glossaryTerm:t", glossaryTermInfo={"definition": "", "termSource": "x"})
    put(store, "urn:li:domain:d", domainProperties={"name": "d"})
    put(store, "urn:li:corpuser:jane", corpUserInfo={"active": True})
    put(store, "urn:li:corpGroup:ml", status={"removed": False})
    definition = {"qualifiedName": "p", "valueType": "urn:li:dataType:x", "entityTypes": []}
    for name in ("p", "q"):
        put(store, f"urn:li:structuredProperty:{name}", propertyDefinition=definition)
    for name in ("m", "n"):
        put(store, model(name), mlModelProperties={})
    answer = ask(store, EVERY, m=model("m"), n=model("n"))
    values = [one["values"][0] for one in answer.pop("upsertStructuredProperties")["properties"]]
    assert values == [{"stringValue": "x"}, {"numberValue": 2.0}]
    (left,) = answer.pop("removeStructuredProperties")["properties"]
    assert left["structuredProperty"]["urn"] == "urn:li:structuredProperty:p"
    assert set(answer.values()) == {True}
    steward = "urn:li:ownershipType:__system__data_steward"
    assert read(store, model("m"), AFTER) == {
        "editableProperties": {"description": "by people"},
        "deprecation": {"note": "old"},
        "tags": {"tags": [{"tag": {"urn": "urn:li:tag:b"}}]},
        "glossaryTerms": {"terms": [{"term": {"urn": "urn:li:glossaryTerm:t"}}]},
        "ownership": {
            "owners": [
                {"type": "NONE", "ownershipType": {"urn": steward}},
                {"type": "DEVELOPER", "ownershipType": {"urn": steward}},
            ]
        },
        "domain": {"domain": {"urn": "urn:li:domain:d"}},
        "institutionalMemory": {"elements": [{"url": "https://x.example", "label": "X"}]},
    }
    assert read(store, model("n"), AFTER)["glossaryTerms"] == {"terms": []}
