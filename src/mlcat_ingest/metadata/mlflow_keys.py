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

LOGGED_MODELS: Final = "mlflow.logged_models"
"""Custom property of a run's model: the models of MLflow 3 that it made, a JSON list."""

MODEL_ID: Final = "mlflow.model_id"
"""Custom property: the id of the logged model of MLflow 3 that a run made, or a version is of."""

OF_LOGGED_MODEL: Final = "logged model "
"""Stands in the description of a metric before the id of the logged model, if only that has it."""

MODEL_FLAVORS: Final = "mlflow.model_flavors"
"""Custom property: the flavors of the models that were made, between commas."""

FRAMEWORK_VERSIONS: Final = "mlflow.framework_versions"
"""Custom property: what the models were made with, such as `sklearn 1.7.2`, between commas."""

MODEL_SIZE_BYTES: Final = "mlflow.model_size_bytes"
"""Custom property: the size of the model, or of several as JSON by their URI."""

SIGNATURE: Final = "mlflow.signature"
"""Custom property: signatures of several models as JSON, by URI and part."""

SIGNATURE_PARTS: Final = {
    "inputs": "signature.inputs",
    "outputs": "signature.outputs",
    "params": "signature.parameters",
}
"""The custom property of each part of a signature, a JSON list, by MLflow's name of the part."""

RUN_STATUS: Final = "mlflow.status"
"""Custom property of a run's model: its status, such as FINISHED."""

RUN_DURATION: Final = "mlflow.duration_ms"
"""Custom property of a run's model: how long the run took, in milliseconds."""

VERSIONS: Final = "mlflow.versions"
"""Custom property of a run's model: its registered versions, a JSON list of `name:version`."""

ALIASES: Final = "mlflow.aliases"
"""Custom property of a version: its aliases, a JSON list of `name@alias`; of a registered model the
numbers of the versions by alias, a JSON object."""

PROMPT: Final = "mlflow.prompt"
"""Custom property of a prompt: its name. With a dot and a version behind it: an earlier text."""

PROMPT_DESCRIPTION: Final = "mlflow.description"
"""Custom property of a prompt: its description, for which documents have no field."""
