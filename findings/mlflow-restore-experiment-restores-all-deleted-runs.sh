#!/usr/bin/env bash
# mlflow 3.17.2, SQL store: restore_experiment() brings back every run of the experiment, those too that somebody had
# deleted one by one long before the experiment was deleted.
#
# A run that was deleted for a reason is active again, and listed with the others, after a colleague has deleted the
# experiment by mistake and restored it. Nothing tells afterwards which runs were deleted before: their deletion time is
# cleared, too. To a reader that removes what MLflow has deleted, they are new.
#
# Cause: restore_experiment() of `mlflow/store/tracking/sqlalchemy_store.py` marks all runs of the experiment as active;
# delete_experiment() has not kept which of them it deleted.
# 3.18.0 does the same.
#
# Output seen:
#   one run deleted:          deleted, active
#   experiment deleted:       deleted, deleted
#   experiment restored:      active, active
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

from mlflow import MlflowClient

client = MlflowClient("sqlite:///mlflow.db")
experiment = client.create_experiment("churn")
runs = [client.create_run(experiment).info.run_id for _ in range(2)]


def stages(after: str) -> list[str]:
    found = [client.get_run(run_id).info.lifecycle_stage for run_id in runs]
    print(f"{after + ':':<25} {', '.join(found)}")
    return found


client.delete_run(runs[0])
before = stages("one run deleted")
client.delete_experiment(experiment)
between = stages("experiment deleted")
client.restore_experiment(experiment)
after = stages("experiment restored")
expected = ["deleted", "active"], ["deleted", "deleted"], ["active", "active"]
sys.exit((before, between, after) != expected)
PY
