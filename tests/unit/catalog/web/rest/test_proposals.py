import json
from typing import Any

import pytest

from mlcat_ingest.catalog.errors import BadRequestError, CatalogError, InvalidProposalError
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.web.rest.proposals import (
    ManyProposals,
    OneProposal,
    read_parameters,
    read_proposal,
)

MODEL = "urn:li:mlModel:(urn:li:dataPlatform:mlflow,m,PROD)"


def proposal(**changes: Any) -> dict[str, Any]:
    whole = {
        "entityType": "mlModel",
        "entityUrn": MODEL,
        "changeType": "UPSERT",
        "aspectName": "mlModelProperties",
        "aspect": {"value": '{"type": "x"}', "contentType": "application/json"},
    }
    return {name: value for name, value in {**whole, **changes}.items() if value is not ...}


def envelope(value: object, content_type: object = "application/json") -> dict[str, Any]:
    return {"value": value, "contentType": content_type}


PLAIN = Write(MODEL, "mlModelProperties", {"type": "x"})


@pytest.mark.parametrize(
    ("changes", "write"),
    [
        ({}, PLAIN),
        ({"aspect": {"type": "x"}}, PLAIN),
        ({"aspect": envelope('{"type": "x"}') | {"unknown": 1}}, PLAIN),
        ({"aspectName": ...}, PLAIN),
        ({"aspect": {"com.linkedin.ml.metadata.MLModelProperties": {"type": "x"}}}, PLAIN),
        (
            {"aspectName": ..., "aspect": {"com.linkedin.common.Status": {"removed": True}}},
            Write(MODEL, "status", {"removed": True}),
        ),
        (
            {"aspect": {"com.linkedin.common.Status": {}}},
            Write(MODEL, "mlModelProperties", {"com.linkedin.common.Status": {}}),
        ),
        (
            {"aspect": {"com.linkedin.unknown.Thing": {}}},
            Write(MODEL, "mlModelProperties", {"com.linkedin.unknown.Thing": {}}),
        ),
        ({"aspect": {}}, Write(MODEL, "mlModelProperties", {})),
        ({"entityType": "MLMODEL"}, PLAIN),
        ({"auditHeader": None, "unknown": 1}, PLAIN),
        (
            {"changeType": "UPDATE"},
            Write(MODEL, "mlModelProperties", {"type": "x"}, change="UPDATE"),
        ),
        (
            {
                "changeType": "PATCH",
                "aspect": {
                    "value": '[{"op": "remove", "path": "/type"}]',
                    "contentType": "application/json-patch+json",
                },
            },
            Write(
                MODEL,
                "mlModelProperties",
                {"patch": [{"op": "remove", "path": "/type"}]},
                change="PATCH",
            ),
        ),
        (
            {"changeType": "PATCH", "aspect": envelope('{"patch": []}'), "aspectName": ...},
            Write(MODEL, "mlModelProperties", {"patch": []}, change="PATCH"),
        ),
        (
            {"changeType": "PATCH", "aspect": {"patch": [], "forceGenericPatch": True}},
            Write(
                MODEL,
                "mlModelProperties",
                {"patch": [], "forceGenericPatch": True},
                change="PATCH",
            ),
        ),
        (
            {
                "headers": {
                    "If-Modified-Since": "1970-01-01T00:00:01.5Z",
                    "if-unmodified-since": "1969-12-31T23:59:59+00:00",
                }
            },
            Write(
                MODEL,
                "mlModelProperties",
                {"type": "x"},
                if_modified_since_ms=1_500,
                if_unmodified_since_ms=-1_000,
            ),
        ),
        (
            {"headers": {"If-Modified-Since": "2026-01-31T13:00:00+01:00"}},
            Write(
                MODEL,
                "mlModelProperties",
                {"type": "x"},
                if_modified_since_ms=1_769_860_800_000,
            ),
        ),
        (
            {"headers": {"If-Modified-Since": "2026-01-31T12:00:00"}},
            Write(
                MODEL,
                "mlModelProperties",
                {"type": "x"},
                if_modified_since_ms=1_769_860_800_000,
            ),
        ),
        (
            {"changeType": "CREATE"},
            Write(MODEL, "mlModelProperties", {"type": "x"}, change="CREATE"),
        ),
        ({"headers": {"If-None-Match": "3"}}, PLAIN),
        ({"headers": {"X-Other": "y"}}, PLAIN),
        (
            {"headers": {"If-Version-Match": "3"}},
            Write(MODEL, "mlModelProperties", {"type": "x"}, expected_version="3"),
        ),
        (
            {"headers": {"if-none-match": "*"}, "changeType": "CREATE_ENTITY"},
            Write(
                MODEL,
                "mlModelProperties",
                {"type": "x"},
                change="CREATE_ENTITY",
                skip_if_exists=True,
            ),
        ),
        (
            {"systemMetadata": {"runId": "r"}},
            Write(MODEL, "mlModelProperties", {"type": "x"}, system_metadata={"runId": "r"}),
        ),
        (
            {"systemMetadata": '{"runId": "r"}'},
            Write(MODEL, "mlModelProperties", {"type": "x"}, system_metadata={"runId": "r"}),
        ),
    ],
)
def test_every_form_that_clients_send_is_understood(changes: dict[str, Any], write: Write) -> None:
    assert read(proposal(**changes)) == write


