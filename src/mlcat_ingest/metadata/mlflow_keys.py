"""Custom properties and tags that the MLflow source writes and the catalog shows and searches."""

from typing import Final

PARENT_RUN: Final = "mlflow.parent_run"
"""Custom property of a child run's model: the URN of its parent's model."""

PARENT_RUN_NAME: Final = "mlflow.parent_run_name"
"""Custom property of a child run's model: the name of its parent."""

ARTIFACT_SOURCE: Final = "mlflow.source"
"""Custom property of a version: the address of what it was made from."""

RUN_ID: Final = "mlflow.run_id"
"""Custom property of the model of a run, and of a version that was made from one."""

RUN_MODEL: Final = "mlflow.run_model"
"""Custom property of a version: the URN of its run's model."""

PARENT_RUN_ID: Final = "mlflow.parent_run_id"
"""Custom property of a child run's model: the id of its parent."""

PARENT_TAG: Final = "mlflow.parentRunId"
"""MLflow's own tag of a child run, with the id of its parent."""

COMMIT_TAGS: Final = ("mlflow.source.git.commit", "mlflow.databricks.gitRepoCommit")
"""Tags of a run that hold the commit of its code, the best first."""

DATASETS: Final = "mlflow.datasets"
"""Custom property of a run's model: its datasets as JSON, with `urn` where the catalog has one."""

RUN_STATUS: Final = "mlflow.status"
"""Custom property of a run's model: its status, such as FINISHED."""

RUN_DURATION: Final = "mlflow.duration_ms"
"""Custom property of a run's model: how long the run took, in milliseconds."""

VERSIONS: Final = "mlflow.versions"
"""Custom property of a run's model: its registered versions, a JSON list of `name:version`."""

ALIASES: Final = "mlflow.aliases"
"""Custom property of a version: its aliases, a JSON list of `name@alias`."""
