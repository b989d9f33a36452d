"""Feature stores first, then MLflow, in one schedule: links of runs find the features there.

MLCAT_FEATURES_RECIPE names a recipe of feature stores and MLCAT_RECIPE one of MLflow, both without
`sink`; see `mlcat_ingest_dag.py` for the other variables.
"""

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import dag

from mlcat_ingest.airflow.operator import MlcatIngestOperator

CONNECTIONS = {
    "mlcat_conn_id": os.environ.get("MLCAT_CONN_ID", "mlcat_default"),
    "mlflow_conn_id": os.environ.get("MLCAT_MLFLOW_CONN_ID"),
}


@dag(
    dag_id="mlcat_features_and_runs",
    schedule=os.environ.get("MLCAT_SCHEDULE", "@daily"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=2)},
    tags=["mlcat"],
    doc_md=__doc__,
)
def mlcat_features_and_runs() -> None:
    """Ingest the feature stores, then the runs."""
    features = MlcatIngestOperator(
        task_id="features",
        recipe=os.environ.get("MLCAT_FEATURES_RECIPE", "/opt/airflow/recipes/features.yml"),
        **CONNECTIONS,
    )
    runs = MlcatIngestOperator(
        task_id="runs",
        recipe=os.environ.get("MLCAT_RECIPE", "/opt/airflow/recipes/mlflow.yml"),
        **CONNECTIONS,
    )
    features >> runs


mlcat_features_and_runs()
