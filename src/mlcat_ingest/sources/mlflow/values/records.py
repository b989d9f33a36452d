"""Records of MLflow's listings, with their tags and `MLmodel` documents, before the mapping.

Every reader gives the same values. Times are epoch milliseconds UTC. The document `MLmodel`, beside
every model, has its flavors, signature and size. MLflow 2 has the same in a tag of the run.

Source: MLflow REST API 2.0 (`runs/search`, `experiments/search`, `registered-models/search`,
`model-versions/search`, `logged-models/search`) and the same entities of MlflowClient.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property, lru_cache
from math import isnan
from typing import Any, Final, NamedTuple

from mlcat_ingest.core.text import compact_json, json_or_none
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata import mlflow_keys

UNENDED: Final = frozenset({"RUNNING", "SCHEDULED"})
"""The states of runs that have not ended."""

NAME_TAG: Final = "mlflow.runName"
NOTE_TAG: Final = "mlflow.note.content"
EXTERNAL_TAG: Final = "mlflow.model.isExternal"
"""Tag of a logged model that is kept elsewhere, such as an agent; its value is `true`."""

PARENT_TAG: Final = mlflow_keys.PARENT_TAG
USER_TAG: Final = "mlflow.user"
OWNER_TAGS: Final = ("mlflow.ownerEmail", USER_TAG)
"""Experiment tags that name the owner, the best first."""

HISTORY_TAG: Final = "mlflow.log-model.history"
"""Run tag of MLflow 2: a JSON list of the models that were logged, with whole signatures."""

CONTEXT_TAG: Final = "mlflow.data.context"
"""Tag of a dataset that a run used: the purpose it was logged for."""

RUN_TYPE_TAG: Final = "mlflow.runType"
EVALUATION_TYPE: Final = "genai_evaluate"
"""The tag with the type of a run, and its value for a run of `genai.evaluate`."""

EVALUATED_TAG: Final = mlflow_keys.DATASETS
"""Run tag that MLflow's classic `evaluate` sets where it is given a model."""

NAMING_TAG: Final = "mlflow.modelVersions"
"""Tag of a logged model that names its versions as their registered models were called then."""

PROMPT_TAG: Final = "mlflow.prompt.is_prompt"
"""The tag that tells a prompt from a registered model; both are in one listing."""

REPO_TAGS: Final = (
    "mlflow.source.git.repoURL",
    "mlflow.databricks.gitRepoUrl",
    "mlflow.gitRepoURL",
    "mlflow.source.name",
)
"""Run tags that may hold the repository's address, the best first."""

_PARTS: Final = ("inputs", "outputs", "params")
_OF_VERSION: Final = "_version"

Column = Mapping[str, Any]
"""A column or parameter of a signature, as MLflow writes it: type, and most often a name."""

_MAX_SIZE: Final = 2**63 - 1
_MOST_CACHED: Final = 32_768

_MODEL_SOURCE: Final = re.compile(
    r"(?:models:|.*/models)/(m-[0-9a-f]{32})(?:/artifacts)?/?", re.DOTALL
)
_RUN_SOURCE: Final = re.compile(r"runs:/+([^/]+)/.*", re.DOTALL)
_VERSION_SOURCE: Final = re.compile(r"models:/(.+)/([0-9]+)/?", re.DOTALL)


class Metric(NamedTuple):
    """One value of a metric of a run, or of the logged model `model_id`; `run_id` logged it."""

    key: str
    value: float
    timestamp_ms: int | None = None
    step: int | None = None
    model_id: str | None = None
    dataset_name: str | None = None
    dataset_digest: str | None = None
    run_id: str | None = None

    @property
    def recency(self) -> tuple[int, int, float]:
        """What is greatest for the value that MLflow calls the last one.

        Source: `_compare_metrics` of MLflow 3.17's SQL store, which has 0 in place of NaN.
        """
        value = 0.0 if isnan(self.value) else self.value
        return self.step or 0, self.timestamp_ms or 0, value


class DatasetInput(NamedTuple):
    """A dataset that a run used; `source`, `schema` and `profile` are JSON texts as logged."""

    name: str
    digest: str
    source_type: str
    source: str
    schema: str | None = None
    profile: str | None = None
    tags: Mapping[str, str] = {}


