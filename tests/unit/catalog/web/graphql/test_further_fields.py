"""Fields beyond the interface that DataHub's clients ask for."""

from typing import Any

import pytest

from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.graphql.execution import answer
from support.catalog_graphql import read
from support.catalog_store import MLFLOW, feature, group, model, put, table

ADA = "urn:li:corpuser:ada"
STAMP = {"time": 1_700_000_000_000, "actor": ADA}
TEXT = '{"on": {"types": ["mlModel"]},  "rules": []}'
DATASET = "urn:li:dataset:(urn:li:dataPlatform:s3,bucket/data,PROD)"


def test_model_properties(store: Store) -> None:
    put(
        store,
        model("m"),
        mlModelProperties={
            "name": "bold-hare-1",
            "externalUrl": "http://mlflow/run",
            "date": 1_700_000_000_001,
            "created": STAMP,
            "lastModified": {"time": 5},
            "hyperParams": [{"name": "alpha", "value": "0.1"}],
            "hyperParameters": {
                "a": {"string": "x"},
                "b": {"int": 1},
                "c": {"double": 0.5},
                "d": {"boolean": True},
            },
            "trainingMetrics": [{"name": "auc", "value": "0.9", "createdAt": 3}],
            "tags": ["t"],
            "trainingJobs": ["urn:li:dataProcessInstance:p"],
            "customProperties": {"mlflow.user": "ada", "empty": ""},
        },
    )
    fields = """... on MLModel { properties {
        name externalUrl date created { time actor } lastModified { time actor }
        hyperParams { name value description createdAt }
        hyperParameters { key value { ...box } } hyperParameterMap { key value { ...box } }
        trainingMetrics { name value createdAt } onlineMetrics { name } tags
        mlModelLineageInfo { trainingJobs downstreamJobs }
        customProperties { key value associatedUrn } } }"""
    box = """ fragment box on HyperParameterValueType {
        ... on StringBox { stringValue } ... on IntBox { intValue }
        ... on FloatBox { floatValue } ... on BooleanBox { booleanValue } }"""
    assert read(store, model("m"), fields, box)["properties"] == {
        "name": "bold-hare-1",
        "externalUrl": "http://mlflow/run",
        "date": 1_700_000_000_001,
        "created": STAMP,
        "lastModified": {"time": 5, "actor": None},
        "hyperParams": [{"name": "alpha", "value": "0.1", "description": None, "createdAt": None}],
        "hyperParameters": {"key": "a", "value": {"stringValue": "x"}},
        "hyperParameterMap": [
            {"key": "a", "value": {"stringValue": "x"}},
            {"key": "b", "value": {"intValue": 1}},
            {"key": "c", "value": {"floatValue": 0.5}},
            {"key": "d", "value": {"booleanValue": True}},
        ],
        "trainingMetrics": [{"name": "auc", "value": "0.9", "createdAt": 3}],
        "onlineMetrics": None,
        "tags": ["t"],
        "mlModelLineageInfo": {
            "trainingJobs": ["urn:li:dataProcessInstance:p"],
            "downstreamJobs": None,
        },
        "customProperties": [
            {"key": "mlflow.user", "value": "ada", "associatedUrn": model("m")},
            {"key": "empty", "value": "", "associatedUrn": model("m")},
        ],
    }


def test_unset_properties_are_null(store: Store) -> None:
    put(store, model("m"), mlModelProperties={})
    fields = """... on MLModel { origin lastIngested editableProperties { description }
        ownership { owners { type } } tags { tags { context } } status { removed }
        deprecation { deprecated } domain { associatedUrn }
        dataPlatformInstance { urn }
        properties { hyperParameters { key } mlModelLineageInfo { trainingJobs } created { time }
            tags customProperties { key } } }"""
    assert read(store, model("m"), fields) == {
        "origin": "PROD",
        "lastIngested": None,
        "editableProperties": None,
        "ownership": None,
        "tags": None,
        "status": None,
        "deprecation": None,
        "domain": None,
        "dataPlatformInstance": None,
        "properties": {
            "hyperParameters": None,
            "mlModelLineageInfo": None,
            "created": None,
            "tags": [],
            "customProperties": [],
        },
    }


