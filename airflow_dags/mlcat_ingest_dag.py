"""Ingest MLflow every day: plan, read the shards in parallel, finish, and check metadata tests.

It needs mlcat-ingest[airflow] where DAG files are parsed and on the workers.
Environment variables of Airflow's processes configure it:
MLCAT_RECIPE (a recipe of MLflow sources, without `sink`), MLCAT_CONN_ID (default mlcat_default),
MLCAT_MLFLOW_CONN_ID, MLCAT_SCHEDULE (default @daily; none), MLCAT_POOL (default default_pool),
MLCAT_RETRY_DELAY_S (default 120), and MLCAT_SPOOL (folder of a spool of run hooks, drained first).
"""

import os

from airflow.sdk import Asset, AssetAlias, Param, dag

from mlcat_ingest.airflow.operator import (
    MlcatDrainOperator,
    MlcatFinishOperator,
    MlcatGateOperator,
    MlcatIngestOperator,
    MlcatPlanOperator,
    dag_schedule,
    dag_settings,
    recipe_settings,
)

SPOOL = os.environ.get("MLCAT_SPOOL")
CATALOG = Asset(name="mlcat_catalog", uri="x-mlcat://catalog")
CHANGED_GROUPS = AssetAlias("mlcat_changed_groups")
RECIPE = recipe_settings("MLCAT_RECIPE", "/opt/airflow/recipes/mlflow.yml")


@dag(
    dag_id="mlcat_ingest",
    schedule=dag_schedule(),
    params={
        "shards": Param(
            16, type="integer", minimum=1, maximum=512, title="Maximum number of shards"
        ),
        "least_size": Param(
            500, type="integer", minimum=1, title="Minimum number of runs in a shard"
        ),
        "fail_on_tests": Param(
            None, type=["null", "string"], title="Metadata tests that must not fail (regex)"
        ),
    },
    doc_md=__doc__,
    **dag_settings(),
)
def mlcat_ingest() -> None:
    """Plan, ingest in shards, summarize, check metadata tests."""
    plan = MlcatPlanOperator(
        task_id="plan",
        most="{{ params.shards }}",
        least_size="{{ params.least_size }}",
        **RECIPE,
    )
    ingest = MlcatIngestOperator.partial(
        task_id="ingest",
        pool=os.environ.get("MLCAT_POOL") or "default_pool",
        map_index_template="{{ mlcat_shard }}",
        **RECIPE,
    ).expand(shard=plan.output)
    summarize = MlcatFinishOperator(
        task_id="summarize",
        shards=plan.output,
        reports=ingest.output,
        outlets=[CATALOG, CHANGED_GROUPS],
        **RECIPE,
    )
    gate = MlcatGateOperator(
        task_id="gate",
        summary=summarize.output,
        # Jinja would write None as text, which is a pattern like any other.
        fail_on_tests="{{ params.fail_on_tests or '' }}",
    )
    if SPOOL:
        MlcatDrainOperator(task_id="drain", spool=SPOOL, **RECIPE) >> plan
    summarize >> gate


mlcat_ingest()
