"""Tries connections inside Airflow's own venv; prints JSON of what came of each.

The arguments are a recipe, inline, and the connections to try: catalogs, and MLflow servers.
"""

import json
import logging
import sys
from typing import Any

from mlcat_ingest.airflow.hook import MlcatHook, mlflow_variables
from mlcat_ingest.airflow.operator import MlcatIngestOperator
from mlcat_ingest.errors import MlcatError, RecipeError


def main(recipe: dict[str, Any], conn_ids: list[str], of_mlflow: list[str]) -> dict[str, Any]:
    operator = MlcatIngestOperator(task_id="inline", recipe=recipe, mlcat_conn_id=conn_ids[0])
    return {
        "tried": {conn_id: MlcatHook(conn_id).test_connection() for conn_id in conn_ids},
        "mlflow": {conn_id: variables(conn_id) for conn_id in of_mlflow},
        "summary": operator.execute({}),
        "page": operator.catalog_page,
        "refused": refusal(recipe),
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


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, force=True)
    reported = main(json.loads(sys.argv[1]), *(names.split(",") for names in sys.argv[2:]))
    sys.stdout.write(f"\n{json.dumps(reported, default=str)}\n")