def read(sent: Any) -> Write:
    read_parameters("ingestProposal", OneProposal, {"proposal": sent})
    return read_proposal(sent)


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ("text", "/proposal :: record type is not backed by a DataMap"),
        (None, "/proposal :: record type is not backed by a DataMap"),
        (proposal(entityUrn=3), "/proposal/entityUrn :: 3 cannot be coerced to String"),
        (proposal(entityType=None), "/proposal/entityType :: null cannot be coerced to String"),
        (proposal(changeType="MERGE"), '/proposal/changeType :: "MERGE" is not an enum symbol'),
        (proposal(changeType="upsert"), '/proposal/changeType :: "upsert" is not an enum symbol'),
        (proposal(changeType=True), "/proposal/changeType :: enum type is not backed by a String"),
        (proposal(aspect=None), "/proposal/aspect :: record type is not backed by a DataMap"),
        (proposal(aspect=[]), "/proposal/aspect :: record type is not backed by a DataMap"),
        (proposal(aspect=envelope({})), "/proposal/aspect/value :: {} cannot be coerced to Bytes"),
        (proposal(aspect=envelope("{}", 3)), "contentType :: 3 cannot be coerced to String"),
        (proposal(aspectName=7), "/proposal/aspectName :: 7 cannot be coerced to String"),
        (proposal(headers=["x"]), "/proposal/headers :: map type is not backed by a DataMap"),
        (proposal(headers={"If-Version-Match": 3}), "/headers/If-Version-Match :: 3 cannot be"),
        (
            proposal(aspect=envelope('{"name": "\u0142"}')),
            '/proposal/aspect/value :: {"name": "\u0142"} is not a valid string repr',
        ),
        (proposal(aspect=envelope("{}", "application/avro")), "application/avro content type is"),
        (
            proposal(aspect=envelope("{}", "application/json; charset=utf-8")),
            "application/json; charset=utf-8 content type is not supported",
        ),
        (
            proposal(changeType="PATCH", aspect=envelope("[]", "text/plain")),
            "text/plain content type is not supported",
        ),
        (proposal(changeType="PATCH", aspect=envelope("3")), "Invalid JSON Patch: 3"),
        (proposal(changeType="PATCH", aspect=envelope("")), "Invalid JSON Patch: "),
        (proposal(changeType="PATCH", aspect=envelope('{"patch": 1}')), "Invalid JSON Patch: {"),
    ],
)
def test_a_wrong_parameter_is_named(sent: object, sentence: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        read(sent)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        (proposal(entityUrn=...), "entityUrn: missing"),
        (proposal(entityUrn="x"), "entityUrn: 'x' is not a URN"),
        (proposal(entityType=...), "entityType: missing"),
        (proposal(entityType="nothing"), "Failed to find entity with name nothing in EntityReg"),
        (
            proposal(entityType="mlFeature"),
            "URN entity type does not match MCP entity type. mlModel != mlFeature",
        ),
        (proposal(changeType=...), "changeType: missing"),
        (proposal(changeType="RESTATE"), "ChangeType not supported: [RESTATE]"),
        (proposal(changeType="DELETE", aspect=...), "ChangeType not supported: [DELETE]"),
        (proposal(aspect=...), "aspect: expected an object, not null"),
        (proposal(aspect={"value": "{}"}), "aspect: it needs both value and contentType"),
        (proposal(aspect={"contentType": "application/json"}), "aspect: it needs both value"),
        (proposal(aspectName=""), "aspectName: empty"),
        (proposal(aspect=envelope("{")), "aspect.value: not usable JSON"),
        (proposal(aspect=envelope("[1]")), "aspect.value: expected the JSON text of an object"),
        (proposal(aspect=envelope('{"a": NaN}')), "aspect.value: not usable JSON"),
        (proposal(aspect=envelope("[" * 5000)), "aspect.value: not usable JSON"),
        (proposal(headers={"If-Modified-Since": "x"}), "If-Modified-Since must be a time"),
        (proposal(systemMetadata=3), "systemMetadata: expected an object, not a number"),
        (proposal(systemMetadata="{"), "systemMetadata: not usable JSON"),
        (proposal(systemMetadata="[]"), "systemMetadata: expected an object, not a list"),
        (
            proposal(entityType="role", entityUrn="urn:li:role:x", aspectName=..., aspect={}),
            "aspectName: missing",
        ),
    ],
)
def test_what_is_not_understood_is_named(sent: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidProposalError) as caught:
        read(sent)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"changeType": []},
        {"changeType": None},
        {"entityUrn": 1},
        {"headers": {"If-Version-Match": 1}},
        {"headers": ["1"]},
        {"aspect": envelope("\N{SNOWMAN}")},
        {"aspect": {"value": 3, "contentType": "application/json"}},
        {"aspect": "{}"},
    ],
)
def test_proposals_are_checked_together_as_each_alone(wrong: dict[str, Any]) -> None:
    right = proposal(headers={"If-Version-Match": "1"})
    with pytest.raises(CatalogError) as alone:
        read_parameters("m", OneProposal, {"proposal": right | wrong})
    with pytest.raises(CatalogError) as together:
        read_parameters("m", ManyProposals, {"proposals": [right, right | wrong, right]})
    assert str(together.value) == str(alone.value).replace("/proposal/", "/proposals/1/")


def test_the_text_of_an_aspect_is_read_without_loss() -> None:
    value = {"n": 2**63 - 1, "big": 1.5e300, "text": "ééé 😀 \\u00e9"}
    assert read(proposal(aspect=envelope(json.dumps(value)))).value == value


@pytest.mark.parametrize(
    ("sent", "stored"),
    [
        ("mod\u00c3\u00a8le", "modèle"),  # each character one byte of its UTF-8
        ("mod\u00e8le", "mod\ufffdle"),  # a byte that is no UTF-8
        ("\u00ff\u00fe", "\ufffd\ufffd"),
    ],
)
def test_each_character_of_an_aspect_is_a_byte(sent: str, stored: str) -> None:
    whole = proposal(aspect=envelope(f'{{"name": "{sent}"}}'))
    assert read(whole).value == {"name": stored}
