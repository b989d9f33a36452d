#!/usr/bin/env bash
# Feast 0.67.0, registry in a file (a folder or a bucket): versions of feature views, which Feast keeps without being
# asked, and calls alpha.
#
# Behaviour: apply(), and so `feast apply`, of a view that is as it was takes the number of its version away:
# `current_version_number` of version 1 becomes 0, which reads as none. The documentation says of this case "Nothing
# happens". The history keeps both versions, and nothing tells which of them is the active one. A registry in a
# database keeps the number then, but loses it as well when only the description changes.
#
# Consequence: whoever records the version of a view with a training records one only until the next deployment. With
# `enable_online_feature_view_versioning` the number picks the table of the online store: the view has the columns of
# version 1, and is served the rows of version 0 from then on, without an error.
#
# Cause: apply_feature_view() of `feast/infra/registry/registry.py` updates a view in place unless its schema differs,
# and its _update_metadata_fields() copies the number of the definition that is applied, which never has one.
#
# Output seen (the row of version 0 has 1 trip, that of version 1 has 2):
#   first apply:    number None, columns trips, online trips 1
#   column added:   number 1, columns fare trips, online trips 2
#   applied again:  number None, columns fare trips, online trips 1
#   history:        v0 v1
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
registry: {path: registry.db, enable_online_feature_view_versioning: true}
online_store: {type: sqlite, path: online.db}
entity_key_serialization_version: 3
YAML
PYTHONWARNINGS=ignore "$work/venv/bin/python" - 2>"$work/log" <<'PYTHON' || { cat "$work/log" >&2; exit 1; }
import contextlib
import datetime
import io
import sys

import pandas
from feast import Entity, FeatureStore, FeatureView, Field, FileSource, ValueType
from feast.types import Float64, Int64

DRIVER = Entity(name="driver", join_keys=["driver"], value_type=ValueType.INT64)
DAY = datetime.timedelta(days=1)
when = pandas.Timestamp("2026-01-01", tz="UTC")
store = FeatureStore(".")


def apply(*columns: Field) -> None:
    view = FeatureView(
        name="stats",
        entities=[DRIVER],
        schema=[Field(name="driver", dtype=Int64), *columns],
        source=FileSource(name="rides", path="rides.parquet", timestamp_field="at"),
    )
    store.apply([DRIVER, view])


def materialize(trips: int) -> None:
    frame = pandas.DataFrame({"driver": [1], "trips": [trips], "fare": [0.5], "at": [when]})
    frame.to_parquet("rides.parquet")
    with contextlib.redirect_stdout(io.StringIO()):
        store.materialize(when - DAY, when + DAY)


def state(after: str) -> tuple[int | None, str, int]:
    view = store.get_feature_view("stats")
    columns = " ".join(sorted(field.name for field in view.features))
    online = store.get_online_features(features=["stats:trips"], entity_rows=[{"driver": 1}]).to_dict()
    found = view.current_version_number, columns, online["trips"][0]
    print(f"{after + ':':<15} number {found[0]}, columns {found[1]}, online trips {found[2]}")
    return found


trips, fare = Field(name="trips", dtype=Int64), Field(name="fare", dtype=Float64)
pandas.DataFrame({"driver": [1], "trips": [1], "fare": [0.5], "at": [when]}).to_parquet("rides.parquet")
apply(trips)
materialize(1)
first = state("first apply")
apply(trips, fare)
materialize(2)
changed = state("column added")
apply(trips, fare)
again = state("applied again")
history = " ".join(one["version"] for one in store.list_feature_view_versions("stats"))
print("history:       ", history)
expected = (None, "trips", 1), (1, "fare trips", 2), (None, "fare trips", 1), "v0 v1"
sys.exit((first, changed, again, history) != expected)
PYTHON
