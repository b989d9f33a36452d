"""The fields of single entity types: what models are linked to, and metadata tests."""

from typing import Any

import pytest

from mlcat_ingest.catalog.store.store import Store
from support.catalog_graphql import ask, read
from support.catalog_store import put

FLOW = "urn:li:dataFlow:(airflow,nightly,PROD)"
DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,bucket/data,PROD)"
RULES = '{ "on": {"types": ["mlModel"]},\n "rules": [{"query": "urn", "operation": "exists"}] }'
AIRFLOW = {"urn": "urn:li:dataPlatform:airflow", "name": "airflow"}


@pytest.mark.parametrize(
    ("urn", "aspects", "fields", "expected"),
    [
        (
            FLOW,
            {"dataFlowInfo": {"name": "Nightly"}},
            "... on DataFlow {orchestrator flowId cluster platform { urn name } properties {name}}",
            {
                "orchestrator": "airflow",
                "flowId": "nightly",
                "cluster": "PROD",
                "platform": AIRFLOW,
                "properties": {"name": "Nightly"},
            },
        ),
        (
            f"urn:li:dataJob:({FLOW},train)",
            {"dataJobInfo": {"name": "Train"}},
            "... on DataJob { jobId dataFlow { urn flowId } properties { name description } }",
            {
                "jobId": "train",
                "dataFlow": {"urn": FLOW, "flowId": "nightly"},
                "properties": {"name": "Train", "description": None},
            },
        ),
        (
            "urn:li:chart:(superset,7)",
            {"chartInfo": {"title": "Chart", "description": "d"}},
            "... on Chart { tool chartId platform { name } properties { name description } }",
            {
                "tool": "superset",
                "chartId": "7",
                "platform": {"name": "superset"},
                "properties": {"name": "Chart", "description": "d"},
            },
        ),
        (
            "urn:li:dashboard:(superset,7)",
            {"status": {"removed": False}},
            "... on Dashboard { dashboardId properties { name } }",
            {"dashboardId": "7", "properties": None},
        ),
        (
            "urn:li:document:d",
            {
                "documentInfo": {
                    "title": "Read me",
                    "status": {"state": "PUBLISHED"},
                    "contents": {"text": "Text"},
                    "created": {"time": 1, "actor": "urn:li:corpuser:ann"},
                    "lastModified": {"time": 1, "actor": "urn:li:corpuser:ann"},
                },
                "subTypes": {"typeNames": ["guide"]},
                "dataPlatformInstance": {"platform": "urn:li:dataPlatform:notion"},
            },
            "... on Document { subType info { title } platform { name } }",
            {"subType": "guide", "info": {"title": "Read me"}, "platform": {"name": "notion"}},
        ),
        (
            "urn:li:container:c",
            {"containerProperties": {"name": "C"}},
            "... on Container { platform { name } properties { name } }",
            {"platform": None, "properties": {"name": "C"}},
        ),
        (
            "urn:li:glossaryTerm:pii",
            {"glossaryTermInfo": {"name": "PII", "definition": "private"}},
            "... on GlossaryTerm { name description properties { description } }",
            {"name": "pii", "description": "private", "properties": {"description": "private"}},
        ),
        (
            "urn:li:dataProcessInstance:p",
            {"mlTrainingRunProperties": {"id": "p", "hyperParams": [{"name": "lr"}]}},
            "... on DataProcessInstance {name mlTrainingRunProperties { id hyperParams {name}}}",
            {
                "name": "p",
                "mlTrainingRunProperties": {"id": "p", "hyperParams": [{"name": "lr"}]},
            },
        ),
        (
            "urn:li:corpuser:ada",
            {
                "corpUserInfo": {"active": True, "displayName": "Ada"},
                "corpUserEditableInfo": {"aboutMe": "counts"},
            },
            "... on CorpUser { username info { displayName } editableProperties { aboutMe } }",
            {
                "username": "ada",
                "info": {"displayName": "Ada"},
                "editableProperties": {"aboutMe": "counts"},
            },
        ),
    ],
)
def test_an_asset(
    store: Store, urn: str, aspects: dict[str, Any], fields: str, expected: dict[str, Any]
) -> None:
    put(store, urn, **aspects)
    assert read(store, urn, fields) == expected


def test_the_schema_of_a_dataset_at_any_version(store: Store) -> None:
    for names in (["a"], ["a", "b"]):
        fields = [{"fieldPath": name, "nativeDataType": "INT", "type": {}} for name in names]
        put(store, DATASET, schemaMetadata={"fields": fields, "platform": "urn:li:dataPlatform:s3"})
    for version, paths in ((0, ["a", "b"]), (1, ["a"]), (2, ["a", "b"]), (9, None)):
        query = """query ($urn: String!, $v: Long) { entity(urn: $urn) { ... on Dataset {
            schemaMetadata(version: $v) { platformUrn fields { fieldPath nativeDataType } } } } }"""
        found = ask(store, query, urn=DATASET, v=version)["entity"]["schemaMetadata"]
        assert (found and [field["fieldPath"] for field in found["fields"]]) == paths


def test_aspects_that_nobody_checks_may_hold_anything(store: Store) -> None:
    """An open aspect with fields of other types reads as null, with an error that names them."""
    put(store, "urn:li:chart:(superset,7)", chartInfo={"title": {"x": 1}, "description": 5})
    put(store, DATASET, schemaMetadata={"fields": ["odd", {"fieldPath": "a"}]})
    fields = "... on Chart { properties { description } }"
    assert read(store, "urn:li:chart:(superset,7)", fields)["properties"] == {"description": "5"}
    fields = "... on Dataset { schemaMetadata { fields { fieldPath } } }"
    assert read(store, DATASET, fields)["schemaMetadata"]["fields"] == [{"fieldPath": "a"}]


def test_the_client_and_the_service(store: Store) -> None:
    query = """{ me { corpUser { urn username properties { displayName } } }
        appConfig { telemetryConfig { enableThirdPartyLogging } semanticSearchConfig {
            enabled enabledEntities embeddingConfig { provider } } } }"""
    assert ask(store, query) == {
        "me": {
            "corpUser": {
                "urn": "urn:li:corpuser:unknown",
                "username": "unknown",
                "properties": None,
            }
        },
        "appConfig": {
            "telemetryConfig": {"enableThirdPartyLogging": False},
            "semanticSearchConfig": {
                "enabled": False,
                "enabledEntities": [],
                "embeddingConfig": None,
            },
        },
    }