def test_people_tags_terms_and_links(store: Store) -> None:
    put(store, ADA, corpUserInfo={"active": True, "displayName": "Ada L."})
    put(store, "urn:li:tag:gold", tagProperties={"name": "Gold", "colorHex": "#ff0"})
    put(store, "urn:li:domain:risk", domainProperties={"name": "Risk"})
    put(
        store,
        model("m"),
        mlModelProperties={},
        editableMlModelProperties={"description": "edited"},
        ownership={
            "owners": [
                {"owner": ADA, "type": "DATAOWNER", "typeUrn": "urn:li:ownershipType:x"},
                {"owner": "urn:li:corpGroup:team", "type": "NONE"},
            ],
            "lastModified": STAMP,
        },
        globalTags={"tags": [{"tag": "urn:li:tag:gold"}, {"tag": "urn:li:tag:new"}]},
        glossaryTerms={"terms": [{"urn": "urn:li:glossaryTerm:pii"}], "auditStamp": STAMP},
        domains={"domains": ["urn:li:domain:risk"]},
        status={"removed": False},
        deprecation={"deprecated": True, "note": "old", "actor": ADA},
        institutionalMemory={
            "elements": [{"url": "http://doc", "description": "Doc", "createStamp": STAMP}]
        },
        dataPlatformInstance={
            "platform": MLFLOW,
            "instance": f"urn:li:dataPlatformInstance:({MLFLOW},eu)",
        },
    )
    fields = """... on MLModel { editableProperties { description }
        ownership { owners { owner { ... on CorpUser { username properties { displayName } }
                ... on CorpGroup { name exists } } type ownershipType { urn } associatedUrn }
            lastModified { time actor } }
        tags { tags { tag { name urn properties { name colorHex } } associatedUrn } }
        glossaryTerms { terms { term { name hierarchicalName properties { name } } } }
        domain { domain { id properties { name } } associatedUrn }
        status { removed } deprecation { deprecated note actor decommissionTime }
        institutionalMemory { elements { url label description author { urn } created { time } } }
        dataPlatformInstance { urn instanceId platform { name displayName } } }"""
    assert read(store, model("m"), fields) == {
        "editableProperties": {"description": "edited"},
        "ownership": {
            "owners": [
                {
                    "owner": {"username": "ada", "properties": {"displayName": "Ada L."}},
                    "type": "DATAOWNER",
                    "ownershipType": {"urn": "urn:li:ownershipType:x"},
                    "associatedUrn": model("m"),
                },
                {
                    "owner": {"name": "team", "exists": False},
                    "type": "NONE",
                    "ownershipType": {"urn": "urn:li:ownershipType:__system__none"},
                    "associatedUrn": model("m"),
                },
            ],
            "lastModified": STAMP,
        },
        "tags": {
            "tags": [
                {
                    "tag": {
                        "name": "gold",
                        "urn": "urn:li:tag:gold",
                        "properties": {"name": "Gold", "colorHex": "#ff0"},
                    },
                    "associatedUrn": model("m"),
                },
                {
                    "tag": {"name": "new", "urn": "urn:li:tag:new", "properties": None},
                    "associatedUrn": model("m"),
                },
            ]
        },
        "glossaryTerms": {
            "terms": [{"term": {"name": "pii", "hierarchicalName": "pii", "properties": None}}]
        },
        "domain": {
            "domain": {"id": "risk", "properties": {"name": "Risk"}},
            "associatedUrn": model("m"),
        },
        "status": {"removed": False},
        "deprecation": {
            "deprecated": True,
            "note": "old",
            "actor": ADA,
            "decommissionTime": None,
        },
        "institutionalMemory": {
            "elements": [
                {
                    "url": "http://doc",
                    "label": "Doc",
                    "description": "Doc",
                    "author": {"urn": STAMP["actor"]},
                    "created": {"time": STAMP["time"]},
                }
            ]
        },
        "dataPlatformInstance": {
            "urn": f"urn:li:dataPlatformInstance:({MLFLOW},eu)",
            "instanceId": "eu",
            "platform": {"name": "mlflow", "displayName": "MLflow"},
        },
    }


