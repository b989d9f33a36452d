"""Writing and deleting through OpenAPI v3."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from mlcat_ingest.catalog.limits import NAMES, Limits
from support.catalog_store import counts, group, model, put
from support.rest_client import RestClient, rest_client

MODELS = "/openapi/v3/entity/mlModel"
M = model("m")
PROPERTIES = {"type": "tree", "customProperties": {}, "tags": []}


def item(urn: str = M, **aspects: Any) -> dict[str, Any]:
    return {"urn": urn, **{name: {"value": value} for name, value in aspects.items()}}


def path(urn: str, *more: str) -> str:
    return "/".join((MODELS, quote(urn, safe=""), *more))


@pytest.mark.parametrize(
    ("query", "status"), [("", 202), ("?async=true", 202), ("?async=false", 200)]
)
def test_a_write_is_stored_whatever_async_says(client: RestClient, query: str, status: int) -> None:
    one = item(mlModelProperties=PROPERTIES, status={"removed": False})
    two = item(model("n"), status={})
    client.ok("POST", MODELS, [one, two], 202)
    assert client.ok("POST", MODELS + query, [one, two], status) == [one, two]
    found = client.store.get_many([M], ["mlModelProperties"])[M]["mlModelProperties"]
    assert found.value == PROPERTIES


def test_the_answer_shows_system_metadata_where_asked_to(client: RestClient) -> None:
    sent = item(status={"removed": True})
    sent["status"]["systemMetadata"] = {"runId": "r", "properties": {"clientId": "me"}}
    [written] = client.ok("POST", f"{MODELS}?async=false&systemMetadata=true", [sent])
    metadata = written["status"]["systemMetadata"]
    assert metadata["version"] == "1"
    assert metadata["runId"] == "r"
    assert metadata["properties"] == {"clientId": "me", "eventSource": "openapi"}
    assert metadata["aspectCreated"]["actor"] == metadata["aspectModified"]["actor"]


def test_events_are_shown_as_they_came(client: RestClient) -> None:
    job = "urn:li:dataJob:(urn:li:dataFlow:(datahub,p,PROD),j)"
    name = "datahubIngestionRunSummary"
    events = [{"timestampMillis": at, "runId": f"r{at}"} for at in (5, 3)]
    for event in events:
        sent = [{"urn": job, name: {"value": event, "systemMetadata": {"runId": "r"}}}]
        assert client.ok("POST", "/openapi/v3/entity/dataJob", sent, 202)[0][name] == {
            "value": event
        }


def test_one_entity_may_come_in_several_items(client: RestClient) -> None:
    sent = [item(status={"removed": True}), item(mlModelProperties=PROPERTIES)]
    [written] = client.ok("POST", f"{MODELS}?async=false", sent)
    assert {"status", "mlModelProperties"} <= set(written)


def test_a_wrong_version_is_a_failed_precondition_and_nothing_is_written(
    client: RestClient,
) -> None:
    client.ok("POST", MODELS, [item(status={"removed": False})], 202)
    conditional = item(status={"removed": True})
    conditional["status"]["headers"] = {"If-Version-Match": "3"}
    answer = client.send("POST", MODELS, [item(model("n"), status={}), conditional])
    assert answer.status == 412
    assert answer.json()["error"] == "Precondition Error"
    assert f"EntityAspect:({M},status)" in answer.json()["message"]
    assert "Expected version 3, actual version 1" in answer.json()["message"]
    assert client.store.exists([M, model("n")]) == {M}
    conditional["status"]["headers"] = {"If-Version-Match": "1"}
    client.ok("POST", MODELS, [conditional], 202)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "the body must be a list, not an object"),
        ([3], r"[0] must be a JSON object"),
        ([{}], "[0].urn: the parameter is missing"),
        ([{"urn": 3}], "[0].urn: expected a string, not a number"),
        ([{"urn": "x"}], "[0].urn: 'x' is not a URN"),
        ([item(status={}), item(group("g"), status={})], "[1].urn: urn:li:mlModelGroup"),
        ([{"urn": M, "status": 3}], "[0].status must be a JSON object, not a number"),
        ([{"urn": M, "status": {}}], "[0].status.value: the parameter is missing"),
        ([{"urn": M, "status": None}], "[0].status must be a JSON object, not null"),
        (
            [{"urn": M, "status": {"value": []}}],
            "[0].status.value must be a JSON object, not a list",
        ),
        (
            [{"urn": M, "status": {"value": {}, "headers": []}}],
            "[0].status.headers must be a JSON object, not a list",
        ),
        (
            [{"urn": M, "status": {"value": {}, "headers": {"If-Version-Match": 3}}}],
            "[0].status.headers.If-Version-Match: expected a string, not a number",
        ),
        (
            [{"urn": M, "status": {"value": {}, "systemMetadata": []}}],
            "[0].status.systemMetadata must be a JSON object",
        ),
        ([item(status={}), item(status={"removed": "no"})], "/removed :: no cannot be"),
        ([item(status={}, nothing={})], "Unknown aspect nothing for entity mlModel"),
        ([item(mlModelProperties={"trainingMetrics": [{"name": 3}]})], "/trainingMetrics/0/name"),
    ],
    ids=repr,
)
def test_what_cannot_be_written_is_named_and_nothing_is(
    client: RestClient, body: Any, message: str
) -> None:
    assert message in client.refused("POST", MODELS, body)
    assert client.store.read(counts) == {}


def test_a_refusal_says_what_kind_it_is(client: RestClient) -> None:
    validation = client.send("POST", MODELS, [item(status={"removed": "no"})])
    assert validation.json()["error"] == "Validation Error"
    syntax = client.send("POST", MODELS, b"{")
    assert syntax.json()["error"] == "Invalid JSON format"
    assert client.send("POST", "/openapi/v3/entity/x", []).json()["error"] == "Not Found"


GENERIC = {"forceGenericPatch": True}
ADD = {"op": "add", "path": "/customProperties/a", "value": "1"}


def test_a_patch_makes_what_it_edits_and_shows_all_of_the_entity(client: RestClient) -> None:
    sent = [{"urn": M, "mlModelProperties": {"value": {"patch": [ADD], **GENERIC}}}]
    [patched] = client.ok("PATCH", f"{MODELS}?async=false", sent)
    assert patched["mlModelProperties"]["value"]["customProperties"] == {"a": "1"}
    assert patched["mlModelProperties"]["value"]["tags"] == []
    assert {"mlModelKey", "browsePathsV2", "dataPlatformInstance"} <= set(patched)
    remove = {"patch": [{"op": "remove", "path": "/customProperties/a"}], **GENERIC}
    [patched] = client.ok(
        "PATCH", MODELS, [{"urn": M, "mlModelProperties": {"value": remove}}], 202
    )
    assert patched["mlModelProperties"]["value"]["customProperties"] == {}


def test_a_patch_of_keyed_arrays_adds_to_them(client: RestClient) -> None:
    for name in ("a", "b"):
        tag = f"urn:li:tag:{name}"
        patch = {
            "arrayPrimaryKeys": {"tags": ["tag"]},
            "patch": [{"op": "add", "path": f"/tags/{tag}", "value": {"tag": tag}}],
        }
        client.ok("PATCH", MODELS, [{"urn": M, "globalTags": {"value": patch}}], 202)
    tags = client.store.get_many([M], ["globalTags"])[M]["globalTags"].value["tags"]
    assert [one["tag"] for one in tags] == ["urn:li:tag:a", "urn:li:tag:b"]


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (3, "Invalid JSON Patch: 3"),
        ({}, "Invalid JSON Patch: {}"),
        ([ADD], "Patch not supported for aspect with name mlModelProperties"),
        ({"patch": [{"op": "add"}], **GENERIC}, "path"),
        ({"patch": [{**ADD, "path": "/customProperties", "value": 3}], **GENERIC}, "customProp"),
    ],
    ids=repr,
)
def test_a_patch_that_cannot_be_applied_is_refused(
    client: RestClient, patch: Any, message: str
) -> None:
    sent = [{"urn": M, "mlModelProperties": {"value": patch}}]
    refused = client.refused("PATCH", MODELS, sent)
    assert message in refused
    assert client.store.read(counts) == {}


def test_a_patch_carries_conditions(client: RestClient) -> None:
    sent = [{"urn": M, "mlModelProperties": {"value": {"patch": [ADD], **GENERIC}}}]
    sent[0]["mlModelProperties"]["headers"] = {"If-Version-Match": "7"}  # type: ignore[index]
    message = client.refused("PATCH", MODELS, sent, 412)
    assert f"EntityAspect:({M},mlModelProperties)" in message
    assert "subType=PRECONDITION, msg=Expected version 7, actual version -1)" in message


def test_a_validators_refusal_ends_with_its_sentence(client: RestClient) -> None:
    version = {"versionSet": "urn:li:versionSet:(s,mlModel)", "version": {"versionTag": "1"}}
    sent = [item(versionProperties={**version, "sortId": "1", "isLatest": True})]
    assert client.refused("POST", MODELS, sent) == (
        "Failed to validate MCP due to: ValidationExceptionCollection{EntityAspect:("
        f"{M},versionProperties) Exceptions: [AspectValidationException(subType=VALIDATION, "
        "msg=IsLatest should not be specified, this is a computed field.)]}"
    )


def test_some_aspects_are_deleted_and_others_stay(client: RestClient) -> None:
    def held() -> set[str]:
        return set(client.store.get_many([M], ["status", "subTypes", "mlModelProperties"])[M])

    sent = item(
        status={"removed": False}, subTypes={"typeNames": ["x"]}, mlModelProperties=PROPERTIES
    )
    client.ok("POST", MODELS, [sent], 202)
    client.ok("DELETE", f"{path(M)}?aspects=subTypes")
    assert held() == {"status", "mlModelProperties"}
    client.ok("DELETE", path(M, "status"))
    assert held() == {"mlModelProperties"}
    client.ok("DELETE", path(M, "status"))
    client.ok("DELETE", f"{path(M)}?clear=true")
    assert held() == set()
    assert client.store.exists([M])
    client.ok("DELETE", path(M, "mlModelKey"))
    assert not client.store.exists([M])


def test_an_entity_is_deleted_by_a_path_that_is_not_encoded(client: RestClient) -> None:
    for name in ("a b/c", "a%2Cb", "a%28b%29", "plain"):
        urn = model(name)
        client.ok("POST", MODELS, [item(urn, status={})], 202)
        # As DataHub's client sends it: requests encodes what may not stand in a path at all.
        client.ok("DELETE", f"{MODELS}/{urn.replace(' ', '%20')}", [])
        assert not client.store.exists([urn])


def test_deleting_what_does_not_exist_does_nothing(client: RestClient) -> None:
    client.ok("DELETE", path(M))


@pytest.mark.parametrize(
    ("method", "target", "message"),
    [
        ("DELETE", f"{path(M)}?aspects=nothing", "Unknown aspect nothing for entity mlModel"),
        ("DELETE", f"{path(M)}?clear=perhaps", "clear: expected true or false"),
        ("DELETE", f"{MODELS}/%FF", "not UTF-8"),
        ("DELETE", f"{MODELS}/urn:li:mlModel:((a)", "unbalanced parentheses"),
    ],
)
def test_a_path_that_names_nothing_is_refused(
    client: RestClient, method: str, target: str, message: str
) -> None:
    assert message in client.refused(method, target, {"value": {}})


@pytest.mark.parametrize("target", [f"{MODELS}/nothing", f"{MODELS}/urn:li:nothing:x"])
def test_a_path_without_an_entity_is_not_there(client: RestClient, target: str) -> None:
    for method in ("DELETE", "GET"):
        assert "nothing" in client.refused(method, target, None, 404)


def test_the_urn_in_the_path_says_of_which_type_the_entity_is(client: RestClient) -> None:
    urn = put(client.store, group("g"), status={}, subTypes={"typeNames": ["x"]})
    target = f"/openapi/v3/entity/tag/{quote(urn, safe='')}"
    client.ok("DELETE", f"{target}/nothing")
    client.ok("DELETE", f"{target}/subTypes")
    assert set(client.store.get_many([urn], {"status", "subTypes"})[urn]) == {"status"}
    client.ok("DELETE", target)
    assert not client.store.exists([urn])


@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT"])
def test_an_entity_has_no_such_method(client: RestClient, method: str) -> None:
    assert "does not support" in client.refused(method, path(M), {}, 405)


@pytest.mark.parametrize(
    ("limits", "count", "what"),
    [(Limits(proposals=3), 4, "4 aspects"), (Limits(), NAMES + 1, "1001 names of aspects")],
)
def test_a_batch_has_so_many_aspects_however_few_its_entities(
    tmp_path: Path, limits: Limits, count: int, what: str
) -> None:
    urn = "urn:li:post:p"
    post = {"urn": urn, **{f"a{n}": {"value": {}} for n in range(count)}}
    with rest_client(tmp_path / "c.db", limits) as client:
        assert f"has {what}; the limit is" in client.refused(
            "POST", "/openapi/v3/entity/post", [post]
        )
        assert not client.store.exists([urn])
