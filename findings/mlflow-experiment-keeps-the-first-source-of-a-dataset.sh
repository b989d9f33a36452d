#!/usr/bin/env bash
# mlflow 3.17.2 and 3.18.0, SQL store: an experiment keeps the source with which it saw a dataset first, and a run its context.
#
# A dataset is its name and digest, and the digest is that of the rows, not of the source. A second log_input() of the
# same rows in another run of the experiment, read from another place, links that run to the first place: who adds the
# missing `source` to a training, or trains on a copy elsewhere, changes nothing. In one run a second context of the
# same rows is dropped: data that is trained on and validated on is training data only. Neither warns, and lineage
# that is read from MLflow names data that the run never read.
#
# Cause: `SqlAlchemyStore.log_inputs` makes no dataset, and no input, of which it has one by name and digest.
#
# Output seen:
#   first run:   s3://lake/old.parquet training
#   second run:  s3://lake/old.parquet training, instead of s3://lake/new.parquet training and validation
#   elsewhere:   s3://lake/new.parquet training
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
import json
import sys

import mlflow
import pandas as pd

OLD, NEW = "s3://lake/old.parquet", "s3://lake/new.parquet"
ROWS = pd.DataFrame({"a": [1, 2], "b": [3, 4]})


def logged(experiment: str, source: str, *contexts: str) -> str:
    mlflow.set_experiment(experiment)
    with mlflow.start_run() as run:
        for context in contexts:
            mlflow.log_input(mlflow.data.from_pandas(ROWS, source), context=context)
    inputs = mlflow.get_run(run.info.run_id).inputs.dataset_inputs
    return ", ".join(
        f"{json.loads(one.dataset.source)['uri']} {' '.join(tag.value for tag in one.tags)}"
        for one in inputs
    )


mlflow.set_tracking_uri("sqlite:///mlflow.db")
first = logged("churn", OLD, "training")
second = logged("churn", NEW, "training", "validation")
elsewhere = logged("fraud", NEW, "training")
print("first run:  ", first)
print("second run: ", second + f", instead of {NEW} training and validation")
print("elsewhere:  ", elsewhere)
sys.exit((first, second, elsewhere) != (f"{OLD} training", f"{OLD} training", f"{NEW} training"))
PY
