"""Ingest feature stores, then MLflow, in one schedule, so that runs link to known features.

MLCAT_FEATURES_RECIPE is the path of a recipe of feature stores, and MLCAT_RECIPE of one of MLflow,
both without `sink`; see `mlcat_ingest_dag.py` for the other variables. Feature stores need extras
besides `airflow`: `feast`, or `aws` for SageMaker.
"""

from airflow.sdk import dag

from mlcat_ingest.airflow.operator import (
    MlcatIngestOperator,
    dag_schedule,
    dag_settings,
    recipe_settings,
)

FEATURES = recipe_settings("MLCAT_FEATURES_RECIPE", "/opt/airflow/recipes/features.yml")
RUNS = recipe_settings("MLCAT_RECIPE", "/opt/airflow/recipes/mlflow.yml")


@dag(
    dag_id="mlcat_features_and_runs",
    schedule=dag_schedule(),
    doc_md=__doc__,
    **dag_settings(),
)
def mlcat_features_and_runs() -> None:
    """Ingest the feature stores, then the runs."""
    features = MlcatIngestOperator(task_id="features", **FEATURES)
    runs = MlcatIngestOperator(task_id="runs", **RUNS)
    features >> runs


mlcat_features_and_runs()
