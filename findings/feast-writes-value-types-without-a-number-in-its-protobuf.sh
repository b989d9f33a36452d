#!/usr/bin/env bash
# Feast 0.67.0, registry in a file.
#
# Behaviour: the types PdfBytes and ImageBytes, which feast.types exports, are written to the registry
# as the numbers 30 and 31, and the enum `ValueType.Enum` of Feast's own protobuf definitions ends
# before them. Feast's SDK reads them back by an enum of its own (`feast.value_type`), so an apply and a
# read with it show nothing.
#
# Consequence: every other reader of a registry has no name for them. Generated code raises when it asks
# for the name, and JSON of the message, which has the type of each field as text, has a number there.
#
# Output seen:
#   numbers that feast.value_type has, and the protobuf enum has not: IMAGE_BYTES=31 PDF_BYTES=30
#   JSON of the stored fields: raw 'BYTES', scan 30
#   name of 30: ValueError
#   read by Feast: raw BYTES, scan PDF_BYTES
#
# Exits with 1 if that changes. Needs Python 3.11 and a package index; installs into a temporary folder.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet 'feast==0.67.0'
cd "$work"
cat >feature_store.yaml <<'YAML'
project: rides
provider: local
registry: registry.db
online_store: {type: sqlite, path: online.db}
entity_key_serialization_version: 3
YAML
PYTHONWARNINGS=ignore "$work/venv/bin/python" - <<'PYTHON'
import pathlib
import sys

import pandas
from feast import Entity, FeatureStore, FeatureView, Field, FileSource
from feast.protos.feast.core.Registry_pb2 import Registry
from feast.protos.feast.types.Value_pb2 import ValueType as Generated
from feast.types import Bytes, PdfBytes, String
from feast.value_type import ValueType
from google.protobuf.json_format import MessageToDict

when = pandas.Timestamp("2026-01-01", tz="UTC")
pandas.DataFrame({"document": ["a"], "scan": [b"x"], "raw": [b"x"], "at": [when]}).to_parquet("d.parquet")
document = Entity(name="document", join_keys=["document"], value_type=ValueType.STRING)
view = FeatureView(
    name="documents",
    entities=[document],
    schema=[
        Field(name="document", dtype=String),
        Field(name="raw", dtype=Bytes),
        Field(name="scan", dtype=PdfBytes),
    ],
    source=FileSource(path="d.parquet", timestamp_field="at"),
)
FeatureStore(".").apply([document, view])

(stored,) = Registry.FromString(pathlib.Path("registry.db").read_bytes()).feature_views
unknown = sorted(f"{one.name}={one.value}" for one in ValueType if one.value not in Generated.Enum.values())
fields = [MessageToDict(field) for field in stored.spec.features]
as_json = ", ".join(f"{one['name']} {one['valueType']!r}" for one in sorted(fields, key=lambda one: one["name"]))
try:
    name = Generated.Enum.Name(30)
except ValueError as error:
    name = type(error).__name__
read = sorted(FeatureStore(".").get_feature_view("documents").features, key=lambda one: one.name)
seen = [
    f"numbers that feast.value_type has, and the protobuf enum has not: {' '.join(unknown)}",
    f"JSON of the stored fields: {as_json}",
    f"name of 30: {name}",
    f"read by Feast: {', '.join(f'{one.name} {one.dtype.name}' for one in read)}",
]
print(*seen, sep="\n")
sys.exit(
    seen
    != [
        "numbers that feast.value_type has, and the protobuf enum has not: IMAGE_BYTES=31 PDF_BYTES=30",
        "JSON of the stored fields: raw 'BYTES', scan 30",
        "name of 30: ValueError",
        "read by Feast: raw BYTES, scan PDF_BYTES",
    ]
)
PYTHON
