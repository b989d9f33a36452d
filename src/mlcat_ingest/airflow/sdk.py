"""What this package uses of Airflow 3, from where each release has it."""

try:
    from airflow.sdk import Asset, AssetAlias, BaseOperator, BaseOperatorLink
except ImportError as error:
    from importlib.metadata import PackageNotFoundError, version

    try:
        found = f"Airflow {version('apache-airflow')} is installed"
    except PackageNotFoundError:
        found = "Airflow is not installed"
    raise ImportError(
        f"mlcat-ingest needs Airflow 3.0 or newer, and {found}: upgrade it, or run mlcat-ingest in "
        "a venv of its own by @task.external_python"
    ) from error

try:
    from airflow.sdk import BaseHook
except ImportError:  # 3.0
    from airflow.hooks.base import BaseHook

try:
    from airflow.sdk import conf
except ImportError:  # 3.0 and 3.1
    from airflow.configuration import conf

try:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:  # 3.0 and 3.1
    from airflow.exceptions import AirflowException, AirflowFailException

__all__ = [
    "AirflowException",
    "AirflowFailException",
    "Asset",
    "AssetAlias",
    "BaseHook",
    "BaseOperator",
    "BaseOperatorLink",
    "conf",
]
