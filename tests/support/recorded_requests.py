"""Requests as good clients send them: one for each call of the REST interface, more for writes."""

import json
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from support.catalog_store import feature, group, model, table

MODEL: Final = model("run-1")
GROUP: Final = group("churn")
TEST: Final = "urn:li:test:documented"
JOB: Final = "urn:li:dataJob:(urn:li:dataFlow:(datahub,p,PROD),j)"
_SYSTEM: Final = {
    "lastObserved": 1_760_000_000_000,
    "runId": "no-run-id-provided",
    "lastRunId": "no-run-id-provided",
    "properties": {"clientId": "acryl-datahub", "clientVersion": "1.7.0.17"},
}
_ACTOR: Final = "urn:li:corpuser:ada"
_STAMP: Final = {"time": 1_760_000_000_000, "actor": _ACTOR}


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request with a body: where it goes, and the JSON it carries."""

    path: str
    body: Any
    method: str = "POST"


def proposal(urn: str, aspect: str, value: Any, **more: Any) -> dict[str, Any]:
    """Return a proposal as the DataHub SDK writes it: the aspect is a JSON text in the JSON."""
    return {
        "entityType": urn.split(":")[2],
        "entityUrn": urn,
        "changeType": "UPSERT",
        "aspectName": aspect,
        "aspect": {"value": json.dumps(value), "contentType": "application/json"},
        "systemMetadata": _SYSTEM,
        **more,
    }


def patch(urn: str, aspect: str, value: Any) -> dict[str, Any]:
    """Return a proposal that edits an aspect."""
    edit = proposal(urn, aspect, value, changeType="PATCH")
    edit["aspect"]["contentType"] = "application/json-patch+json"
    return edit


PROPOSALS: Final = (
    proposal(
        MODEL,
        "mlModelProperties",
        {
            "name": "first run",
            "description": "a model",
            "type": "classifier",
            "customProperties": {"mlflow.user": "ada"},
            "groups": [GROUP],
            "mlFeatures": [feature("users", "age")],
            "hyperParams": [{"name": "depth", "value": "3"}],
            "trainingMetrics": [{"name": "auc", "value": "0.93", "createdAt": 1_760_000_000_000}],
            "version": {"versionTag": "1"},
            "created": _STAMP,
            "lastModified": {"time": 1_760_000_000_000},
            "externalUrl": "https://mlflow.example.com/#/runs/1",
            "tags": [],
        },
    ),
    proposal(
        MODEL,
        "ownership",
        {"owners": [{"owner": _ACTOR, "type": "DATAOWNER"}], "lastModified": _STAMP},
    ),
    proposal(MODEL, "globalTags", {"tags": [{"tag": "urn:li:tag:gold"}]}),
    proposal(MODEL, "status", {"removed": False}, changeType="CREATE"),
    proposal(
        GROUP,
        "mlModelGroupKey",
        {"platform": "urn:li:dataPlatform:mlflow", "name": "churn", "origin": "PROD"},
        changeType="CREATE_ENTITY",
    ),
    proposal(
        GROUP,
        "mlModelGroupProperties",
        {"name": "churn", "description": "all runs", "customProperties": {}},
        headers={"If-Version-Match": "-1"},
    ),
    proposal(
        feature("users", "age"),
        "mlFeatureProperties",
        {
            "description": "in years",
            "dataType": "CONTINUOUS",
            "sources": ["urn:li:dataset:(urn:li:dataPlatform:hive,users,PROD)"],
        },
    ),
    proposal(table("users"), "mlFeatureTableProperties", {"mlFeatures": [feature("users", "age")]}),
    proposal(
        TEST,
        "testInfo",
        {
            "name": "Has a description",
            "category": "documentation",
            "definition": {
                "type": "JSON",
                "json": json.dumps(
                    {
                        "on": {"types": ["mlModel"]},
                        "rules": {
                            "or": [
                                {"property": "mlModelProperties.name", "operator": "exists"},
                                {
                                    "property": "mlModelProperties.description",
                                    "operator": "regex_match",
                                    "values": ["a .*"],
                                },
                            ]
                        },
                    }
                ),
            },
        },
    ),
    patch(
        MODEL,
        "globalTags",
        {
            "arrayPrimaryKeys": {"tags": ["attribution␟source", "tag"]},
            "patch": [
                {"op": "add", "path": "/tags//urn:li:tag:a~1b", "value": {"tag": "urn:li:tag:a/b"}},
                {"op": "remove", "path": "/tags/*/urn:li:tag:gold", "value": {}},
            ],
        },
    ),
    patch(
        MODEL,
        "mlModelProperties",
        {
            "forceGenericPatch": True,
            "patch": [{"op": "replace", "path": "/customProperties/mlflow.user", "value": "bob"}],
        },
    ),
    proposal(
        JOB,
        "datahubIngestionCheckpoint",
        {
            "timestampMillis": 1_760_000_000_000,
            "pipelineName": "p",
            "platformInstanceId": "",
            "config": "{}",
            "runId": "nightly",
        },
        systemMetadata={"runId": "nightly", "lastObserved": 1_760_000_000_000},
    ),
    proposal(
        "urn:li:dataHubExecutionRequest:1",
        "dataHubExecutionRequestResult",
        {"status": "SUCCESS", "startTimeMs": 1_760_000_000_000, "report": "fine"},
    ),
)

_REPEATABLE: Final = [
    one for one in PROPOSALS if one["changeType"] == "UPSERT" and "headers" not in one
]
_SNAPSHOT: Final = {
    "value": {
        "com.linkedin.metadata.snapshot.MLModelSnapshot": {
            "urn": MODEL,
            "aspects": [
                {"com.linkedin.ml.metadata.MLModelProperties": {"description": "older"}},
                {"com.linkedin.common.Status": {"removed": False}},
            ],
        }
    }
}
_V3: Final = "/openapi/v3/entity"

WITH_BODY: Final = (
    *(
        Recorded("/aspects?action=ingestProposal", {"proposal": one, "async": "false"})
        for one in PROPOSALS
    ),
    Recorded("/aspects?action=ingestProposalBatch", {"proposals": _REPEATABLE, "async": "false"}),
    Recorded("/entities?action=delete", {"urn": GROUP}),
    Recorded("/entities?action=ingest", {"entity": _SNAPSHOT, "systemMetadata": _SYSTEM}),
    Recorded("/operations?action=getEsTaskStatus", {"task": "aB1cdEf2GHIJKLMnoPQr3S:123456"}),
    Recorded(
        "/operations?action=getEsTaskStatus", {"nodeId": "aB1cdEf2GHIJKLMnoPQr3S", "taskId": 12}
    ),
    Recorded(
        "/aspects?action=getTimeseriesAspectValues",
        {
            "urn": JOB,
            "entity": "dataJob",
            "aspect": "datahubIngestionCheckpoint",
            "limit": 1,
            "filter": {
                "or": [
                    {
                        "and": [
                            {"field": "pipelineName", "values": ["p"], "condition": "EQUAL"},
                        ]
                    }
                ]
            },
        },
    ),
    Recorded(
        "/entities?action=delete",
        {"urn": JOB, "aspectName": "datahubIngestionCheckpoint", "endTimeMillis": 5},
    ),
    Recorded("/entities?action=deleteReferences", {"urn": "urn:li:tag:gold", "dryRun": False}),
    Recorded(
        "/operations?action=truncateTimeseriesAspect",
        {
            "entityType": "dataJob",
            "aspect": "datahubIngestionCheckpoint",
            "endTimeMillis": 5,
            "dryRun": False,
            "forceReindex": False,
        },
    ),
    Recorded("/operations?action=restoreIndices", {"urn": MODEL}),
    Recorded("/operations?action=restoreIndices", {"urnLike": "urn:li:mlModel:%"}),
    Recorded("/test?action=evaluate", {"urn": MODEL, "shouldPush": True, "testUrns": [TEST]}),
    Recorded("/test?action=batchEvaluate", {"urns": [MODEL, GROUP], "push": True, "tests": [TEST]}),
    Recorded(
        f"{_V3}/mlModel/batchGet?systemMetadata=true",
        [{"urn": MODEL, "mlModelProperties": {}, "status": {"headers": {"If-Version-Match": "1"}}}],
    ),
    Recorded(
        f"{_V3}/mlModel?async=false",
        [
            {
                "urn": MODEL,
                "mlModelProperties": {
                    "value": {"name": "third", "customProperties": {"a": "b"}},
                    "systemMetadata": _SYSTEM,
                    "headers": {"If-Unmodified-Since": "2999-01-01T00:00:00Z"},
                },
            }
        ],
    ),
    Recorded(
        f"{_V3}/mlModel?async=false",
        [{"urn": MODEL, "globalTags": {"value": json.loads(PROPOSALS[-4]["aspect"]["value"])}}],
        method="PATCH",
    ),
)

_KEY: Final = quote(MODEL, safe="")

GETS: Final = (
    f"/aspects/{_KEY}?aspect=mlModelProperties&version=0",
    f"/entitiesV2/{_KEY}?aspects=List(mlModelProperties,status)",
    f"{_V3}/mlModel/{_KEY}?aspects=mlModelProperties,status&systemMetadata=true",
    f"{_V3}/mlModel/{_KEY}/mlModelProperties?version=1&systemMetadata=true",
)
