"""Trains, registers and evaluates a model with real MLflow; run as a script: database, folder.

It prints the ids of the runs as JSON.
"""

import json
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import run

from mlcat_ingest.testing.mlflow_store import new_database

COLUMNS = (
    "petal length (cm)",
    "petal width (cm)",
    "sepal length (cm)",
    "sepal width (cm)",
)


def evaluated_store(database: Path, folder: Path) -> Mapping[str, str]:
    """Return the ids of the runs by name, made in a store whose artifacts are in `folder`."""
    new_database(database)
    script = [sys.executable, __file__, f"sqlite:///{database}", str(folder)]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false"}
    done = run(script, capture_output=True, text=True, check=False, env={**os.environ, **quiet})
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def _make(uri: str, folder: str) -> dict[str, str]:
    import mlflow
    import mlflow.sklearn
    from mlflow.genai.scorers import scorer
    from sklearn.datasets import load_iris
    from sklearn.linear_model import LogisticRegression

    logging.disable(logging.WARNING)
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment(experiment_id=mlflow.create_experiment("flowers", folder))
    inputs, kinds = load_iris(return_X_y=True, as_frame=True)
    target = (kinds == 1).astype(int)
    model = LogisticRegression(max_iter=500).fit(inputs, target)
    signature = mlflow.models.infer_signature(inputs, model.predict(inputs), {"threshold": 0.5})
    with mlflow.start_run(run_name="train") as train:
        made = mlflow.sklearn.log_model(
            model,
            name="iris",
            signature=signature,
            pip_requirements=["scikit-learn"],
            registered_model_name="iris",
        )
    with mlflow.start_run(run_name="alone") as alone:
        mlflow.sklearn.log_model(
            model, name="other", signature=signature, pip_requirements=["scikit-learn"]
        )
    with mlflow.start_run(run_name="classic") as classic:
        mlflow.models.evaluate(  # type: ignore[no-untyped-call]
            made.model_uri,
            inputs.assign(target=target),
            targets="target",
            model_type="classifier",
            evaluator_config={"log_model_explainability": False},
        )

    @scorer
    def length(outputs: str) -> int:
        return len(outputs)

    asked = [{"inputs": {"question": f"q{i}"}} for i in range(2)]
    result = mlflow.genai.evaluate(asked, scorers=[length], predict_fn=lambda question: question)
    runs = {"train": train, "alone": alone, "classic": classic}
    return {name: one.info.run_id for name, one in runs.items()} | {"genai": result.run_id}


if __name__ == "__main__":
    print(json.dumps(_make(*sys.argv[1:])))