def test_groups_tables_and_keys(store: Store) -> None:
    put(store, group("g"), mlModelGroupProperties={"createdAt": 4, "version": {"versionTag": "1"},
        "trainingJobs": [], "customProperties": {}})  # fmt: skip
    fields = """... on MLModelGroup { properties { createdAt version { versionTag }
        mlModelLineageInfo { trainingJobs } customProperties { key } } }"""
    assert read(store, group("g"), fields)["properties"] == {
        "createdAt": 4,
        "version": {"versionTag": "1"},
        "mlModelLineageInfo": None,
        "customProperties": [],
    }
    key = "urn:li:mlPrimaryKey:(t,id)"
    put(store, key, mlPrimaryKeyProperties={"sources": [DATASET], "dataType": "ORDINAL"})
    put(store, table("t"), mlFeatureTableProperties={"mlPrimaryKeys": [key]})
    fields = """... on MLFeatureTable { featureTableProperties { mlPrimaryKeys {
        name featureNamespace dataType properties { sources { name platform { name } origin } }
        } } }"""
    assert read(store, table("t"), fields) == {
        "featureTableProperties": {
            "mlPrimaryKeys": [
                {
                    "name": "id",
                    "featureNamespace": "t",
                    "dataType": "ORDINAL",
                    "properties": {
                        "sources": [
                            {"name": "bucket/data", "platform": {"name": "s3"}, "origin": "PROD"}
                        ]
                    },
                }
            ]
        }
    }


def test_kinds_beside_the_ml_ones(store: Store) -> None:
    put(store, DATASET, datasetProperties={"name": "data", "customProperties": {"a": "b"}})
    process = {"name": "run", "created": STAMP}
    put(store, "urn:li:dataProcessInstance:p", dataProcessInstanceProperties=process)
    put(store, "urn:li:dataProcessInstance:q", status={"removed": False})
    platform = {"name": "mlflow", "type": "OTHERS", "datasetNameDelimiter": ".",
        "displayName": "MLflow"}  # fmt: skip
    put(store, MLFLOW, dataPlatformInfo=platform)
    put(store, "urn:li:dataFlow:(airflow,d,PROD)", status={"removed": False})

    fields = "... on Dataset { description properties { name customProperties { key value } } }"
    assert read(store, DATASET, fields) == {
        "description": None,
        "properties": {"name": "data", "customProperties": [{"key": "a", "value": "b"}]},
    }
    fields = "... on DataProcessInstance { name properties { created { time } } }"
    assert read(store, "urn:li:dataProcessInstance:p", fields)["name"] == "run"
    assert read(store, "urn:li:dataProcessInstance:q", fields) == {"name": "q", "properties": None}
    fields = "... on DataPlatform { name displayName properties { type displayName } }"
    assert read(store, MLFLOW, fields) == {
        "name": "mlflow",
        "displayName": "MLflow",
        "properties": {"type": "OTHERS", "displayName": "MLflow"},
    }
    assert read(store, "urn:li:dataFlow:(airflow,d,PROD)", "type urn")["type"] == "DATA_FLOW"


def test_a_kind_without_properties_has_none(store: Store) -> None:
    from graphql import GraphQLString

    from mlcat_ingest.catalog.web.graphql.entity_types import ENTITY
    from mlcat_ingest.catalog.web.graphql.resolvers import (
        KINDS,
        Cohort,
        Loader,
        Node,
        stored_at,
    )

    urn = "urn:li:schemaField:(x,y)"
    node = Node(urn, KINDS["schemaField"], Cohort(Loader(store), [urn]))
    for name in ("properties", "editableProperties", "platform"):
        assert ENTITY[name](node, None) is None  # type: ignore[operator]
    assert stored_at(".description", GraphQLString)(node, None) is None


def test_when_an_entity_was_last_seen(store: Store) -> None:
    field = "... on MLModel { lastIngested }"
    for run, expected in (
        ({}, None),
        ({"runId": "no-run-id-provided"}, None),
        ({"runId": "r"}, 77),
    ):
        seen, urn = {"lastObserved": 77, **run}, model(f"m{expected}{len(run)}")
        store.write([Write(urn, "mlModelProperties", {}, system_metadata=seen)])
        assert read(store, urn, field) == {"lastIngested": expected}


