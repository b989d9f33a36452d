#!/usr/bin/env bash
# mlflow 3.17.2: a model that is logged after its training has the metrics of the first epoch.
#
# Cause: `log_model` copies to the new model the metrics that its run has at the step of the model, and that step is 0
# unless it is given. A metric that begins at step 1 is not copied at all. Nothing warns. The page of the logged model,
# and whatever reads `LoggedModel.metrics` (a registry's page of its version, `search_logged_models` that orders by a
# metric), compare models by their first epoch; the run itself has the last values.
#
# Output seen:
#   run:              acc 0.875, val_acc 0.75
#   model:            acc 0.5
#   model at step 3:  acc 0.875, val_acc 0.75
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


def text(metrics: dict[str, float]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(metrics.items()))


def logged(**step: int) -> str:
    made = mlflow.pyfunc.log_model(name="net", python_model=lambda rows: rows, pip_requirements=[], **step)
    model = mlflow.get_logged_model(made.model_id)
    return text({metric.key: metric.value for metric in model.metrics})


mlflow.set_tracking_uri("sqlite:///mlflow.db")
with mlflow.start_run() as run:
    for epoch in range(4):
        mlflow.log_metric("acc", 0.5 + epoch / 8, step=epoch)
        if epoch:
            mlflow.log_metric("val_acc", 0.375 + epoch / 8, step=epoch)
    of_model, at_the_end = logged(), logged(step=3)
of_run = text(mlflow.get_run(run.info.run_id).data.metrics)
print("run:             ", of_run)
print("model:           ", of_model)
print("model at step 3: ", at_the_end)
last = "acc 0.875, val_acc 0.75"
sys.exit((of_run, of_model, at_the_end) != (last, "acc 0.5", last))
PY
