#!/usr/bin/env bash
# mlflow 3.17.2, SQL store: log_metric() and log_metrics() give a metric to different models of one run.
#
# Both say that without a `model_id` a metric goes to the models of the run. log_metrics() does so; log_metric() returns
# from the loop over them after the first. The store lists them in no order that it promises, most often that of their
# random ids: which model has the metric differs from training to training, and nothing warns. 3.18.0 takes one, too.
#
# Cause: in `mlflow/tracking/fluent.py` the loop over the models of log_metric() returns in its first round.
#
# Output seen:
#   log_metric:   1 of 4 models has it
#   log_metrics:  4 of 4 models have it
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


def having(name: str) -> list[str]:
    models = [mlflow.get_logged_model(one) for one in ids]
    return [one.model_id for one in models if name in [metric.key for metric in one.metrics or ()]]


mlflow.set_tracking_uri("sqlite:///mlflow.db")
with mlflow.start_run():
    made = [
        mlflow.pyfunc.log_model(name=f"net {at}", python_model=lambda rows: rows, pip_requirements=[])
        for at in range(4)
    ]
    ids = [one.model_id for one in made]
    mlflow.log_metric("one", 0.5)
    mlflow.log_metrics({"several": 0.5})
one, several = having("one"), having("several")
print(f"log_metric:   {len(one)} of {len(ids)} models has it")
print(f"log_metrics:  {len(several)} of {len(ids)} models have it")
sys.exit((len(one), several) != (1, ids))
PY
