"""Tries connections inside Airflow's own venv; prints JSON of what came of each.

The arguments are a recipe, inline, and the connections to try.
"""

import json
import logging
import sys
from typing import Any

from mlcat_ingest.airflow.hook import MlcatHook
from mlcat_ingest.airflow.operator import MlcatIngestOperator
from mlcat_ingest.errors import RecipeError


def main(recipe: dict[str, Any], conn_ids: list[str]) -> dict[str, Any]:
    operator = MlcatIngestOperator(task_id="inline", recipe=recipe, mlcat_conn_id=conn_ids[0])
    return {
        "tried": {conn_id: MlcatHook(conn_id).test_connection() for conn_id in conn_ids},
        "summary": operator.execute({}),
        "page": operator.catalog_page,
        "refused": refusal(recipe),
    }


def refusal(recipe: dict[str, Any]) -> str:
    try:
        MlcatIngestOperator(task_id="part", recipe=recipe, shard={}, full=True)
    except RecipeError as error:
        return f"{error.message}; {error.hint}"
    return ""


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, force=True)
    reported = main(json.loads(sys.argv[1]), sys.argv[2:])
    sys.stdout.write(f"\n{json.dumps(reported, default=str)}\n")
