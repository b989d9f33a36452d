"""What else hangs on a model: versions, structured properties, forms and places."""

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.codec import loads
from support.catalog_graphql import read
from support.catalog_store import MLFLOW, model, put

ADA = "urn:li:corpuser:ada"
DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,bucket/data,PROD)"


def test_versions(store: Store) -> None:
    version_set = "urn:li:versionSet:(churn,mlModel)"
    stamp = {"time": 7, "actor": ADA}
    put(
        store,
        model("m"),
        versionProperties={
            "versionSet": version_set,
            "version": {"versionTag": "3"},
            "sortId": "0003",
            "aliases": [{"versionTag": "champion"}],
            "metadataCreatedTimestamp": stamp,
        },
    )
    fields = """... on SupportsVersions { versionProperties { isLatest comment
        version { versionTag } aliases { versionTag }
        created { time actor { username } } createdInSource { time }
        versionSet { urn latestVersion { urn } } } }"""
    assert read(store, model("m"), fields)["versionProperties"] == {
        "isLatest": True,
        "comment": None,
        "version": {"versionTag": "3"},
        "aliases": [{"versionTag": "champion"}],
        "created": {"time": 7, "actor": {"username": "ada"}},
        "createdInSource": None,
        "versionSet": {"urn": version_set, "latestVersion": {"urn": model("m")}},
    }


def test_structured_properties_forms_and_places(store: Store) -> None:
    tier, twin = "urn:li:structuredProperty:io.tier", "urn:li:structuredProperty:io.twin"
    put(store, tier, propertyDefinition={"qualifiedName": "io.tier", "displayName": "Tier"})
    put(
        store,
        model("m"),
        structuredProperties={
            "properties": [
                {"propertyUrn": tier, "values": [{"string": "gold"}, {"double": 2.5}]},
                {"propertyUrn": twin, "values": [{"string": model("n")}]},
            ]
        },
        forms={
            "completedForms": [],
            "incompleteForms": [{"urn": "urn:li:form:f"}],
            "verifications": [],
        },
        browsePathsV2={"path": [{"id": "Default"}, {"id": "c", "urn": "urn:li:container:c"}]},
        deprecation={
            "deprecated": True,
            "note": "old",
            "actor": ADA,
            "replacement": model("n"),
        },
    )
    fields = """... on GovernedEntity {
        structuredProperties { properties { structuredProperty { urn definition { displayName } }
            values { ... on StringValue { stringValue } ... on NumberValue { numberValue } }
            valueEntities { urn } associatedUrn } }
        forms { completedForms { form { urn } } incompleteForms { form { urn } associatedUrn } }
        deprecation { deprecated note replacement { urn } } }
        ... on BrowsableEntity {
            browsePathV2 { path { name entity { urn } } } }
        privileges { canEditProperties }"""
    assert read(store, model("m"), fields) == {
        "structuredProperties": {
            "properties": [
                {
                    "structuredProperty": {"urn": tier, "definition": {"displayName": "Tier"}},
                    "values": [{"stringValue": "gold"}, {"numberValue": 2.5}],
                    "valueEntities": [],
                    "associatedUrn": model("m"),
                },
                {
                    "structuredProperty": {"urn": twin, "definition": None},
                    "values": [{"stringValue": model("n")}],
                    "valueEntities": [{"urn": model("n")}],
                    "associatedUrn": model("m"),
                },
            ]
        },
        "forms": {
            "completedForms": [],
            "incompleteForms": [{"form": {"urn": "urn:li:form:f"}, "associatedUrn": model("m")}],
        },
        "deprecation": {"deprecated": True, "note": "old", "replacement": {"urn": model("n")}},
        "browsePathV2": {
            "path": [
                {"name": "Default", "entity": None},
                {"name": "c", "entity": {"urn": "urn:li:container:c"}},
            ]
        },
        "privileges": {"canEditProperties": True},
    }


def test_the_kind_and_the_container_of_an_asset(store: Store) -> None:
    put(
        store,
        DATASET,
        container={"container": "urn:li:container:c"},
        subTypes={"typeNames": ["Table"]},
    )
    fields = "... on ContainedEntity { container { urn } subTypes { typeNames } }"
    assert read(store, DATASET, fields) == {
        "container": {"urn": "urn:li:container:c"},
        "subTypes": {"typeNames": ["Table"]},
    }


def test_whatever_has_no_field_can_be_had_as_json(store: Store) -> None:
    put(store, model("m"), mlModelProperties={"type": "Lasso"}, subTypes={"typeNames": ["run"]})
    put(store, "urn:li:dataHubPolicy:p", dataHubPolicyInfo={"any": {"thing": [1]}})
    fields = 'aspects(input: {aspectNames: ["subTypes", "nope"]}) { aspectName payload }'
    (only,) = read(store, model("m"), fields)["aspects"]
    assert only["aspectName"] == "subTypes"
    assert loads(only["payload"]) == {"typeNames": ["run"]}
    found = read(store, "urn:li:dataHubPolicy:p", "__typename aspects { aspectName }")
    assert found["__typename"] == "OtherEntity"
    assert {"aspectName": "dataHubPolicyInfo"} in found["aspects"]
    drawn = "aspects(input: {autoRenderOnly: true}) { aspectName }"
    assert read(store, model("m"), drawn)["aspects"] == []


def test_an_entity_that_is_gone_has_no_platform(store: Store) -> None:
    put(store, model("m"), dataPlatformInstance={"platform": MLFLOW})
    fields = "... on GovernedEntity { dataPlatformInstance { urn } }"
    assert read(store, model("m"), fields) == {"dataPlatformInstance": None}
