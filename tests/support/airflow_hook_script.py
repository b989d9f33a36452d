"""Tries connections inside Airflow's own venv; prints JSON of what came of each.

The arguments are a recipe, inline, and the connections to try: catalogs, and MLflow servers.
"""

import json
import logging
import sys
from typing import Any

from airflow.sdk import DAG

from mlcat_ingest.airflow.hook import MlcatHook, mlflow_variables
from mlcat_ingest.airflow.operator import MlcatIngestOperator
from mlcat_ingest.airflow.sdk import AirflowFailException
from mlcat_ingest.errors import MlcatError, RecipeError


def main(recipe: dict[str, Any], conn_ids: list[str], of_mlflow: list[str]) -> dict[str, Any]:
    operator = MlcatIngestOperator(task_id="inline", recipe=recipe, mlcat_conn_id=conn_ids[0])
    return {
        "tried": {conn_id: MlcatHook(conn_id).test_connection() for conn_id in conn_ids},
        "mlflow": {conn_id: variables(conn_id) for conn_id in of_mlflow},
        "summary": operator.execute({}),
        "page": operator.catalog_page,
        "refused": refusal(recipe),
        "native": native_refusal(recipe),
        "relative": failure_of(MlcatIngestOperator(task_id="relative", recipe="conf/none.yml")),
    }


def variables(conn_id: str) -> str:
    try:
        return str(mlflow_variables(conn_id))
    except MlcatError as error:
        return str(error)


def refusal(recipe: dict[str, Any]) -> str:
    try:
        MlcatIngestOperator(task_id="part", recipe=recipe, shard={}, full=True)
    except RecipeError as error:
        return f"{error.message}; {error.hint}"
    return ""


def native_refusal(recipe: dict[str, Any]) -> str:
    with DAG("native", schedule=None, render_template_as_native_obj=True):
        named = {**recipe, "name": "{{ '2026' }}"}
        operator = MlcatIngestOperator(task_id="native", recipe=named)
    operator.render_template_fields({})
    return failure_of(operator)


def failure_of(operator: MlcatIngestOperator) -> str:
    try:
        operator.execute({})
    except AirflowFailException as error:
        return str(error)
    return ""


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, force=True)
    reported = main(json.loads(sys.argv[1]), *(names.split(",") for names in sys.argv[2:]))
    sys.stdout.write(f"\n{json.dumps(reported, default=str)}\n")
