#!/usr/bin/env bash
# mlflow 3.17.2, SQL store, also through a tracking server: search_runs() lists a run without the models that it read.
#
# A run that evaluates a model has it in `inputs.model_inputs`, by log_metric(…, model_id=…), mlflow.models.evaluate()
# or log_inputs(). get_run() gives it. search_runs() gives the datasets of the inputs and the models of the outputs, but
# an empty list of input models, as if there were none. A tool that lists runs loses all edges from a model to its
# evaluations, and cannot see which runs it should ask for again.
#
# Cause: `SqlAlchemyStore._search_runs` makes `RunInputs(dataset_inputs=…)` alone.
# 3.18.0 has the same code.
#
# Output seen:
#   get_run:                 input datasets 1, input models 1, output models 1
#   search_runs:             input datasets 1, input models 0, output models 1
#   runs/get of a server:    input datasets 1, input models 1, output models 1
#   runs/search of a server: input datasets 1, input models 0, output models 1
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
import os
import sys

URI = "sqlite:///mlflow.db"
os.environ["_MLFLOW_SERVER_FILE_STORE"] = URI
os.environ["_MLFLOW_SERVER_ARTIFACT_ROOT"] = "artifacts"

import mlflow
import pandas as pd
from mlflow.entities import LoggedModelOutput
from mlflow.server import app

mlflow.set_tracking_uri(URI)
mlflow.set_experiment("churn")
with mlflow.start_run():
    trained = mlflow.initialize_logged_model(name="trained")
with mlflow.start_run() as run:
    made = mlflow.initialize_logged_model(name="distilled")
    mlflow.MlflowClient().log_outputs(run.info.run_id, [LoggedModelOutput(made.model_id, step=0)])
    mlflow.log_input(mlflow.data.from_pandas(pd.DataFrame({"a": [1.5]})), context="testing")
    mlflow.log_metric("auc", 0.8, model_id=trained.model_id)
run_id, experiment_id = run.info.run_id, run.info.experiment_id


def text(datasets, inputs, outputs) -> str:
    counts = {"input datasets": datasets, "input models": inputs, "output models": outputs}
    return ", ".join(f"{what} {len(found or [])}" for what, found in counts.items())


def of_run(found) -> str:
    return text(found.inputs.dataset_inputs, found.inputs.model_inputs, found.outputs.model_outputs)


def of_json(found) -> str:
    inputs, outputs = found["inputs"], found["outputs"]
    return text(inputs.get("dataset_inputs"), inputs.get("model_inputs"), outputs.get("model_outputs"))


(listed,) = [one for one in mlflow.search_runs(output_format="list") if one.info.run_id == run_id]
server = app.test_client()
got = server.get("/api/2.0/mlflow/runs/get", query_string={"run_id": run_id}).get_json()["run"]
page = server.post("/api/2.0/mlflow/runs/search", json={"experiment_ids": [experiment_id]}).get_json()
(found,) = [one for one in page["runs"] if one["info"]["run_id"] == run_id]
seen = {
    "get_run": of_run(mlflow.get_run(run_id)),
    "search_runs": of_run(listed),
    "runs/get of a server": of_json(got),
    "runs/search of a server": of_json(found),
}
for what, counts in seen.items():
    print(f"{what + ':':<24} {counts}")
whole = "input datasets 1, input models 1, output models 1"
partial = "input datasets 1, input models 0, output models 1"
sys.exit(list(seen.values()) != [whole, partial, whole, partial])
PY
