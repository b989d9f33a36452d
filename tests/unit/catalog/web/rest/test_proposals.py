import json
from typing import Any

import pytest

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.web.rest.proposals import read_proposal

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


PLAIN = Write(MODEL, "mlModelProperties", {"type": "x"})


@pytest.mark.parametrize(
    ("changes", "write"),
    [
        ({}, PLAIN),
        ({"aspect": {"type": "x"}}, PLAIN),
        ({"aspect": {"value": '{"type": "x"}'}}, PLAIN),
        (
            {
                "aspect": {
                    "value": '{"type": "x"}',
                    "contentType": "application/json; charset=utf-8",
                }
            },
            PLAIN,
        ),
        ({"aspectName": ...}, PLAIN),
        ({"aspectName": None}, PLAIN),
        ({"aspectName": ""}, PLAIN),
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
        ({"changeType": ...}, PLAIN),
        (
            {"changeType": "RESTATE"},
            Write(MODEL, "mlModelProperties", {"type": "x"}, change="RESTATE"),
        ),
        (
            {"changeType": "UPDATE"},
            Write(MODEL, "mlModelProperties", {"type": "x"}, change="UPDATE"),
        ),
        (
            {"changeType": "DELETE", "aspect": ...},
            Write(MODEL, "mlModelProperties", change="DELETE"),
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
            {"changeType": "PATCH", "aspect": {"value": '{"patch": []}'}, "aspectName": ...},
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
        ({"headers": None, "systemMetadata": None, "auditHeader": None}, PLAIN),
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
    assert read_proposal(proposal(**changes)) == write


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ("text", "a proposal must be an object, not a string"),
        (None, "a proposal must be an object, not null"),
        (proposal(entityUrn=...), "entityUrn: missing"),
        (proposal(entityUrn=3), "entityUrn: expected a string, not a number"),
        (proposal(entityUrn="x"), "entityUrn: 'x' is not a URN"),
        (proposal(entityType=...), "entityType: missing"),
        (
            proposal(entityType="mlFeature"),
            "entityType: 'mlFeature', but entityUrn names a mlModel",
        ),
        (proposal(entityType=["a"]), "entityType: expected a string, not a list"),
        (
            proposal(changeType="MERGE"),
            "changeType: 'MERGE' is not supported; use one of CREATE, C",
        ),
        (proposal(changeType="delete"), "changeType: 'delete' is not supported"),
        (proposal(changeType=True), "changeType: expected a string, not a boolean"),
        (proposal(aspect=...), "aspect: expected an object, not null"),
        (proposal(aspect=[]), "aspect: expected an object, not a list"),
        (proposal(aspectName=7), "aspectName: expected a string, not a number"),
        (proposal(aspect={"value": "{"}), "aspect.value: not .*JSON"),
        (proposal(aspect={"value": "[1]"}), "aspect.value: expected .* an object, not of a list"),
        (proposal(aspect={"value": '{"a": NaN}'}), "aspect.value: not .*JSON"),
        (proposal(aspect={"value": "[" * 5000}), "aspect.value: not .*JSON"),
        (
            proposal(aspect={"value": "{}", "contentType": "application/avro"}),
            "contentType: expected",
        ),
        (proposal(aspect={"value": "{}", "contentType": 3}), "aspect.contentType: expected"),
        (proposal(headers=["x"]), "headers: expected an object of strings"),
        (proposal(headers={"If-Version-Match": 3}), "headers: expected an object of strings"),
        (proposal(headers={"If-Modified-Since": "x"}), "If-Modified-Since must be a time"),
        (proposal(headers={"If-None-Match": "3"}), "If-None-Match may only be '\\*', not '3'"),
        (proposal(changeType="DELETE", aspectName=...), "aspectName: missing; a DELETE"),
        (
            proposal(changeType="PATCH", aspect={"value": "3"}),
            "aspect.value: expected a list or an object, not a number",
        ),
        (
            proposal(changeType="PATCH", aspect={"value": "[]", "contentType": "text/plain"}),
            "contentType: expected 'application/json-patch",
        ),
        (proposal(systemMetadata=3), "systemMetadata: expected an object, not a number"),
        (proposal(systemMetadata="{"), "systemMetadata: not .*JSON"),
        (proposal(systemMetadata="[]"), "systemMetadata: expected an object, not a list"),
        (
            {"entityType": "chart", "entityUrn": "urn:li:chart:x", "aspect": {}},
            "aspectName: missing",
        ),
    ],
)
def test_what_is_not_understood_is_named(sent: object, sentence: str) -> None:
    with pytest.raises(InvalidProposalError, match=sentence) as caught:
        read_proposal(sent, 4)
    assert caught.value.index == 4


def test_the_text_of_an_aspect_is_read_without_loss() -> None:
    value = {"n": 2**63 - 1, "big": 1.5e300, "text": "ééé 😀 \\u00e9"}
    read = read_proposal(proposal(aspect={"value": json.dumps(value)}))
    assert read.value == value
