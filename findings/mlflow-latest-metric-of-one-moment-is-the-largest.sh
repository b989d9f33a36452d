#!/usr/bin/env bash
# mlflow 3.17.2, SQL store: of several values of one metric with the same step and time stamp, the run keeps the largest
# as its latest value, in whichever order they were logged, and the history lists them from the smallest up.
#
# A step is 0 where none is given, and a client that logs a history in one batch gives all of it one time. A loss that
# fell to 0.1 is then 0.9 on the run: in `run.data.metrics`, in the table of runs and wherever runs are sorted or
# searched by it. Nothing warns. A score that rises looks right, so that only losses are wrong.
#
# Cause: `mlflow/store/tracking/sqlalchemy_store.py` takes the metric with the largest (step, time stamp, value).
# 3.18.0 does the same.
#
# Output seen:
#   logged:   0.9, 0.5, 0.1
#   latest:   0.9
#   history:  0.1, 0.5, 0.9
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
import time

from mlflow import MlflowClient
from mlflow.entities import Metric

client = MlflowClient("sqlite:///mlflow.db")
run_id = client.create_run(client.create_experiment("churn")).info.run_id
now_ms = int(time.time() * 1000)
losses = [0.9, 0.5, 0.1]
client.log_batch(run_id, metrics=[Metric("loss", loss, now_ms, 0) for loss in losses])
latest = client.get_run(run_id).data.metrics["loss"]
history = [metric.value for metric in client.get_metric_history(run_id, "loss")]
print("logged:  ", ", ".join(map(str, losses)))
print("latest:  ", latest)
print("history: ", ", ".join(map(str, history)))
sys.exit((latest, history) != (0.9, [0.1, 0.5, 0.9]))
PY
