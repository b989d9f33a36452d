"""Writing through Rest.li: proposals of every change type, conditions, and snapshots."""

import json
from pathlib import Path
from typing import Any

import pytest

from mlcat_ingest.catalog.limits import Limits
from support.catalog_store import counts, model
from support.rest_client import RestClient, rest_client

SINGLE = "/aspects?action=ingestProposal"
BATCH = "/aspects?action=ingestProposalBatch"
INGEST = "/entities?action=ingest"
M = model("m")
ADD = {"op": "add", "path": "/customProperties/a", "value": "1"}


def proposal(value: Any, urn: str = M, **more: Any) -> dict[str, Any]:
    patching = more.get("changeType") == "PATCH"
    content_type = "application/json-patch+json" if patching else "application/json"
    return {
        "entityType": urn.split(":")[2],
        "entityUrn": urn,
        "changeType": "UPSERT",
        "aspectName": "mlModelProperties",
        "aspect": {"value": json.dumps(value), "contentType": content_type},
        **more,
    }


def content(text: str) -> dict[str, str]:
    """Return an aspect in its envelope, in which each character is a byte."""
    return {"value": text.encode().decode("latin-1"), "contentType": "application/json"}


def stored(client: RestClient, aspect: str = "mlModelProperties") -> Any:
    found = client.store.get_many([M], [aspect]).get(M, {}).get(aspect)
    return None if found is None else found.value


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize("asynchronous", ["true", "false"])
def test_a_proposal_is_stored_whatever_async_says(
    client: RestClient, slash: str, asynchronous: str
) -> None:
    target = SINGLE.replace("?", f"{slash}?")
    answer = client.ok("POST", target, {"proposal": proposal({}), "async": asynchronous})
    assert answer == {"value": "success"}
    assert stored(client) is not None


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (' {"name" : "a",\n"tags": [ ]} ', '{"name":"a","tags":[]}'),
        ('{"name": "a", "name": "b"}', '{"name":"b"}'),
        (r'{"n\u0061me": "\u00e9\ud83d\ude00\/\u0009"}', '{"name":"é😀/\\t"}'),
        ('{"date": 1.0, "name": "-0"}', '{"date":1,"name":"-0"}'),
        ('{"name": "a", "unknown": 123456789012345678901234567890}', '{"name":"a"}'),
        ('{"date": 9223372036854775807}', '{"date":9223372036854775807}'),
        (
            '{"hyperParameters": {"a": {"double": 1E2}, "b": {"double": -0}}}',
            '{"hyperParameters":{"a":{"double":100.0},"b":{"double":0}}}',
        ),
    ],
)
def test_equal_values_are_stored_as_one_text(client: RestClient, sent: str, text: str) -> None:
    for value in (sent, text):
        client.ok("POST", SINGLE, {"proposal": proposal({}) | {"aspect": content(value)}})
    aspect = client.store.get_many([M])[M]["mlModelProperties"]
    assert (aspect.text, aspect.version) == (text, 1)


@pytest.mark.parametrize(
    "sent",
    [
        '{"date": NaN}',
        '{"date": 9223372036854775808}',
        '{"date": 123456789012345678901234567890}',
        '{"hyperParameters": {"a": {"double": 1e400}}}',
        '{"hyperParameters": {"a": {"double": 123456789012345678901234567890}}}',
        r'{"name": "\ud800"}',
        r'{"customProperties": {"\udc00": ""}}',
        '{"name": "a"} {}',
        '{"name": "a",}',
    ],
)
def test_a_text_without_a_faithful_form_is_refused(client: RestClient, sent: str) -> None:
    client.refused("POST", SINGLE, {"proposal": proposal({}) | {"aspect": content(sent)}}, 422)
    assert client.store.read(counts) == {}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"patch": [{"op": "remove", "path": "/trainingMetrics/0"}]}, "trainingMetrics"),
        ({"patch": [{**ADD, "path": "/customProperties", "value": 3}]}, "customProperties"),
        ({"arrayPrimaryKeys": 3}, "arrayPrimaryKeys"),
    ],
)
def test_a_patch_that_cannot_be_applied_takes_the_batch_back(
    client: RestClient, more: dict[str, Any], message: str
) -> None:
    bad = proposal({"patch": [], "forceGenericPatch": True, **more}, changeType="PATCH")
    assert message in client.refused("POST", SINGLE, {"proposal": bad}, 422)
    reported = client.refused("POST", BATCH, {"proposals": [proposal({}, model("n")), bad]}, 422)
    assert message in reported
    assert client.store.read(counts) == {}


def test_conditions_by_version_and_by_time(client: RestClient) -> None:
    def write(value: Any, status: int = 200, **headers: str) -> Any:
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        sent = {"proposal": proposal(value, aspectName="status", headers=named)}
        answer = client.send("POST", SINGLE, sent)
        assert answer.status == status, answer.text
        return answer.json().get("message")

    write({"removed": True}, If_Version_Match="-1")
    reported = write({"removed": False}, 422, If_Version_Match="-1")
    assert reported == (
        f"ValidationExceptionCollection{{EntityAspect:({M},status) Exceptions: ["
        f"AspectValidationException(entityUrn={M}, aspectName=status, subType=PRECONDITION, "
        "msg=Expected version -1, actual version 1)]}"
    )
    past, future = "2001-01-01T00:00:00Z", "2101-01-01T00:00:00+02:00"
    write({"removed": False}, 422, If_Unmodified_Since=past)
    write({"removed": False}, 422, If_Modified_Since=future)
    assert stored(client, "status") == {"removed": True}
    write({"removed": False}, If_Unmodified_Since=future, If_Modified_Since=past)
    assert stored(client, "status") == {"removed": False}
    assert "must be a time" in write({}, 422, If_Modified_Since="yesterday")
    assert "must be a time" in write({}, 422, If_Modified_Since="2001-01-01T00:00:00+99:00")


