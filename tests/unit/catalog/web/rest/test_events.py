"""Events of timeseries aspects and references, through Rest.li."""

import json
from typing import Any

import pytest

from mlcat_ingest.catalog.schema.values import Write
from support.catalog_store import model, put
from support.rest_client import RestClient

VALUES = "/aspects?action=getTimeseriesAspectValues"
DELETE = "/entities?action=delete"
REFERENCES = "/entities?action=deleteReferences"
JOB = "urn:li:dataJob:(urn:li:dataFlow:(datahub,p,PROD),j)"
CHECKPOINT = "datahubIngestionCheckpoint"
TRUNCATE = "/operations?action=truncateTimeseriesAspect"


def checkpoint(at_ms: int, pipeline: str = "p", **more: Any) -> dict[str, Any]:
    return {
        "timestampMillis": at_ms,
        "pipelineName": pipeline,
        "platformInstanceId": "",
        "config": "",
        "state": {"formatVersion": "1", "serde": "utf-8", "payload": "x"},
        "runId": f"run-{at_ms}",
        **more,
    }


@pytest.fixture
def client(client: RestClient) -> RestClient:
    events = [checkpoint(at, "even" if at % 2 == 0 else "odd") for at in range(1, 6)]
    client.store.write([Write(JOB, CHECKPOINT, event) for event in events])
    return client


def times(client: RestClient, **params: Any) -> list[int]:
    asked = {"urn": JOB, "entity": "dataJob", "aspect": CHECKPOINT, **params}
    value = client.ok("POST", VALUES, asked)["value"]
    return [json.loads(one["aspect"]["value"])["timestampMillis"] for one in value["values"]]


def test_events_come_newest_first(client: RestClient) -> None:
    assert times(client) == [5, 4, 3, 2, 1]
    assert times(client, limit=2) == [5, 4]
    assert times(client, latestValue=True) == [5]
    assert times(client, urn=JOB.replace(",j", ",gone")) == []
    asked = {"urn": JOB, "aspect": CHECKPOINT, "latestValue": True}
    [value] = client.ok("POST", VALUES, asked)["value"]["values"]
    assert value["aspect"]["contentType"] == "application/json"
    assert {"name", "type", "version"} <= set(value["aspect"])


@pytest.mark.parametrize(
    ("criterion", "found"),
    [
        ({"field": "pipelineName", "values": ["even"], "condition": "EQUAL"}, [4, 2]),
        ({"field": "pipelineName", "value": "even"}, [4, 2]),
        ({"field": "runId", "values": ["run-3", "run-2"]}, [3, 2]),
        ({"field": "nothing", "values": ["even"]}, []),
        ({"field": "pipelineName", "values": []}, []),
    ],
)
def test_events_are_filtered_by_their_fields(
    client: RestClient, criterion: Any, found: list[int]
) -> None:
    assert times(client, filter={"or": [{"and": [criterion]}]}) == found
    # However few are asked for, those that match are looked for among all.
    limited = times(client, filter={"or": [{"and": [criterion]}]}, limit=1)
    assert limited == found[:1]


def test_alternatives_of_a_filter(client: RestClient) -> None:
    odd = {"field": "pipelineName", "values": ["odd"]}
    last = {"field": "runId", "values": ["run-5", "run-4"]}
    assert times(client, filter={"or": [{"and": [odd, last]}, {"and": []}]}) == [5, 4, 3, 2, 1]
    assert times(client, filter={"or": [{"and": [odd, last]}]}) == [5]
    assert times(client, filter={"or": [{"and": [odd]}, {"and": [last]}]}) == [5, 4, 3, 1]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "urn: the parameter is missing"),
        ({"urn": JOB}, "aspect: the parameter is missing"),
        ({"urn": "x", "aspect": "y"}, "'x' is not a URN"),
        ({"urn": JOB, "aspect": CHECKPOINT, "limit": "x"}, "limit: expected a whole number"),
        ({"urn": JOB, "aspect": CHECKPOINT, "latestValue": 1}, "latestValue: expected true"),
        ({"urn": JOB, "aspect": CHECKPOINT, "filter": 3}, "filter must be a JSON object"),
    ],
)
def test_parameters_are_named(client: RestClient, params: Any, message: str) -> None:
    assert message in client.refused("POST", VALUES, params)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"condition": "CONTAIN"}, "filter.or[0].and[0].condition: 'CONTAIN' is not one of"),
        ({"negated": True}, "filter.or[0].and[0].negated: True is not one of"),
        ({"field": ""}, "field: the parameter is missing"),
        ({"values": None}, "value: the parameter is missing"),
        ({"values": [3]}, "values[0]: expected a string"),
    ],
)
def test_a_filter_compares_by_equality(client: RestClient, more: Any, message: str) -> None:
    criterion = {"field": "runId", "values": ["run-1"], **more}
    asked = {"urn": JOB, "aspect": CHECKPOINT, "filter": {"or": [{"and": [criterion]}]}}
    assert message in client.refused("POST", VALUES, asked)


