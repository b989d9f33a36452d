#!/usr/bin/env bash
# mlflow 3.17.2, SQL store: search_logged_models() filters by every value that a metric ever had, and sorts by its last.
#
# The filter `metrics.err < 0.2` finds a model whose error began at 0.1 and ended at 0.9, and
# `metrics.err < 0.2 and metrics.err > 0.8` finds it too. order_by on the same metric puts it behind a model of 0.5, since
# there the value of the last step counts. search_runs() has one rule for both: the last value. A gate that asks for
# "all models with an error below 0.2" lets a model through that has long been worse.
#
# Cause: `SqlAlchemyStore._apply_filter_string_datasets_search_logged_models` looks in all rows of `logged_model_metrics`,
# for each comparison by itself.
#
# Output seen:
#   models, all by metrics.err:                       steady (last 0.5), worse (last 0.9)
#   models, metrics.err < 0.2:                        worse (last 0.9)
#   models, metrics.err < 0.2 and metrics.err > 0.8:  worse (last 0.9)
#   runs, metrics.err < 0.2:                          none
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

mlflow.set_tracking_uri("sqlite:///mlflow.db")
client = mlflow.MlflowClient()
experiment_id = client.create_experiment("churn")
for name, errors in {"worse": [0.1, 0.9], "steady": [0.5]}.items():
    model = mlflow.create_external_model(name=name, experiment_id=experiment_id)
    run_id = client.create_run(experiment_id).info.run_id
    for step, error in enumerate(errors):
        client.log_metric(run_id, "err", error, step=step, model_id=model.model_id)


def models(wanted: str | None) -> str:
    found = mlflow.search_logged_models(
        experiment_ids=[experiment_id],
        filter_string=wanted,
        order_by=[{"field_name": "metrics.err", "ascending": True}],
        output_format="list",
    )
    last = {one.name: max(one.metrics, key=lambda metric: metric.step).value for one in found}
    return ", ".join(f"{name} (last {value})" for name, value in last.items()) or "none"


runs = client.search_runs([experiment_id], "metrics.err < 0.2")
seen = {
    "models, all by metrics.err": models(None),
    "models, metrics.err < 0.2": models("metrics.err < 0.2"),
    "models, metrics.err < 0.2 and metrics.err > 0.8": models("metrics.err < 0.2 and metrics.err > 0.8"),
    "runs, metrics.err < 0.2": ", ".join(str(run.data.metrics) for run in runs) or "none",
}
for what, text in seen.items():
    print(f"{what + ':':<49} {text}")
worse = "worse (last 0.9)"
sys.exit([*seen.values()] != [f"steady (last 0.5), {worse}", worse, worse, "none"])
PY
