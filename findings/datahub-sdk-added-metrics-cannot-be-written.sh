#!/usr/bin/env bash
# acryl-datahub 1.7.0.17: the numbers of MLModel(training_metrics={"auc": 0.5}) of datahub.sdk become text, as the aspect
# wants them. add_training_metrics() and add_hyper_params() take the same type and keep a number as it is: nothing is
# wrong until the model is written, which raises. As text they do not replace the value of that name, either: the model
# has both.
#
# Output seen:
#   given at first:  ['0.5']
#   added as number: ['0.5', 0.6], written: AvroTypeException
#   added as text:   ['0.5', '0.6'], written
#
# Exits with 1 if that changes. Needs Python 3.11 and a package index; installs into a temporary folder.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3.11 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check 'acryl-datahub==1.7.0.17'
"$folder/venv/bin/python" - <<'PY'
import sys
import warnings

warnings.filterwarnings("ignore")
from datahub.sdk import MLModel


def seen(added: object) -> tuple[list[object], str]:
    model = MLModel(id="churn", platform="mlflow", training_metrics={"auc": 0.5})
    if added is not None:
        model.add_training_metrics({"auc": added})
    values = [metric.value for metric in model.training_metrics]
    try:
        [mcp.to_obj() for mcp in model.as_mcps()]
    except Exception as error:
        return values, f"written: {type(error).__name__}"
    return values, "written"


first, number, text = seen(None), seen(0.6), seen("0.6")
print("given at first: ", first[0])
print("added as number:", ", ".join(map(str, number)))
print("added as text:  ", ", ".join(map(str, text)))
expected = (
    (["0.5"], "written"),
    (["0.5", 0.6], "written: AvroTypeException"),
    (["0.5", "0.6"], "written"),
)
sys.exit((first, number, text) != expected)
PY
