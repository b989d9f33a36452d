"""Names of MLflow's tags, and of the custom properties that the mapping writes."""

from enum import StrEnum
from typing import Final

NAME_TAG: Final = "mlflow.runName"
NOTE_TAG: Final = "mlflow.note.content"
PARENT_TAG: Final = "mlflow.parentRunId"
USER_TAG: Final = "mlflow.user"

OWNER_TAGS: Final = ("mlflow.ownerEmail", USER_TAG)
"""Experiment tags that name the owner, the best first."""

HISTORY_TAG: Final = "mlflow.log-model.history"
"""Run tag of MLflow 2: a JSON list of the models that were logged, with whole signatures."""

CONTEXT_TAG: Final = "mlflow.data.context"
"""Tag of a dataset that a run used: the purpose it was logged for."""

PROMPT_TAG: Final = "mlflow.prompt.is_prompt"
"""The tag that tells a prompt from a registered model; both are in one listing."""

REPO_TAGS: Final = (
    "mlflow.source.git.repoURL",
    "mlflow.databricks.gitRepoUrl",
    "mlflow.gitRepoURL",
    "mlflow.source.name",
)
"""Run tags that may hold the repository's address, the best first."""

COMMIT_TAGS: Final = ("mlflow.source.git.commit", "mlflow.databricks.gitRepoCommit")
"""Run tags that hold the commit, the best first."""


class OwnKey(StrEnum):
    """Custom properties that the mapping writes itself."""

    ABANDONED = "mlflow.abandoned"
    ALIASES = "mlflow.aliases"
    ARTIFACT_LOCATION = "mlflow.artifact_location"
    ARTIFACT_URI = "mlflow.artifact_uri"
    CHILDREN = "mlflow.children"
    DATASETS = "mlflow.datasets"
    DURATION_MS = "mlflow.duration_ms"
    EXPERIMENT_ID = "mlflow.experiment_id"
    FULL_NAME = "mlflow.full_name"
    LATEST_VERSION = "mlflow.latest_version"
    LEFT_OUT = "mlflow.left_out"
    LIFECYCLE_STAGE = "mlflow.lifecycle_stage"
    LOGGED_MODELS = "mlflow.logged_models"
    MODEL_ARTIFACT_PATH = "mlflow.model_artifact_path"
    MODEL_FLAVORS = "mlflow.model_flavors"
    MODEL_ID = "mlflow.model_id"
    MODEL_INPUTS = "mlflow.model_inputs"
    MODEL_UUID = "mlflow.model_uuid"
    PARENT_RUN_ID = "mlflow.parent_run_id"
    REGISTERED_MODEL = "mlflow.registered_model"
    RUN_ID = "mlflow.run_id"
    RUN_MODEL = "mlflow.run_model"
    SOURCE = "mlflow.source"
    STATUS = "mlflow.status"
    VERSION = "mlflow.version"
    VERSION_STATUS = "mlflow.version_status"
    VERSIONS = "mlflow.versions"
