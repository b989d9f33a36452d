#!/usr/bin/env bash
# mlflow 3.17.2, SQL and file store: search_runs("dataset.name = … AND dataset.context = …") is met by two datasets.
#
# A run that trained on `customers` and evaluated on `holdout` is found as one that evaluated on `customers`. Of a name and
# a digest it is the same: the digest may be that of the other dataset. So the filter cannot tell which runs leak their
# training data into the evaluation: each run with both kinds of datasets looks as if it did. In the answer, each dataset
# has its own context, and the three have to be compared there.
#
# Cause: each comparison is a subquery (file store: a loop) of its own, over all datasets of the run.
#
# Output seen, of the one run:
#   sqlite: its inputs: customers for training, holdout for evaluation
#   sqlite: name = customers, context = training: found
#   sqlite: name = customers, context = evaluation: found
#   sqlite: name = customers, digest of holdout: found
#   and the same of a file store
#
# Exits with 1 if that changes. Needs Python 3.11 and a package index; installs into a temporary folder.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'mlflow==3.17.2'
cd "$folder"
export MLFLOW_DISABLE_TELEMETRY=true MLFLOW_ALLOW_FILE_STORE=true
"$folder/venv/bin/python" - 2>/dev/null <<'PY'
import sys

import mlflow
import pandas as pd

failed = False
for kind, uri in {"sqlite": "sqlite:///mlflow.db", "files": "file:./mlruns"}.items():
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("churn")
    rows = {"customers": [1.0, 2.0], "holdout": [3.0]}
    data = {name: mlflow.data.from_pandas(pd.DataFrame({"a": a}), name=name) for name, a in rows.items()}
    with mlflow.start_run() as run:
        mlflow.log_input(data["customers"], context="training")
        mlflow.log_input(data["holdout"], context="evaluation")
    inputs = mlflow.get_run(run.info.run_id).inputs.dataset_inputs
    of_each = {one.dataset.name: one.tags[0].value for one in inputs}
    print(f"{kind}: its inputs:", ", ".join(f"{name} for {of_each[name]}" for name in sorted(of_each)))
    for what, wanted in {
        "context = training": "dataset.context = 'training'",
        "context = evaluation": "dataset.context = 'evaluation'",
        "digest of holdout": f"dataset.digest = '{data['holdout'].digest}'",
    }.items():
        found = mlflow.search_runs(
            filter_string=f"dataset.name = 'customers' AND {wanted}", output_format="list"
        )
        print(f"{kind}: name = customers, {what}: {'found' if found else 'not found'}")
        failed |= len(found) != 1
    failed |= of_each != {"customers": "training", "holdout": "evaluation"}
sys.exit(failed)
PY