def relationships(store: Store, urn: str, **inputs: Any) -> Any:
    query = """query ($urn: String!, $inputs: RelationshipsInput!) { entity(urn: $urn) {
        relationships(input: $inputs) { start count total
            relationships { type direction entity { urn type } } } } }"""
    reply = answer(store, query, {"urn": urn, "inputs": inputs})
    assert "errors" not in reply, reply["errors"]
    return reply["data"]["entity"]["relationships"]


def test_incoming_relationships_are_exactly_the_models_that_name_the_group(store: Store) -> None:
    put(store, group("g"), mlModelGroupProperties={})
    for name, groups in (("a", ["g"]), ("b", ["g", "h"]), ("c", ["h"])):
        put(store, model(name), mlModelProperties={"groups": [group(each) for each in groups]})
    found = relationships(store, group("g"), types=["MemberOf"], direction="INCOMING")
    assert found == {
        "start": 0,
        "count": 2,
        "total": 2,
        "relationships": [
            {
                "type": "MemberOf",
                "direction": "INCOMING",
                "entity": {"urn": model(name), "type": "MLMODEL"},
            }
            for name in ("a", "b")
        ],
    }
    page = relationships(
        store, group("g"), types=["MemberOf"], direction="INCOMING", start="1", count=1
    )
    assert [each["entity"]["urn"] for each in page["relationships"]] == [model("b")]
    assert relationships(store, group("g"), types=["Consumes"], direction="INCOMING")["total"] == 0


def test_outgoing_relationships_and_removed_ends(store: Store) -> None:
    put(store, group("old"), status={"removed": True})
    put(store, model("m"), mlModelProperties={"groups": [group("old"), group("stub")]})
    inputs: dict[str, Any] = {"types": ["MemberOf"], "direction": "OUTGOING"}
    assert relationships(store, model("m"), **inputs)["count"] == 2
    kept = relationships(store, model("m"), includeSoftDelete=False, **inputs)
    assert [each["entity"]["urn"] for each in kept["relationships"]] == [group("stub")]
    assert kept["total"] == 1


def test_a_page_without_removed_ends_is_full(store: Store) -> None:
    for name in ("a", "b", "c", "d"):
        put(store, model(name), mlModelProperties={"groups": [group("g")]})
        put(store, model(name), status={"removed": name == "a"})
    put(store, group("g"), mlModelGroupProperties={})
    inputs: dict[str, Any] = {"types": ["MemberOf"], "direction": "INCOMING", "count": 2}
    kept = relationships(store, group("g"), includeSoftDelete=False, **inputs)
    assert [each["entity"]["urn"] for each in kept["relationships"]] == [model("b"), model("c")]
    assert kept["total"] == 3


def test_an_end_of_a_type_without_a_form_is_an_other_entity(store: Store) -> None:
    application = "urn:li:application:a"
    put(store, model("m"), applications={"applications": [application]})
    found = relationships(store, model("m"), types=["AssociatedWith"], direction="OUTGOING")
    assert found["relationships"][0]["entity"] == {"urn": application, "type": "APPLICATION"}


@pytest.mark.parametrize("inputs", [{"start": -1}, {"count": -1}, {"types": ["x"] * 101}])
def test_edges_that_cannot_be_asked_for(store: Store, inputs: dict[str, Any]) -> None:
    put(store, model("m"), mlModelProperties={})
    query = """query ($urn: String!, $inputs: RelationshipsInput!) { mlModel(urn: $urn) {
        name relationships(input: $inputs) { total } } }"""
    full = {"types": [], "direction": "OUTGOING", **inputs}
    reply = answer(store, query, {"urn": model("m"), "inputs": full})
    assert reply["data"] == {"mlModel": {"name": "m", "relationships": None}}
    assert reply["errors"][0]["extensions"]["code"] == 400


def test_feature_sources(store: Store) -> None:
    put(store, feature("t", "f"), mlFeatureProperties={"sources": [DATASET], "dataType": "TEXT"})
    fields = "... on MLFeature { dataType featureProperties { sources { urn name } } }"
    assert read(store, feature("t", "f"), fields) == {
        "dataType": "TEXT",
        "featureProperties": {"sources": [{"urn": DATASET, "name": "bucket/data"}]},
    }
