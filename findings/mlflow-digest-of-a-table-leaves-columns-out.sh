#!/usr/bin/env bash
# mlflow 3.17.2: the digest of a pandas dataset leaves whole columns out: dates, booleans, and a column of texts in
# which one value is missing. It also ends after 10,000 rows. Tables that differ there have one digest.
#
# The digest is the version of a dataset: an experiment keeps one dataset for a name and a digest, with the source,
# schema and profile that it was logged with first. A run that trained on other dates or labels is listed as trained on
# the same data, and one missing name in a table of customers makes all changes of names invisible.
#
# Cause: compute_pandas_digest() of `mlflow/data/digest_utils.py` takes columns of numbers, and those in which every
# value is a `str`, of the first 10,000 rows; of all others it takes the name alone.
# 3.18.0 does the same.
#
# Output seen:
#   other dates:                    same digest
#   other booleans:                 same digest
#   other texts, one is missing:    same digest
#   other numbers after row 10,000: same digest
#   other texts:                    another digest
#
# Exits with 1 if that changes. Needs Python 3.11 and a package index; installs into a temporary folder.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'mlflow==3.17.2'
cd "$folder"
export MLFLOW_DISABLE_TELEMETRY=true
"$folder/venv/bin/python" - 2>/dev/null <<'PY'
import sys

import mlflow
import pandas as pd

PAIRS = {
    "other dates": (pd.to_datetime(["2026-01-01", "2026-01-02"]), pd.to_datetime(["1999-12-31", "1999-12-30"])),
    "other booleans": ([True, False], [False, False]),
    "other texts, one is missing": (["ann", None, "bob"], ["eve", None, "joe"]),
    "other numbers after row 10,000": (range(20_000), [*range(10_000), *[0] * 10_000]),
    "other texts": (["ann", "bob"], ["eve", "joe"]),
}


def digest(column: object) -> str:
    return mlflow.data.from_pandas(pd.DataFrame({"column": column}), source="s3://lake/customers").digest


same = {}
for name, (one, other) in PAIRS.items():
    same[name] = digest(one) == digest(other)
    print(f"{name + ':':<31} {'same' if same[name] else 'another'} digest")
sys.exit(list(same.values()) != [True, True, True, True, False])
PY
