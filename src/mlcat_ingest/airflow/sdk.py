"""What this package uses of Airflow's Task SDK, or one sentence about the Airflow that lacks it."""

try:
    from airflow.sdk import (
        Asset,
        AssetAlias,
        BaseHook,
        BaseOperator,
        BaseOperatorLink,
        ExceptionRetryPolicy,
        RetryAction,
        RetryRule,
        conf,
    )
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError as error:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = f"Airflow {version('apache-airflow')} is installed"
    except PackageNotFoundError:
        found = "Airflow is not installed"
    raise ImportError(
        f"mlcat-ingest needs Airflow 3.3 or newer, and {found}: upgrade it, or run mlcat-ingest in "
        "a venv of its own by @task.external_python"
    ) from error

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "Asset",
    "AssetAlias",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "ExceptionRetryPolicy",
    "RetryAction",
    "RetryRule",
    "conf",
]
