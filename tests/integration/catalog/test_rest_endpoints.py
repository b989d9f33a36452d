"""The REST endpoints over a socket, as DataHub's clients call them."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
import requests

from support.catalog_server import RunningCatalog, running_catalog

GROUP = "urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,churn,PROD)"
MODEL = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,run1,PROD)"
FEATURE = "urn:li:mlFeature:(users,age)"
TABLE = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,users)"
DEFAULTS = {"browsePathsV2", "dataPlatformInstance"}
ENTITIES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    MODEL: (
        "mlModel",
        "mlModelProperties",
        "com.linkedin.ml.metadata.MLModelProperties",
        {
            "description": "d",
            "groups": [GROUP],
            "mlFeatures": [FEATURE],
            "type": "tree",
            "customProperties": {},
            "tags": [],
        },
    ),
    GROUP: (
        "mlModelGroup",
        "mlModelGroupProperties",
        "com.linkedin.ml.metadata.MLModelGroupProperties",
        {"description": "d", "customProperties": {}},
    ),
    FEATURE: (
        "mlFeature",
        "mlFeatureProperties",
        "com.linkedin.ml.metadata.MLFeatureProperties",
        {
            "description": "d",
            "dataType": "SEQUENCE",
            "sources": ["urn:li:dataset:(urn:li:dataPlatform:hive,a.b,PROD)"],
            "version": {"versionTag": "1"},
        },
    ),
    TABLE: (
        "mlFeatureTable",
        "mlFeatureTableProperties",
        "com.linkedin.ml.metadata.MLFeatureTableProperties",
        {"description": "d", "mlFeatures": [FEATURE]},
    ),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCatalog]:
    """One catalog for tests that leave nothing behind that another would see."""
    with running_catalog(tmp_path_factory.mktemp("shared") / "c.db") as running:
        yield running


def proposal(urn: str, aspect: dict[str, Any], **more: Any) -> dict[str, Any]:
    entity_type, name, _, _ = ENTITIES.get(urn, ENTITIES[MODEL])
    return {
        "entityType": entity_type,
        "entityUrn": urn,
        "changeType": "UPSERT",
        "aspectName": name,
        "aspect": {"value": json.dumps(aspect), "contentType": "application/json"},
        **more,
    }


def act(catalog: RunningCatalog, path: str, body: Any) -> requests.Response:
    return requests.post(catalog.url + path, json=body, timeout=30)


def encoded(urn: str) -> str:
    return quote(urn, safe="")


def read(catalog: RunningCatalog, urn: str, aspect: str, version: int = 0) -> requests.Response:
    query = f"aspect={aspect}&version={version}"
    return requests.get(f"{catalog.url}/aspects/{encoded(urn)}?{query}", timeout=30)


@pytest.mark.parametrize("prefix", ["", "/gms", "/api/gms"])
@pytest.mark.parametrize("slash", ["", "/"])
def test_all_four_entity_types_are_written_and_read(
    catalog: RunningCatalog, prefix: str, slash: str
) -> None:
    for urn, (_, name, record, aspect) in ENTITIES.items():
        answer = act(
            catalog,
            f"{prefix}/aspects{slash}?action=ingestProposal",
            {"proposal": proposal(urn, aspect), "async": "false"},
        )
        assert (answer.status_code, answer.json()) == (200, {"value": "success"})
        url = f"{catalog.url}{prefix}/aspects/{encoded(urn)}?aspect={name}&version=0"
        found = requests.get(url, timeout=30)
        assert found.json() == {"version": 0, "aspect": {record: aspect}}
        assert found.headers["content-type"] == "application/json"


def test_entities_show_their_aspects_with_versions_and_stamps(catalog: RunningCatalog) -> None:
    sent = proposal(MODEL, {"type": "a"}, systemMetadata={"runId": "r", "lastObserved": 1})
    act(catalog, "/aspects?action=ingestProposal", {"proposal": sent})
    act(
        catalog,
        "/aspects?action=ingestProposal",
        {"proposal": proposal(MODEL, {"removed": False}, aspectName="status")},
    )
    url = f"{catalog.url}/entitiesV2/{encoded(MODEL)}"
    whole = requests.get(url, timeout=30).json()
    assert (whole["entityName"], set(whole["aspects"])) == (
        "mlModel",
        {"mlModelKey", "mlModelProperties", "status", *DEFAULTS},
    )
    shown = whole["aspects"]["mlModelProperties"]
    assert (shown["name"], shown["type"], shown["version"]) == (
        "mlModelProperties",
        "VERSIONED",
        0,
    )
    assert shown["value"] == {"type": "a"}
    assert shown["created"]["actor"] == "urn:li:corpuser:unknown"
    assert shown["systemMetadata"].items() >= {"runId": "r", "version": "1"}.items()
    some = requests.get(url + "?aspects=List(status,ownership)", timeout=30).json()
    assert set(some["aspects"]) == {"status", "mlModelKey"}
    assert "systemMetadata" not in some["aspects"]["mlModelKey"]
    refused = MODEL.replace("PROD", "NOWHERE")
    made_up = requests.get(f"{catalog.url}/entitiesV2/{encoded(refused)}", timeout=30).json()
    assert made_up["aspects"]["mlModelKey"]["value"]["origin"] == "NOWHERE"


def status_of(catalog: RunningCatalog, body: Any, prefix: str = "") -> Any:
    answer = act(catalog, f"{prefix}/operations?action=getEsTaskStatus", body)
    assert answer.status_code == 200, answer.text
    [(key, text)] = answer.json().items()
    assert key == "value"
    return json.loads(text)


@pytest.mark.parametrize("prefix", ["", "/gms", "/api/gms"])
def test_the_status_of_a_task_in_both_forms(catalog: RunningCatalog, prefix: str) -> None:
    act(catalog, "/aspects?action=ingestProposal", {"proposal": proposal(MODEL, {"type": "a"})})
    answer = act(catalog, f"{prefix}/operations?action=restoreIndices", {"urn": MODEL})
    task = answer.json()["value"]
    node, _, number = task.partition(":")
    catalog.tasks._threads.submit(lambda: None).result(20)
    combined = status_of(catalog, {"task": task}, prefix)
    assert combined == status_of(catalog, {"nodeId": node, "taskId": int(number)}, prefix)
    assert combined == status_of(catalog, {"task": task, "nodeId": node, "taskId": int(number)})
    assert (combined["completed"], combined["taskId"]) == (True, task)
    assert isinstance(combined["runTimeNanos"], int)
    assert (combined["status"]["total"], combined["status"]["noops"]) == (1, 1)
    assert combined["status"]["requests_per_second"] == -1.0


def test_a_task_that_cannot_be_found(catalog: RunningCatalog) -> None:
    error = {"error": "Could not get task status for node-1_x:123"}
    assert status_of(catalog, {"task": "node-1_x:123"}) == error
    assert status_of(catalog, {"nodeId": "node-1_x", "taskId": 123}) == error
    largest = {"error": f"Could not get task status for {catalog.tasks.node_id}:{2**63 - 1}"}
    assert status_of(catalog, {"nodeId": catalog.tasks.node_id, "taskId": 2**63 - 1}) == largest


EITHER = "Please specify either Node ID + task ID OR composite task parameters"
ONLY_ONE = "Please specify only one of Node ID + task ID OR composite task parameters"
FORM = "Task should be in the form nodeId:taskId e.g. aB1cdEf2GHIJKLMnoPQr3S:123456 (got "


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, EITHER),
        ({"nodeId": "n"}, EITHER),
        ({"taskId": 3}, EITHER),
        ({"nodeId": "n", "taskId": 0}, EITHER),
        ({"nodeId": "", "taskId": 1}, EITHER),
        ({"task": "n:1", "nodeId": "n", "taskId": 2}, ONLY_ONE),
        ({"task": "n"}, FORM + "n)"),
        ({"task": ""}, FORM + ")"),
        ({"task": "n:0"}, FORM + "n:0)"),
        ({"task": "n:-1"}, FORM + "n:-1)"),
        ({"task": "n:1\n"}, FORM),
        ({"task": "n:٣"}, FORM),
        ({"task": "a b:1"}, FORM + "a b:1)"),
        ({"task": f"n:{2**63}"}, FORM),
        ({"task": "n:" + "9" * 5000}, FORM),
        ({"nodeId": "n", "taskId": -4}, FORM + "n:-4)"),
        ({"nodeId": "n", "taskId": "4"}, "taskId: expected a whole number, not a string"),
        ({"nodeId": "n", "taskId": True}, "taskId: expected a whole number, not a boolean"),
        ({"nodeId": 3, "taskId": 1}, "nodeId: expected a string, not a number"),
        ({"task": 3}, "task: expected a string, not a number"),
    ],
)
def test_task_requests_that_are_not_understood(
    shared: RunningCatalog, body: Any, message: str
) -> None:
    answer = act(shared, "/operations?action=getEsTaskStatus", body)
    assert answer.status_code == 400
    assert answer.json()["message"].startswith(message)


TEST = "urn:li:test:described"


@pytest.fixture
def described(catalog: RunningCatalog) -> RunningCatalog:
    definition = {
        "on": {"types": ["mlModel"]},
        "rules": {"property": "mlModelProperties.description", "operator": "exists"},
    }
    info = {
        "name": "described",
        "category": "x",
        "definition": {"type": "JSON", "json": json.dumps(definition)},
    }
    proposals = [
        proposal(MODEL, {"description": "d"}),
        proposal(MODEL.replace("run1", "run2"), {"type": "t"}),
        proposal(TEST, info, entityType="test", aspectName="testInfo"),
    ]
    answer = act(catalog, "/aspects?action=ingestProposalBatch", {"proposals": proposals})
    assert answer.status_code == 200, answer.text
    return catalog


@pytest.mark.parametrize("names", [("shouldPush", "testUrns"), ("push", "tests")])
def test_metadata_tests_are_evaluated_and_pushed(
    described: RunningCatalog, names: tuple[str, str]
) -> None:
    path = "/gms/test?action=evaluate"
    found = act(described, path, {"urn": MODEL}).json()["value"]
    assert [entry["test"] for entry in found["passing"]] == [TEST]
    assert found["failing"] == []
    assert read(described, MODEL, "testResults").status_code == 404
    answer = act(described, path, {"urn": MODEL, names[0]: True, names[1]: [TEST]})
    assert answer.status_code == 200
    [stored] = read(described, MODEL, "testResults").json()["aspect"].values()
    assert [(one["test"], one["type"]) for one in stored["passing"]] == [(TEST, "SUCCESS")]


def test_many_entities_are_evaluated_at_once(described: RunningCatalog) -> None:
    urns = [MODEL, MODEL.replace("run1", "run2"), MODEL.replace("run1", "gone")]
    answer = act(described, "/test?action=batchEvaluate", {"urns": urns, "push": True})
    results = answer.json()["value"]["results"]
    assert {urn: len(result["failing"]) for urn, result in results.items()} == {
        urns[0]: 0,
        urns[1]: 1,
    }
    assert read(described, urns[1], "testResults").status_code == 200


def test_what_is_not_there_cannot_be_evaluated(described: RunningCatalog) -> None:
    gone = MODEL.replace("run1", "gone")
    assert act(described, "/test?action=evaluate", {"urn": gone}).status_code == 404
    body = {"urn": MODEL, "testUrns": ["urn:li:test:gone"]}
    answer = act(described, "/test?action=evaluate", body)
    assert answer.status_code == 400
    assert "urn:li:test:gone" in answer.json()["message"]
