#!/usr/bin/env bash
# Feast 0.67.0, registry in a file (a folder or a bucket).
#
# Behaviour: a feature view that had a push source (or Kafka, Kinesis) and now has a batch source alone keeps its stream
# source in the registry through every apply(), unless its columns change as well. Neither is a new `org` of the view
# written; its owner, which is beside it, is. `feast apply` prints `org: ads -> search` each time, removes the push
# source itself from the registry, and leaves the view with it. A registry in a database takes both from the definition.
#
# Consequence: the registry, and lineage that is read from it, says that the view is fed by a stream that it no longer
# has, and that it belongs to the organisation before. push() to the retired source still writes to the view's online
# rows, where a registry in a database refuses it.
#
# Cause: _update_metadata_fields() of `feast/infra/registry/registry.py`, which updates a view whose columns have not
# changed, sets the sources only where the new definition has one, and leaves `org` out.
#
# Output seen:
#   definition:         stream None, owner new@x, org search
#   registry file:      stream clicks, owner new@x, org ads
#   registry database:  stream None, owner new@x, org search
#   push() to clicks with the file:      the view has 7 trips online
#   push() to clicks with the database:  PushSourceNotFoundException
#
# Exits with 1 if that changes. Needs Python 3.11 and a package index; installs into a temporary folder.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet 'feast==0.67.0'
cd "$work"
mkdir file database
registry() {
  cat >"$1/feature_store.yaml" <<YAML
project: rides
provider: local
registry: $2
online_store: {type: sqlite, path: online.db}
entity_key_serialization_version: 3
YAML
}
registry file '{path: registry.db}'
registry database "{registry_type: sql, path: \"sqlite:///$work/registry.sqlite\"}"
PYTHONWARNINGS=ignore "$work/venv/bin/python" - 2>"$work/log" <<'PYTHON' || { cat "$work/log" >&2; exit 1; }
import pathlib
import sys

import pandas
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, PushSource, ValueType
from feast.errors import PushSourceNotFoundException
from feast.types import Int64

DRIVER = Entity(name="driver", join_keys=["driver"], value_type=ValueType.INT64)
SCHEMA = [Field(name="driver", dtype=Int64), Field(name="trips", dtype=Int64)]
row = pandas.DataFrame({"driver": [1], "trips": [7], "at": [pandas.Timestamp("2026-01-01", tz="UTC")]})
row.to_parquet("rides.parquet")
batch = FileSource(name="rides", path=str(pathlib.Path("rides.parquet").resolve()), timestamp_field="at")


def view(source, owner: str, org: str) -> FeatureView:
    return FeatureView(
        name="stats", entities=[DRIVER], schema=SCHEMA, source=source, owner=owner, org=org
    )


def text(one: FeatureView) -> str:
    stream = one.stream_source.name if one.stream_source else None
    return f"stream {stream}, owner {one.owner}, org {one.org}"


registered, pushed = {}, {}
for kind in ("file", "database"):
    store = FeatureStore(kind)
    store.apply([DRIVER, view(PushSource(name="clicks", batch_source=batch), "old@x", "ads")])
    defined = view(batch, "new@x", "search")
    wanted = text(defined)
    store.apply([DRIVER, defined])
    store = FeatureStore(kind)
    registered[kind] = text(store.get_feature_view("stats"))
    try:
        store.push("clicks", row)
    except PushSourceNotFoundException as error:
        pushed[kind] = type(error).__name__
        continue
    online = store.get_online_features(features=["stats:trips"], entity_rows=[{"driver": 1}]).to_dict()
    pushed[kind] = f"the view has {online['trips'][0]} trips online"
print("definition:        ", wanted)
for kind, found in registered.items():
    print(f"{f'registry {kind}:':<19} {found}")
for kind, outcome in pushed.items():
    print(f"push() to clicks with the {f'{kind}:':<10} {outcome}")
batch_only = "stream None, owner new@x, org search"
expected = {"file": "stream clicks, owner new@x, org ads", "database": batch_only}
outcomes = {"file": "the view has 7 trips online", "database": "PushSourceNotFoundException"}
sys.exit((wanted, registered, pushed) != (batch_only, expected, outcomes))
PYTHON