class ModelOutput(NamedTuple):
    """A logged model that a run made, and the step it was logged at."""

    model_id: str
    step: int | None = None


class MeasuredModel(NamedTuple):
    """An external model of which a run holds the metrics, and nothing else."""

    model_id: str
    name: str


@dataclass(frozen=True, slots=True)
class LoggedModel:
    """A model logged by MLflow 3; `source_run_id` is the run that made it.

    `copied` names those of its metrics that are left out, as copies of another model's.
    """

    model_id: str
    experiment_id: str
    name: str
    status: str
    source_run_id: str | None = None
    model_type: str | None = None
    artifact_uri: str | None = None
    created_at_ms: int | None = None
    last_updated_at_ms: int | None = None
    params: Mapping[str, str] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[Metric] = ()
    copied: tuple[str, ...] = ()

    @property
    def is_external(self) -> bool:
        """True for a model that no run names as its output, such as an agent."""
        return self.source_run_id is None or self.tags.get(EXTERNAL_TAG) == "true"


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of a registered model; `aliases` come from the registered model's own map.

    `origin` is the version that it was copied from, where that is certain.
    """

    name: str
    version: str
    run_id: str | None = None
    source: str | None = None
    model_id: str | None = None
    stage: str | None = None
    status: str | None = None
    description: str | None = None
    user_id: str | None = None
    created_at_ms: int | None = None
    last_updated_at_ms: int | None = None
    aliases: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    origin: "ModelVersion | None" = None

    @property
    def copied_name(self) -> tuple[str, str] | None:
        """The name and number that the source of a copy had, which can be another version's now."""
        match = _VERSION_SOURCE.fullmatch(self.source or "")
        return (match[1], match[2]) if match else None

    def origins(self) -> Iterator["ModelVersion"]:
        """Yield the version itself, that which it was copied from, and so on."""
        version: ModelVersion | None = self
        while version is not None:
            yield version
            version = version.origin


