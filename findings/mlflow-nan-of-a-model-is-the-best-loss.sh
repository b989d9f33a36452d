#!/usr/bin/env bash
# mlflow 3.17.2, SQL store: a metric of a logged model that is NaN is stored as 0. The run that logged it has NaN.
#
# A model whose training diverged has the loss 0.0, so that it is the best of all: first in search_logged_models() by
# that loss, within any limit that a filter sets, and a plain 0 to whatever reads `LoggedModel.metrics`. Nothing tells
# it from a measured 0, and nothing warns. The run's own value is NaN everywhere, and is sorted last and left out by
# such filters.
#
# Cause: the table `metrics` has a column `is_nan` beside the 0 that stands for NaN, the table `logged_model_metrics` has
# none, and _log_model_metrics() of `mlflow/store/tracking/sqlalchemy_store.py` drops the mark.
# 3.18.0 has the same code.
#
# Output seen:
#   loss of the runs:             good 0.1, diverged nan
#   loss of the models:           good 0.1, diverged 0.0
#   runs by loss:                 good, diverged
#   models by loss:               diverged, good
#   runs with a loss below 0.5:   good
#   models with a loss below 0.5: diverged, good
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

BELOW = "metrics.loss < 0.5"
NAMES = "good", "diverged"


def runs(**search) -> str:
    return ", ".join(one.info.run_name for one in mlflow.search_runs(output_format="list", **search))


def models(**search) -> str:
    return ", ".join(one.name for one in mlflow.search_logged_models(output_format="list", **search))


mlflow.set_tracking_uri("sqlite:///mlflow.db")
mlflow.set_experiment("churn")
of_runs, of_models = {}, {}
for name, loss in zip(NAMES, (0.1, float("nan"))):
    with mlflow.start_run(run_name=name) as run:
        model = mlflow.initialize_logged_model(name=name)
        mlflow.log_metric("loss", loss, model_id=model.model_id)
    of_runs[name] = mlflow.get_run(run.info.run_id).data.metrics["loss"]
    (metric,) = mlflow.get_logged_model(model.model_id).metrics
    of_models[name] = metric.value
seen = {
    "loss of the runs": ", ".join(f"{name} {loss}" for name, loss in of_runs.items()),
    "loss of the models": ", ".join(f"{name} {loss}" for name, loss in of_models.items()),
    "runs by loss": runs(order_by=["metrics.loss ASC"]),
    "models by loss": models(order_by=[{"field_name": "metrics.loss", "ascending": True}]),
    "runs with a loss below 0.5": runs(filter_string=BELOW),
    "models with a loss below 0.5": models(filter_string=BELOW),
}
for what, found in seen.items():
    print(f"{what + ':':<29} {found}")
expected = [
    "good 0.1, diverged nan",
    "good 0.1, diverged 0.0",
    "good, diverged",
    "diverged, good",
    "good",
    "diverged, good",
]
sys.exit(list(seen.values()) != expected)
PY
