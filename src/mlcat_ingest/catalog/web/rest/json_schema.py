"""The vocabulary of the schemas that endpoints declare, and the schemas that several refer to."""

from collections.abc import Mapping
from typing import Any, Final

from mlcat_ingest.catalog.web.http import Schema
from mlcat_ingest.metadata.declaration import Items, RecordType, Type

TEXT: Final[Schema] = {"type": "string"}
FLAG: Final[Schema] = {"type": "boolean"}
INTEGER: Final[Schema] = {"type": "integer"}
WHOLE: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}

OBJECT: Final[Schema] = {"type": "object"}
URN: Final[Schema] = {"type": "string", "pattern": "^urn:li:[A-Za-z][A-Za-z0-9]*:"}


def ref(name: str) -> Schema:
    """Return the reference to a schema of `schemas.COMPONENTS`."""
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema) -> Schema:
    """Return the schema of a list of `items`."""
    return {"type": "array", "items": items}


def record(*required: str, **properties: Schema) -> Schema:
    """Return the schema of an object with `properties`; others may be there too."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    return schema | ({"required": list(required)} if required else {})


def schema_of(type_: Type) -> Schema:
    """Return the schema of a declared record, or of the type of one of its fields."""
    match type_:
        case RecordType():
            members = {name: schema_of(field.type) for name, field in type_.fields.items()}
            required = sorted(name for name, field in type_.fields.items() if field.required)
            return record(*required, **members)
        case tuple():
            return {**TEXT, "enum": list(type_)}
        case Items("list"):
            return array(schema_of(type_.of))
        case Items():
            return {**OBJECT, "additionalProperties": schema_of(type_.of)}
        case _:
            return TEXT if type_ in {"string", "bytes"} else {}


_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": TEXT}


def entity_schema(aspect: Schema) -> Schema:
    """Return the schema of an entity whose every member but `urn` is an `aspect`."""
    return {**record("urn", urn=URN), "additionalProperties": aspect}


def aspect_write(value: Schema) -> Schema:
    """Return the schema of what is written to an aspect, with the one of its `value`."""
    metadata = {**OBJECT, **ref("SystemMetadata")}
    return record("value", value=value, systemMetadata=metadata, headers=_TEXTS)


COMPONENTS: Final[Mapping[str, Schema]] = {
    "RestliError": record(
        *("exceptionClass", "message", "status"), exceptionClass=TEXT, message=TEXT, status=WHOLE
    ),
    "OpenApiError": record(*("error", "message"), error=TEXT, message=TEXT),
    "SystemMetadata": record(
        lastObserved=WHOLE, runId=TEXT, lastRunId=TEXT, version=TEXT, properties=_TEXTS
    ),
    "PatchStep": record(
        *("op", "path"),
        op={"type": "string", "enum": ["add", "remove", "replace", "test", "copy", "move"]},
        path=TEXT,
        value={},
    ),
    "Patch": {
        "anyOf": [
            array(ref("PatchStep")),
            record(
                "patch",
                patch=array(ref("PatchStep")),
                arrayPrimaryKeys={"type": "object", "additionalProperties": array(TEXT)},
                forceGenericPatch=FLAG,
            ),
        ]
    },
    "AspectValue": record(value=OBJECT, systemMetadata=ref("SystemMetadata")),
    "AspectRead": record(headers=_TEXTS),
    "Entity": entity_schema(ref("AspectValue")),
    "EntityRead": entity_schema(ref("AspectRead")),
}
