"""What the DAG files that come with us have in common, and take from Airflow's environment."""

import os
from datetime import UTC, datetime, timedelta
from typing import Any


def dag_settings() -> dict[str, Any]:
    """Return what such DAGs have in common beside their schedule: none runs beside itself.

    `MLCAT_RETRY_DELAY_S` is how long a task waits before another attempt.
    """
    delay = timedelta(seconds=float(os.environ.get("MLCAT_RETRY_DELAY_S", "120")))
    return {
        "start_date": datetime(2026, 1, 1, tzinfo=UTC),
        "catchup": False,
        "max_active_runs": 1,
        "default_args": {"retries": 2, "retry_delay": delay},
        "tags": ["mlcat"],
    }


def recipe_settings(variable: str, default: str) -> dict[str, Any]:
    """Return the recipe whose path `variable` holds, and the connections it is used with.

    These are named by `MLCAT_CONN_ID`, the catalog's, and `MLCAT_MLFLOW_CONN_ID`.
    """
    return {
        "recipe": os.environ.get(variable, default),
        "mlcat_conn_id": os.environ.get("MLCAT_CONN_ID", "mlcat_default"),
        "mlflow_conn_id": os.environ.get("MLCAT_MLFLOW_CONN_ID"),
    }