def test_what_the_client_did_to_a_single_proposal_is_undone(client: RestClient) -> None:
    metadata = {"runId": "n\\u00e4chtlich", "properties": {"clientId": "acryl-datahub"}}
    name = "gr\\u00f6\\u00dfe"
    sent = proposal({"description": "é"}, model(name), systemMetadata=metadata)
    client.ok("POST", SINGLE, {"proposal": sent})
    [found] = client.store.get_many([model("größe")], ["mlModelProperties"])[
        model("größe")
    ].values()
    assert found.system_metadata["runId"] == "nächtlich"
    assert found.value["description"] == "é"
    # Batches come as they are.
    client.ok("POST", BATCH, {"proposals": [sent]})
    assert client.store.exists([model(name)])


def snapshot(urn: Any = M, *aspects: Any) -> dict[str, Any]:
    value = {"com.linkedin.metadata.snapshot.MLModelSnapshot": {"urn": urn, "aspects": aspects}}
    return {"value": value}


PROPERTIES = {"com.linkedin.ml.metadata.MLModelProperties": {"description": "d"}}
STATUS = {"com.linkedin.common.Status": {"removed": False}}


def test_a_snapshot_writes_all_its_aspects(client: RestClient) -> None:
    body = {"entity": snapshot(M, PROPERTIES, STATUS), "systemMetadata": {"runId": "r"}}
    assert client.ok("POST", INGEST, body) == {}
    assert stored(client)["description"] == "d"
    assert stored(client, "status") == {"removed": False}
    found = client.store.get_many([M], ["status"])[M]["status"]
    assert found.system_metadata == {"runId": "r"}


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        (3, "entity must be a JSON object"),
        ({}, "entity.value: the parameter is missing"),
        ({"value": {"com.linkedin.metadata.snapshot.X": 3}}, "snapshot.X must be a JSON object"),
        (snapshot(3), "Snapshot.urn: expected a string"),
        (
            {"value": {"com.linkedin.metadata.snapshot.X": {"urn": M, "aspects": 3}}},
            "snapshot.X.aspects must be a list",
        ),
        (snapshot(M, 3), "Snapshot.aspects[0] must be a JSON object"),
        (
            snapshot(M, {"com.linkedin.common.Status": 3}),
            "Snapshot.aspects[0].com.linkedin.common.Status must be a JSON object",
        ),
    ],
    ids=repr,
)
def test_a_body_that_holds_no_snapshot_is_refused(
    client: RestClient, entity: Any, message: str
) -> None:
    assert message in client.refused("POST", INGEST, {"entity": entity})


@pytest.mark.parametrize(
    ("entity", "message"),
    [
        ({"value": {}}, "entity.value: expected one snapshot"),
        ({"value": {"x": {"urn": M, "aspects": []}}}, "entity.value: expected one snapshot"),
        (snapshot("x"), "urn: 'x' is not a URN"),
        (snapshot(M, STATUS, {}), "aspects[1]: expected one record, not 0"),
        (
            snapshot(M, {"com.linkedin.common.Nothing": {}}),
            "Unknown aspect nothing for entity mlModel",
        ),
        (snapshot(M, {"com.linkedin.common.Status": {"removed": "x"}}), "removed"),
    ],
    ids=repr,
)
def test_a_snapshot_that_is_none_is_refused(client: RestClient, entity: Any, message: str) -> None:
    assert message in client.refused("POST", INGEST, {"entity": entity}, 422)
    assert client.store.read(counts) == {}


@pytest.mark.parametrize(
    ("body", "message"),
    [({}, "entity: the parameter is missing"), ([], "the body must be a JSON object")],
)
def test_parameters_are_named(client: RestClient, body: Any, message: str) -> None:
    assert message in client.refused("POST", INGEST, body)


def test_a_snapshot_has_so_many_aspects(tmp_path: Path) -> None:
    aspects: list[dict[str, Any]] = [{f"com.linkedin.post.A{n}": {}} for n in range(4)]
    snapshot = {"urn": "urn:li:post:p", "aspects": aspects}
    entity = {"value": {"com.linkedin.metadata.snapshot.PostSnapshot": snapshot}}
    with rest_client(tmp_path / "c.db", Limits(proposals=3)) as client:
        refused = client.refused("POST", INGEST, {"entity": entity})
        assert "has 4 aspects; the limit is 3" in refused


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("POST", "/runs?action=rollback", 404),
        ("GET", "/relationships?urn=urn:li:tag:a&direction=INCOMING&types=List(TaggedWith)", 404),
        ("GET", "/entitiesV2?ids=List(urn:li:tag:a)", 404),
        ("POST", "/openapi/v3/relationship/scroll", 404),
        ("GET", "/openapi/v1/registry/models/entity/specifications", 404),
        # Rest.li refuses an action that a resource does not have with 400.
        ("POST", "/entities?action=listUrns", 400),
        ("POST", "/aspects?action=getCount", 400),
    ],
)
def test_what_is_no_endpoint_is_refused_as_a_server_does(
    client: RestClient, method: str, target: str, status: int
) -> None:
    client.refused(method, target, {}, status)