@dataclass(frozen=True, slots=True)
class RegisteredModel:
    """A registered model; `aliases` maps alias to version number."""

    name: str
    description: str | None = None
    created_at_ms: int | None = None
    last_updated_at_ms: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment; `lifecycle_stage` is `active` or `deleted`."""

    experiment_id: str
    name: str
    artifact_location: str | None = None
    lifecycle_stage: str = "active"
    created_at_ms: int | None = None
    last_updated_at_ms: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Run:
    """A run with everything its page of `runs/search` holds."""

    run_id: str
    experiment_id: str
    name: str | None = None
    user_id: str | None = None
    status: str | None = None
    start_time_ms: int | None = None
    end_time_ms: int | None = None
    artifact_uri: str | None = None
    lifecycle_stage: str = "active"
    params: Mapping[str, str] = field(default_factory=dict)
    metrics: Sequence[Metric] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    datasets: tuple[DatasetInput, ...] = ()
    model_inputs: tuple[str, ...] = ()
    model_outputs: tuple[ModelOutput, ...] = ()

    @property
    def ended_at_ms(self) -> int | None:
        """The end; None for a run that has not ended: MLflow keeps the end of a resumed run."""
        return None if self.status in UNENDED else self.end_time_ms


def model_id_of(source: str | None) -> str | None:
    """Return the logged model that a version was made from, by the address of its artifacts."""
    match = _MODEL_SOURCE.fullmatch(source or "")
    return match[1] if match else None


def run_id_of(source: str | None) -> str | None:
    """Return the run that a version was made from, by its source `runs:/<id>/…`."""
    match = _RUN_SOURCE.fullmatch(source or "")
    return match[1] if match else None


def parent_of(run: Run) -> str | None:
    """Return the id that a run names as its parent, None for its own."""
    parent = run.tags.get(PARENT_TAG)
    return None if parent == run.run_id else parent or None


def name_of(run: Run) -> str | None:
    """Return the name of a run, None where it has none."""
    return run.name or run.tags.get(NAME_TAG) or None


def number_of(version: str) -> tuple[int, str]:
    """Return the sort key of a version: by number, then by text for what is no number."""
    return (int(version), "") if version.isascii() and version.isdigit() else (-1, version)


def aliases_of(version: ModelVersion, registered: RegisteredModel | None) -> list[str]:
    """Return a version's aliases, from the registered model's own map where it is known.

    MLflow's SQL registries leave the aliases of listed versions empty.
    """
    if registered is None:
        return sorted(version.aliases)
    return sorted(a for a, number in registered.aliases.items() if number == version.version)


class PropertyKey(StrEnum):
    """Custom properties that the mapping writes itself."""

    ABANDONED = "mlflow.abandoned"
    ALIASES = mlflow_keys.ALIASES
    ARTIFACT_LOCATION = "mlflow.artifact_location"
    ARTIFACT_URI = "mlflow.artifact_uri"
    CHILDREN = "mlflow.children"
    COLUMN_TYPE = "mlflow.column_type"
    COMMIT_MESSAGE = "mlflow.commit_message"
    COPIED_FROM = "mlflow.copied_from"
    DATASETS = mlflow_keys.DATASETS
    DATASET_DIGEST = "mlflow.dataset_digest"
    DATASET_NAME = "mlflow.dataset_name"
    DATASET_ROWS = "mlflow.dataset_rows"
    DATASET_SOURCE_TYPE = "mlflow.dataset_source_type"
    DESCRIPTION = mlflow_keys.PROMPT_DESCRIPTION
    DURATION_MS = mlflow_keys.RUN_DURATION
    ENDPOINTS = "mlflow.endpoints"
    EXPERIMENT_ID = "mlflow.experiment_id"
    FRAMEWORK_VERSIONS = mlflow_keys.FRAMEWORK_VERSIONS
    FULL_NAME = "mlflow.full_name"
    LATEST_VERSION = "mlflow.latest_version"
    LEFT_OUT = "mlflow.left_out"
    LIFECYCLE_STAGE = "mlflow.lifecycle_stage"
    LOGGED_MODELS = mlflow_keys.LOGGED_MODELS
    LOGGED_MODEL_COUNT = "mlflow.logged_model_count"
    MCP_SERVER = "mlflow.mcp_server"
    METRICS_OF = "mlflow.metrics_of"
    MODEL_ARTIFACT_PATH = "mlflow.model_artifact_path"
    MODEL_FLAVORS = mlflow_keys.MODEL_FLAVORS
    MODEL_ID = mlflow_keys.MODEL_ID
    MODEL_INPUTS = "mlflow.model_inputs"
    MODEL_SIZE_BYTES = mlflow_keys.MODEL_SIZE_BYTES
    MODEL_STATUS = "mlflow.model_status"
    MODEL_TYPE = "mlflow.model_type"
    MODEL_URI = "mlflow.model_uri"
    MODEL_UUID = "mlflow.model_uuid"
    OTHER_VERSIONS = "mlflow.other_versions"
    PARENT_RUN = mlflow_keys.PARENT_RUN
    PARENT_RUN_ID = mlflow_keys.PARENT_RUN_ID
    PARENT_RUN_NAME = mlflow_keys.PARENT_RUN_NAME
    PROMPT = mlflow_keys.PROMPT
    REGISTERED_MODEL = "mlflow.registered_model"
    REPOSITORY = "mlflow.repository"
    RUN_ID = mlflow_keys.RUN_ID
    RUN_MODEL = mlflow_keys.RUN_MODEL
    SIGNATURE = mlflow_keys.SIGNATURE
    SIGNATURE_INPUTS = mlflow_keys.SIGNATURE_PARTS["inputs"]
    SIGNATURE_OUTPUTS = mlflow_keys.SIGNATURE_PARTS["outputs"]
    SIGNATURE_PARAMETERS = mlflow_keys.SIGNATURE_PARTS["params"]
    SIGNATURE_OF = "mlflow.signature_of"
    SOURCE = mlflow_keys.ARTIFACT_SOURCE
    STATUS = mlflow_keys.RUN_STATUS
    VERSION = "mlflow.version"
    VERSION_STATUS = "mlflow.version_status"
    VERSIONS = mlflow_keys.VERSIONS


class SubType(StrEnum):
    """Finer kinds of entities, as people read them; the model of a plain run has none."""

    EVALUATION_RUN = "Evaluation Run"
    EXPERIMENT = "ML Experiment"
    EXTERNAL_MODEL = "External Model"
    MCP_SERVER = "MCP_SERVER"
    MCP_TOOL = "MCP_TOOL"
    MODEL_SIGNATURE = "Model Signature"
    MODEL_VERSION = "Model Version"
    PARENT_RUN = "Parent Run"
    PROMPT = "Prompt"
    REGISTERED_MODEL = "Registered Model"
    TRAINING_RUN = "ML Training Run"


class JsonObjects(tuple[Mapping[str, Any], ...]):  # noqa: SLOT001 - it keeps its text
    """The objects in a list that was JSON.

    Runs of a model share its signature, of which the text is made once: a thirtieth of the CPU of
    a first ingest.
    """

    @cached_property
    def text(self) -> str:
        """The list as JSON without blanks."""
        return compact_json(self)


NO_OBJECTS: Final = JsonObjects()


def logged_history(tags: Mapping[str, str]) -> JsonObjects:
    """Return MLflow 2's list of the models that were logged, nothing where it cannot be read."""
    text = tags.get(HISTORY_TAG)
    return _objects(text) if text else NO_OBJECTS


