#!/usr/bin/env bash
# acryl-datahub 1.7.0.17: SchemaMetadataClass.from_obj() reads the JSON of an aspect as a DataHub server sends it, and
# as the SDK itself puts it into a proposal, without an error, but every column becomes a boolean and the schema of the
# platform one of no kind. validate() of the result is true, so a tool that reads a schema and writes it back changes
# the types of all columns.
#
# Cause: the members of a union are named `com.linkedin.schema.StringType` on the wire, and
# `com.linkedin.pegasus2avro.schema.StringType` in the SDK; an unknown name is taken for the first member. The SDK's own
# readers call post_json_transform() before.
#
# Output seen:
#   as sent:      StringTypeClass NumberTypeClass OtherSchemaClass
#   from_obj:     BooleanTypeClass BooleanTypeClass SchemalessClass, validate: True
#   transformed:  StringTypeClass NumberTypeClass OtherSchemaClass
#
# Exits with 1 if that changes. Needs Python 3.11 and a package index; installs into a temporary folder.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'acryl-datahub==1.7.0.17'
"$folder/venv/bin/python" - <<'PY'
import json
import sys

from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.emitter.serialization_helper import post_json_transform
from datahub.metadata.schema_classes import (
    NumberTypeClass,
    OtherSchemaClass,
    SchemaFieldClass,
    SchemaFieldDataTypeClass,
    SchemaMetadataClass,
    StringTypeClass,
)


def kinds(schema: SchemaMetadataClass) -> str:
    values = [*(field.type.type for field in schema.fields), schema.platformSchema]
    return " ".join(type(value).__name__ for value in values)


columns = {"name": StringTypeClass(), "age": NumberTypeClass()}
schema = SchemaMetadataClass(
    schemaName="people",
    platform="urn:li:dataPlatform:s3",
    version=0,
    hash="",
    platformSchema=OtherSchemaClass(rawSchema=""),
    fields=[
        SchemaFieldClass(fieldPath=name, type=SchemaFieldDataTypeClass(type=kind), nativeDataType="")
        for name, kind in columns.items()
    ],
)
urn = "urn:li:dataset:(urn:li:dataPlatform:s3,people,PROD)"
wire = json.loads(MetadataChangeProposalWrapper(entityUrn=urn, aspect=schema).make_mcp().aspect.value)
read = SchemaMetadataClass.from_obj(wire)
transformed = SchemaMetadataClass.from_obj(post_json_transform(wire))
print("as sent:     ", kinds(schema))
print("from_obj:    ", kinds(read) + ", validate:", read.validate())
print("transformed: ", kinds(transformed))
wrong = "BooleanTypeClass BooleanTypeClass SchemalessClass"
seen = (kinds(read), read.validate(), kinds(transformed) == kinds(schema))
sys.exit(seen != (wrong, True, True))
PY
