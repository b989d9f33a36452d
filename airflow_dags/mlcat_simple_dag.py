"""Ingest MLflow every day. MLCAT_RECIPE is the path of a recipe without `sink`.

See `mlcat_ingest_dag.py` for the other variables, and for many runs, which it reads in parallel.
"""

from airflow.sdk import DAG

from mlcat_ingest.airflow.operator import (
    MlcatIngestOperator,
    dag_schedule,
    dag_settings,
    recipe_settings,
)

RECIPE = recipe_settings("MLCAT_RECIPE", "/opt/airflow/recipes/mlflow.yml")

with DAG("mlcat_simple", schedule=dag_schedule(), **dag_settings()):
    MlcatIngestOperator(task_id="ingest", **RECIPE)
