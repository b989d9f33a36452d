"""Proposals as good clients send them."""

import json
from typing import Any, Final

_SYSTEM: Final = {
    "lastObserved": 1_760_000_000_000,
    "runId": "no-run-id-provided",
    "lastRunId": "no-run-id-provided",
    "properties": {"clientId": "acryl-datahub", "clientVersion": "1.7.0.17"},
}


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
