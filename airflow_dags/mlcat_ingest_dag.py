"""MLflow into the catalog every day: plan, read the shards side by side, finish, and judge.

It runs as it is, settled by variables of the environment of Airflow's processes:
MLCAT_RECIPE (a recipe of MLflow sources, without `sink`), MLCAT_CONN_ID (default mlcat_default),
MLCAT_MLFLOW_CONN_ID, MLCAT_SCHEDULE (default @daily), MLCAT_POOL (default default_pool), and
MLCAT_SPOOL (the folder of a spool of run hooks, drained first).
"""

import os
from datetime import UTC, datetime, timedelta

from airflow.sdk import Asset, Param, dag

from mlcat_ingest.airflow.operator import (
    MlcatDrainOperator,
    MlcatFinishOperator,
    MlcatGateOperator,
    MlcatIngestOperator,
    MlcatPlanOperator,
)

SPOOL = os.environ.get("MLCAT_SPOOL")
CATALOG = Asset(name="mlcat_catalog", uri="x-mlcat://catalog")
RECIPE = {
    "recipe": os.environ.get("MLCAT_RECIPE", "/opt/airflow/recipes/mlflow.yml"),
    "mlcat_conn_id": os.environ.get("MLCAT_CONN_ID", "mlcat_default"),
    "mlflow_conn_id": os.environ.get("MLCAT_MLFLOW_CONN_ID"),
}


@dag(
    dag_id="mlcat_ingest",
    schedule=os.environ.get("MLCAT_SCHEDULE", "@daily"),
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=2)},
    params={
        "shards": Param(16, type="integer", minimum=1, maximum=512, title="Shards at most"),
        "least_size": Param(500, type="integer", minimum=1, title="Runs in a shard at least"),
        "fail_on_tests": Param(
            None, type=["null", "string"], title="Metadata tests that must not fail (regex)"
        ),
    },
    tags=["mlcat"],
    doc_md=__doc__,
)
def mlcat_ingest() -> None:
    """Plan, ingest in shards, summarize, judge."""
    plan = MlcatPlanOperator(
        task_id="plan",
        most="{{ params.shards }}",
        least_size="{{ params.least_size }}",
        **RECIPE,
    )
    ingest = MlcatIngestOperator.partial(
        task_id="ingest",
        pool=os.environ.get("MLCAT_POOL", "default_pool"),
        map_index_template="{{ mlcat_shard }}",
        **RECIPE,
    ).expand(shard=plan.output)
    summarize = MlcatFinishOperator(
        task_id="summarize", shards=plan.output, reports=ingest.output, outlets=[CATALOG], **RECIPE
    )
    gate = MlcatGateOperator(
        task_id="gate", summary=summarize.output, fail_on_tests="{{ params.fail_on_tests }}"
    )
    if SPOOL:
        MlcatDrainOperator(task_id="drain", spool=SPOOL, **RECIPE) >> plan
    summarize >> gate


mlcat_ingest()
