"""What MLflow's listings gave, before mapping: the same values from every reader.

Times are epoch milliseconds UTC. Source: MLflow REST API 2.0 (`runs/search`,
`experiments/search`, `registered-models/search`, `model-versions/search`,
`logged-models/search`) and the same entities of MlflowClient.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple


class Metric(NamedTuple):
    """The last value of one metric of a run; `model_id` names the logged model it belongs to."""

    key: str
    value: float
    timestamp_ms: int | None = None
    step: int | None = None
    model_id: str | None = None
    dataset_name: str | None = None
    dataset_digest: str | None = None


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


@dataclass(frozen=True, slots=True)
class LoggedModel:
    """A model logged by MLflow 3; `source_run_id` is the run that made it."""

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
    metrics: tuple[Metric, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """One version of a registered model; `aliases` come from the registered model's own map."""

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
    metrics: tuple[Metric, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    datasets: tuple[DatasetInput, ...] = ()
    model_inputs: tuple[str, ...] = ()
    model_outputs: tuple[ModelOutput, ...] = ()


UNENDED: Final = frozenset({"RUNNING", "SCHEDULED"})
"""The states of runs that have not ended."""


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
