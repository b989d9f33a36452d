"""Fills a store by MLflow's own autologging and client: `training_script.py URI`.

It runs in an environment of its own, and its files are put into the working directory.
"""

import sys
from pathlib import Path

import lightgbm
import mlflow
import numpy as np
import optuna
import pandas as pd
import polars as pl
import xgboost
from mlflow.data.code_dataset_source import CodeDatasetSource
from mlflow.data.delta_dataset_source import DeltaDatasetSource
from mlflow.data.http_dataset_source import HTTPDatasetSource
from mlflow.data.huggingface_dataset_source import HuggingFaceDatasetSource
from mlflow.data.meta_dataset import MetaDataset
from mlflow.data.spark_dataset_source import SparkDatasetSource
from mlflow.data.uc_volume_dataset_source import UCVolumeDatasetSource
from mlflow.entities import Feedback
from mlflow.genai.scorers import scorer
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV

X, Y = make_classification(n_samples=60, n_features=4, random_state=0)


def experiment(name: str) -> str:
    """Make an experiment and choose it for the runs that follow; return its id."""
    made: str = mlflow.MlflowClient().create_experiment(name)
    mlflow.set_experiment(experiment_id=made)
    return made


def autologging() -> None:
    experiment("autolog")
    mlflow.sklearn.autolog(log_input_examples=False)
    with mlflow.start_run(run_name="sklearn"):
        LogisticRegression().fit(X, Y).score(X, Y)
    with mlflow.start_run(run_name="grid"):
        GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0, 10.0]}, cv=2).fit(X, Y)
    mlflow.sklearn.autolog(disable=True)
    mlflow.xgboost.autolog()
    with mlflow.start_run(run_name="xgboost"):
        data = xgboost.DMatrix(X, Y)
        xgboost.train({"max_depth": 2}, data, 3, evals=[(data, "train")], verbose_eval=False)
    mlflow.xgboost.autolog(disable=True)
    mlflow.lightgbm.autolog()
    with mlflow.start_run(run_name="lightgbm"):
        data = lightgbm.Dataset(X, Y)
        lightgbm.train({"verbosity": -1, "num_leaves": 3}, data, 3, valid_sets=[data])
    mlflow.lightgbm.autolog(disable=True)


def optuna_runs() -> None:
    experiment("tuning")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: optuna.Trial) -> float:
        with mlflow.start_run(run_name=f"trial {trial.number}", nested=True):
            c = trial.suggest_float("C", 0.01, 10, log=True)
            mlflow.log_param("C", c)
            scores = []
            for fold in range(2):
                with mlflow.start_run(run_name=f"fold {fold}", nested=True):
                    part = slice(fold, None, 2)
                    score = LogisticRegression(C=c).fit(X[part], Y[part]).score(X, Y)
                    mlflow.log_metric("accuracy", score)
                    scores.append(score)
            mlflow.log_metric("accuracy", np.mean(scores))
            return float(np.mean(scores))

    with mlflow.start_run(run_name="study"):
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(0))
        study.optimize(objective, n_trials=3)
        mlflow.log_params({f"best.{k}": v for k, v in study.best_params.items()})
        mlflow.log_metric("best accuracy", study.best_value)


def checkpoints() -> tuple[str, str]:
    experiment("checkpoints")
    data = mlflow.data.from_numpy(X, targets=Y, name="held out")
    with mlflow.start_run(run_name="deep") as run:
        mlflow.log_input(data, context="validation")
        for at in range(3):
            model = LogisticRegression(max_iter=at + 1).fit(X, Y)
            made = mlflow.sklearn.log_model(
                model,
                name=f"checkpoint-{at}",
                step=at,
                params={"max_iter": at + 1},
                tags={"kind": "checkpoint"},
                pip_requirements=[],
            )
            score = {"accuracy": model.score(X, Y), "loss": 1 / (at + 1)}
            mlflow.log_metrics(score, step=at, model_id=made.model_id, dataset=data)
            mlflow.log_metric("epoch time", 0.5 * at, step=at)
    return run.info.run_id, made.model_id


