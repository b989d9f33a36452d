"""Maps a run to a `dataProcessInstance`, which ties its datasets to the models that it trained.

DataHub draws lineage over an execution: from its inputs to the models that name it in
`trainingJobs`. The training data of a model is no lineage there.

Source: the aspects of runs that DataHub's own mlflow source of acryl-datahub 1.7 writes. Its run
events are left out: a server returns no version of an event, so each pass would write it again.
"""

from collections.abc import Iterable
from typing import Any, Final

from mlcat_ingest.core.text import whole_characters
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects import (
    CONTAINER,
    CONTAINER_PROPERTIES,
    DATA_PLATFORM_INSTANCE,
    DATA_PROCESS_INSTANCE_INPUT,
    DATA_PROCESS_INSTANCE_PROPERTIES,
    ML_MODEL_PROPERTIES,
    ML_TRAINING_RUN_PROPERTIES,
    SUB_TYPES,
)
from mlcat_ingest.metadata.naming import datahub_guid
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.reserved import SOURCE_KEY, TRAINING_JOB_TAG
from mlcat_ingest.metadata.urn import build, check, entity_type_of
from mlcat_ingest.sources.mlflow.mapping.properties import first_aspects
from mlcat_ingest.sources.mlflow.mapping.text import Truncator
from mlcat_ingest.sources.mlflow.values.joined import JoinedRun, WorkspaceScope
from mlcat_ingest.sources.mlflow.values.records import Experiment, PropertyKey, SubType

_JOBS: Final = frozenset({"dataJob", "dataProcessInstance"})
_KEPT: Final = (
    SOURCE_KEY,
    PropertyKey.RUN_ID,
    PropertyKey.EXPERIMENT_ID,
    PropertyKey.STATUS,
    PropertyKey.LIFECYCLE_STAGE,
    PropertyKey.DURATION_MS,
    PropertyKey.PARENT_RUN_ID,
    PropertyKey.ABANDONED,
)
"""Custom properties of a run's model that its process instance has too."""

_UNKNOWN: Final = {"time": 0, "actor": "urn:li:corpuser:unknown"}
"""The creation that the record demands, for a run without start time or user."""


def training_jobs(record: JoinedRun, truncator: Truncator) -> list[str] | None:
    """Return the job that a run's tags name and the run's process instance, None for neither.

    A tag that names no job is noted.
    """
    jobs: dict[str, None] = {}
    if tag := record.run.tags.get(TRAINING_JOB_TAG):
        urn = tag.strip()
        try:
            check(urn)
            problem = "" if entity_type_of(urn) in _JOBS else f"{urn} is not a job"
        except InvalidUrnError as error:
            problem = str(error)
        if problem:
            truncator.note("training_job_invalid", problem)
        else:
            jobs[urn] = None
    if record.scope.options.process_instances:
        jobs[record.scope.naming.process(record.run.run_id)] = None
    return list(jobs) or None


def map_process(record: JoinedRun, model: Entity, datasets: Iterable[str]) -> Entity:
    """Return the process instance of a run, which has read `datasets`; `model` is the run's own.

    Parameters, metrics and texts are those of the model, which fit the catalog already.
    """
    scope, run = record.scope, record.run
    properties = model.aspects[ML_MODEL_PROPERTIES]
    custom = properties["customProperties"]
    inputs = list(dict.fromkeys(datasets))
    aspects = first_aspects(scope, SubType.TRAINING_RUN, removed=record.is_removed, path=None)
    # The URN names no platform.
    aspects[DATA_PLATFORM_INSTANCE] = scope.platform_instance() or _platform(scope)
    if record.experiment is not None and scope.naming.joins_datahub:
        aspects[CONTAINER] = {"container": _container_urn(scope, record.experiment)}
    aspects[DATA_PROCESS_INSTANCE_INPUT] = {
        "inputs": inputs,
        "inputEdges": [{"destinationUrn": urn} for urn in inputs],
    }
    place = custom.get(PropertyKey.ARTIFACT_URI)
    created = (properties["created"] or {}).items()
    aspects[ML_TRAINING_RUN_PROPERTIES] = {
        "id": run.run_id,
        "outputUrls": [place] if place else [],
        "hyperParams": properties["hyperParams"],
        "trainingMetrics": properties["trainingMetrics"],
    }
    aspects[DATA_PROCESS_INSTANCE_PROPERTIES] = {
        "customProperties": {str(key): custom[key] for key in _KEPT if key in custom},
        "name": properties["name"],
        "externalUrl": properties["externalUrl"],
        "created": {**_UNKNOWN, **{name: one for name, one in created if one is not None}},
    }
    return Entity(scope.naming.process(run.run_id), aspects)


def experiment_containers(scope: WorkspaceScope, experiment: Experiment) -> list[Entity]:
    """Return the container that DataHub's own source makes of an experiment, if runs refer to it.

    It is created where the catalog lacks it and never changed: to us an experiment is a group.
    """
    if not (scope.options.process_instances and scope.naming.joins_datahub):
        return []
    aspects: dict[str, Aspect] = {
        DATA_PLATFORM_INSTANCE: _platform(scope),
        SUB_TYPES: {"typeNames": [SubType.EXPERIMENT.value]},
        CONTAINER_PROPERTIES: {"name": whole_characters(experiment.name)},
    }
    return [Entity(_container_urn(scope, experiment), aspects, only_if_absent=True)]


def _container_urn(scope: WorkspaceScope, experiment: Experiment) -> str:
    """Return the URN of `ExperimentKey` in DataHub's own source."""
    platform = scope.naming.platform_urn
    return build("container", datahub_guid(id=experiment.name, platform=platform))


def _platform(scope: WorkspaceScope) -> dict[str, Any]:
    return {"platform": scope.naming.platform_urn}
