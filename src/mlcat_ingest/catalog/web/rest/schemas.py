"""The schemas that several endpoints share, by the name under which the document has them."""

from collections.abc import Mapping
from typing import Any, Final, get_args

from mlcat_ingest.catalog.schema.values import Change
from mlcat_ingest.catalog.search.request import Condition
from mlcat_ingest.catalog.web.rest.endpoint import (
    FLAG,
    OBJECT,
    TEXT,
    URN,
    WHOLE,
    Schema,
    array,
    record,
    ref,
)


def _nullable(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _entity(aspect: Schema) -> Schema:
    """Return the schema of an entity whose every member but `urn` is an `aspect`."""
    return {**record("urn", urn=URN), "additionalProperties": aspect}


_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
_PATCH_STEP: Final = record(
    *("op", "path"),
    op={"type": "string", "enum": ["add", "remove", "replace", "test", "copy", "move"]},
    path=TEXT,
    value={},
)
_PATCH: Final[Schema] = {
    "anyOf": [
        array(ref("PatchStep")),
        record(
            "patch",
            patch=array(ref("PatchStep")),
            arrayPrimaryKeys={"type": "object", "additionalProperties": array(TEXT)},
            forceGenericPatch=FLAG,
        ),
    ]
}
_CONTENT: Final = record(
    *("value", "contentType"),
    value=TEXT,
    contentType={"enum": ["application/json", "application/json-patch+json"]},
)
_PROPOSAL: Final = record(
    *("entityType", "entityUrn"),
    entityType=TEXT,
    entityUrn=URN,
    changeType={"type": "string", "enum": list(get_args(Change))},
    aspectName=_nullable(TEXT),
    aspect={"anyOf": [ref("AspectText"), OBJECT]},
    headers=_nullable(_TEXTS),
    systemMetadata=_nullable({"anyOf": [ref("SystemMetadata"), TEXT]}),
)
_SYSTEM_METADATA: Final = record(
    lastObserved=WHOLE, runId=TEXT, lastRunId=TEXT, version=TEXT, properties=_TEXTS
)
_CRITERION: Final = record(
    "field",
    field=TEXT,
    value=TEXT,
    values=array(TEXT),
    condition={"type": "string", "enum": [condition.value for condition in Condition]},
    negated=FLAG,
)

COMPONENTS: Final[Mapping[str, Schema]] = {
    "RestliError": record(
        *("exceptionClass", "message", "status"), exceptionClass=TEXT, message=TEXT, status=WHOLE
    ),
    "OpenApiError": record(*("error", "message"), error=TEXT, message=TEXT),
    "Proposal": _PROPOSAL,
    "AspectText": _CONTENT,
    "SystemMetadata": _SYSTEM_METADATA,
    "Snapshot": record("value", value=OBJECT),
    "PatchStep": _PATCH_STEP,
    "Patch": _PATCH,
    "AspectValue": record("value", value=OBJECT, systemMetadata=ref("SystemMetadata")),
    "AspectWrite": record(
        "value",
        value=OBJECT,
        systemMetadata=_nullable(ref("SystemMetadata")),
        headers=_nullable(_TEXTS),
    ),
    "AspectPatch": record(
        "value",
        value=ref("Patch"),
        systemMetadata=_nullable(ref("SystemMetadata")),
        headers=_nullable(_TEXTS),
    ),
    "AspectRead": record(headers=_TEXTS),
    "Entity": _entity(ref("AspectValue")),
    "EntityWrite": _entity(ref("AspectWrite")),
    "EntityPatch": _entity(ref("AspectPatch")),
    "EntityRead": _entity(ref("AspectRead")),
    "EntityPage": record(
        *("scrollId", "entities", "totalCount", "facets"),
        scrollId=_nullable(TEXT),
        entities=array(ref("Entity")),
        totalCount=WHOLE,
        facets=array(OBJECT),
    ),
    "EdgePage": record(
        *("scrollId", "results"),
        scrollId=_nullable(TEXT),
        results=array(record("relationshipType", relationshipType=TEXT)),
    ),
    "Criterion": _CRITERION,
    "Filter": record(
        **{
            "or": array(record(**{"and": array(ref("Criterion"))})),
            "and": array(record(criteria=array(ref("Criterion")))),
        }
    ),
    "Scroll": record(
        entities=array(TEXT),
        aspects=array(TEXT),
        filter=ref("Filter"),
        sortCriteria=array(
            record(
                "field",
                field=TEXT,
                order={"type": "string", "enum": ["ASCENDING", "DESCENDING"]},
            )
        ),
    ),
}


def error_schema(*, is_openapi: bool) -> Mapping[str, Any]:
    """Return the reference to the schema of errors of a family of endpoints."""
    return ref("OpenApiError" if is_openapi else "RestliError")