def _objects(text: str) -> JsonObjects:
    """Return the objects in a list that is JSON, nothing for anything else."""
    return (_cached if len(text) <= _MOST_CACHED else _cached.__wrapped__)(text)


# A run's history is asked for several times while it is mapped, and runs share their signatures.
@lru_cache(maxsize=64)
def _cached(text: str) -> JsonObjects:
    # MLflow's processes read the tags of this module where nothing else of ours is installed.
    from mlcat_ingest.metadata.codec import loads

    try:
        value = loads(text)
    except CodecError:
        value = json_or_none(text)  # with a number that is not finite, for example
    found = value if isinstance(value, list) else ()
    return JsonObjects(one for one in found if isinstance(one, dict))


def column_names(columns: Any) -> frozenset[str]:
    """Return the names in a list of columns, as signatures and schemas of datasets have it."""
    if not isinstance(columns, list):
        return frozenset()
    named = (column.get("name") for column in columns if isinstance(column, dict))
    return frozenset(name for name in named if isinstance(name, str))


@dataclass(frozen=True, slots=True)
class ModelDocument:
    """An `MLmodel`; `signature` has inputs, outputs and params as far as they are not empty.

    `frameworks` are names with versions, such as `sklearn 1.7.2`.
    """

    flavors: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    signature: Mapping[str, JsonObjects] = field(default_factory=dict)
    size_bytes: int | None = None

    @property
    def input_names(self) -> frozenset[str]:
        """The names of the inputs, as far as they have one."""
        return frozenset(column_name(column) for column in self.signature.get("inputs", ())) - {""}


def column_name(column: Column) -> str:
    """Return the name of a column, empty for none."""
    name = column.get("name")
    return name if isinstance(name, str) else ""


def model_document(content: Mapping[str, Any]) -> ModelDocument:
    """Return the document that `content` is; parts that cannot be read are left out."""
    flavors, signature = content.get("flavors"), content.get("signature")
    size = content.get("model_size_bytes")
    parts = {}
    if isinstance(signature, dict):
        read = {part: _columns(signature.get(part)) for part in _PARTS}
        parts = {part: columns for part, columns in read.items() if columns}
    return ModelDocument(
        flavors=tuple(sorted(map(str, flavors))) if isinstance(flavors, dict) else (),
        frameworks=tuple(sorted(_frameworks(content))),
        signature=parts,
        size_bytes=size if type(size) is int and 0 <= size <= _MAX_SIZE else None,
    )


def _frameworks(content: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an `MLmodel` has versions of: MLflow, and what its flavors name."""
    flavors = content.get("flavors")
    parts = flavors.values() if isinstance(flavors, dict) else ()
    for part in ({"mlflow_version": content.get("mlflow_version")}, *parts):
        for key, version in part.items() if isinstance(part, dict) else ():
            if version and isinstance(version, str) and str(key).endswith(_OF_VERSION):
                yield f"{str(key).removesuffix(_OF_VERSION)} {version}"


def _columns(value: Any) -> JsonObjects:
    """Return the columns in a part of a signature, which is JSON, or what JSON can hold."""
    if value is None:
        return NO_OBJECTS
    try:
        return _objects(value if isinstance(value, str) else json.dumps(value))
    except (TypeError, ValueError, RecursionError):
        return NO_OBJECTS