def test_events_are_deleted_within_a_range(client: RestClient) -> None:
    asked = {"urn": JOB, "aspectName": CHECKPOINT, "startTimeMillis": 2, "endTimeMillis": 3}
    value = client.ok("POST", DELETE, asked)["value"]
    assert value == {"urn": JOB, "rows": 0, "timeseriesRows": 2}
    assert times(client) == [5, 4, 1]
    assert "aspectName: expected" in client.refused("POST", DELETE, {"urn": JOB, "aspectName": 3})
    assert "endTimeMillis" in client.refused("POST", DELETE, {**asked, "endTimeMillis": "x"})
    assert client.ok("POST", DELETE, {"urn": JOB})["value"]["timeseriesRows"] == 3
    assert client.ok("POST", DELETE, {"urn": JOB})["value"]["rows"] == 0


def test_old_events_are_deleted_by_a_task(client: RestClient) -> None:
    asked = {"entityType": "dataJob", "aspect": CHECKPOINT, "endTimeMillis": 3}
    reported = client.ok("POST", TRUNCATE, asked)["value"]
    assert reported == (
        "Delete 3 out of 5 rows (60.00%). Reindexing the aspect without the deleted records. "
        "This was a dry run. Run with dryRun = false to execute."
    )
    few = client.ok("POST", TRUNCATE, {**asked, "endTimeMillis": 1})["value"]
    assert few.startswith("Delete 1 out of 5 rows (20.00%). Issuing a delete by query request. ")
    other = {"entityType": "DATAPROCESSINSTANCE", "aspect": "dataProcessInstanceRunEvent"}
    none = client.ok("POST", TRUNCATE, {**asked, **other})["value"]
    assert none.startswith("Delete 0 out of 0 rows (0.00%). ")
    forced = {**asked, "endTimeMillis": 1, "forceReindex": True}
    assert "Reindexing" in client.ok("POST", TRUNCATE, forced)["value"]
    both = {**forced, "forceDeleteByQuery": True}
    assert "please only set" in client.ok("POST", TRUNCATE, both)["value"]
    assert times(client) == [5, 4, 3, 2, 1]

    task = client.ok("POST", TRUNCATE, {**asked, "dryRun": False})["value"]
    client.tasks._threads.submit(lambda: None).result(20)
    reported = client.ok("POST", "/operations?action=getEsTaskStatus", {"task": task})["value"]
    status = json.loads(reported)
    assert status["completed"] is True
    assert status["status"]["total"] == status["status"]["deleted"] == 3
    assert status["status"]["batches"] == 1
    assert times(client) == [5, 4]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "entityType: the parameter is missing"),
        ({"entityType": "dataJob"}, "aspect: the parameter is missing"),
        (
            {"entityType": "dataJob", "aspect": CHECKPOINT},
            "endTimeMillis: the parameter is missing",
        ),
        (
            {"entityType": "dataJob", "aspect": CHECKPOINT, "endTimeMillis": "y"},
            "endTimeMillis: expected a whole number",
        ),
        (
            {"entityType": "dataJob", "aspect": CHECKPOINT, "endTimeMillis": 1, "dryRun": "no"},
            "dryRun: expected true or false",
        ),
        (
            {"entityType": "dataJob", "aspect": CHECKPOINT, "endTimeMillis": 1, "forceReindex": 1},
            "forceReindex: expected true or false",
        ),
        (
            {"entityType": "dataJop", "aspect": "x", "endTimeMillis": 1},
            "entityType: 'dataJop' is not an entity type",
        ),
        (
            {"entityType": "dataJob", "aspect": "status", "endTimeMillis": 1},
            "aspect: 'status' is not a timeseries aspect",
        ),
        (
            {"entityType": "mlModel", "aspect": "mlModelPropertys", "endTimeMillis": 1},
            "Unknown aspect mlModelPropertys for entity mlModel",
        ),
        (
            {"entityType": "dataJob", "aspect": "x; drop", "endTimeMillis": 1},
            "Unknown aspect x; drop for entity dataJob",
        ),
        (
            {"entityType": "dataJob", "aspect": CHECKPOINT, "endTimeMillis": 1, "batchSize": -1},
            "batchSize: expected a whole number",
        ),
    ],
)
def test_a_truncation_needs_its_parameters(client: RestClient, params: Any, message: str) -> None:
    assert message in client.refused("POST", TRUNCATE, params)


def test_references_are_shown_and_taken_out(client: RestClient) -> None:
    tag = "urn:li:tag:x"
    for name in ("a", "b"):
        put(client.store, model(name), globalTags={"tags": [{"tag": tag}]})

    def references(**params: Any) -> Any:
        return client.ok("POST", REFERENCES, {"urn": tag, **params})["value"]

    found = references(dryRun=True)
    assert found["total"] == 2
    assert found["relatedAspects"][0] == {
        "entity": model("a"),
        "relationship": "TaggedWith",
        "aspect": "globalTags",
    }
    assert references() == found
    assert references() == {"total": 0, "relatedAspects": []}
    assert client.store.get_many([model("a")], ["globalTags"])[model("a")]["globalTags"].value == {
        "tags": []
    }
    assert "urn: the parameter" in client.refused("POST", REFERENCES, {})
    assert "is not a URN" in client.refused("POST", REFERENCES, {"urn": "x"})
    assert "dryRun: expected" in client.refused("POST", REFERENCES, {"urn": tag, "dryRun": 3})