def registry(run_id: str, model_id: str) -> None:
    client = mlflow.MlflowClient()
    client.create_registered_model("deep", tags={"team": "vision"}, description="the *deep* one")
    for number in range(2):
        client.create_model_version(
            "deep", f"models:/{model_id}", run_id, tags={"n": str(number)}, model_id=model_id
        )
    client.create_model_version("deep", "s3://bucket/elsewhere", description="from elsewhere")
    client.set_registered_model_alias("deep", "champion", "1")
    client.set_registered_model_alias("deep", "challenger", "2")
    client.transition_model_version_stage("deep", "1", "Production")
    client.transition_model_version_stage("deep", "3", "Archived")
    client.copy_model_version("models:/deep/2", "deep-in-production")


def agents() -> None:
    experiment("agents")
    agent = mlflow.create_external_model(
        name="agent", params={"temperature": "0.2"}, tags={"owner": "ada"}, model_type="agent"
    )
    mlflow.log_metrics({"cost": 0.25}, model_id=agent.model_id)
    mlflow.create_external_model(name="router", model_type="router")

    @scorer
    def is_short(outputs: str) -> Feedback:
        return Feedback(value=len(outputs) < 10)

    questions = [{"inputs": {"question": f"{n} + {n}?"}, "outputs": str(2 * n)} for n in range(3)]
    mlflow.genai.evaluate(data=questions, scorers=[is_short])
    mlflow.end_run()
    mlflow.genai.datasets.create_dataset("sums")
    mlflow.genai.register_prompt("sum", "Add {{a}} and {{b}}")


def datasets() -> None:
    experiment("datasets")
    frame = pd.DataFrame(X, columns=list("abcd"))
    file = str(Path("frame.csv").resolve())
    frame.to_csv(file)
    code = CodeDatasetSource({"mlflow.source.name": "make.py"})
    used = {
        "training": mlflow.data.from_pandas(frame, file, name="frame"),
        "validation": mlflow.data.from_numpy(X, name="array"),
        "test": mlflow.data.from_polars(pl.DataFrame({"a": [1, 2]}), name="polars"),
        "http": MetaDataset(HTTPDatasetSource("https://data.example.com/d.csv"), name="web"),
        "s3": mlflow.data.from_pandas(frame, "s3://bucket/d.parquet", name="s3"),
        "delta": MetaDataset(DeltaDatasetSource(delta_table_name="main.sales.d"), name="delta"),
        "hub": MetaDataset(HuggingFaceDatasetSource("stanfordnlp/imdb"), name="imdb"),
        "spark": MetaDataset(SparkDatasetSource(table_name="sales.d"), name="spark"),
        "volume": MetaDataset(UCVolumeDatasetSource("/Volumes/main/raw/d"), name="volume"),
        "code": MetaDataset(code, name="made"),
    }
    with mlflow.start_run(run_name="all datasets"):
        for context, one in used.items():
            mlflow.log_input(one, context=context)
    with mlflow.start_run(run_name="training alone"):
        mlflow.log_input(used["training"], context="training")


def history() -> None:
    client = mlflow.MlflowClient()
    renamed = experiment("before")
    with mlflow.start_run(run_name="kept"):
        mlflow.set_tag("mlflow.note.content", "# A note")
        mlflow.log_metrics({"nan": float("nan"), "up": float("inf"), "loss": 0.5})
        mlflow.log_metric("loss", 0.25, step=1)
    client.rename_experiment(renamed, "after")
    deleted = experiment("deleted")
    with mlflow.start_run(run_name="in a deleted experiment"):
        mlflow.log_param("a", 1)
    client.delete_experiment(deleted)
    restored = experiment("restored")
    for name in ("deleted", "restored"):
        with mlflow.start_run(run_name=name) as run:
            mlflow.log_param("a", name)
        client.delete_run(run.info.run_id)
    client.restore_run(run.info.run_id)
    client.delete_experiment(restored)
    client.restore_experiment(restored)
    client.delete_experiment(client.create_experiment("empty"))


def workspace() -> None:
    mlflow.create_workspace("team")
    mlflow.set_workspace("team")
    experiment("autolog")
    with mlflow.start_run(run_name="of the team") as run:
        mlflow.log_params({"lr": 0.1})
        mlflow.log_metric("loss", 1.5)
    client = mlflow.MlflowClient()
    client.create_registered_model("deep")
    client.create_model_version("deep", "s3://bucket/of-the-team", run.info.run_id)
    client.set_registered_model_alias("deep", "champion", "1")


if __name__ == "__main__":
    mlflow.set_tracking_uri(sys.argv[1])
    mlflow.set_registry_uri(sys.argv[1])
    autologging()
    optuna_runs()
    registry(*checkpoints())
    agents()
    datasets()
    history()
    workspace()
