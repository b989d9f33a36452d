"""Experiments and registered models become mlModelGroups."""

from typing import Any, Final

from mlcat_ingest.errors import RecordError
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS, OWNERSHIP
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_GROUP_PROPERTIES
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import entity_type_of, raw_parts
from mlcat_ingest.sources.mlflow.mapping.aspects import (
    NO_TAGS,
    common_properties,
    first_aspects,
)
from mlcat_ingest.sources.mlflow.mapping.limits import sized
from mlcat_ingest.sources.mlflow.mapping.properties import PropertiesBuilder
from mlcat_ingest.sources.mlflow.mapping.text import Fitter, compact_json
from mlcat_ingest.sources.mlflow.mapping.version import version_set_urn
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedExperiment,
    JoinedRegisteredModel,
)
from mlcat_ingest.sources.mlflow.values.names import NOTE_TAG, OWNER_TAGS, OwnKey
from mlcat_ingest.sources.mlflow.values.records import number_of

_SAID_ELSEWHERE: Final = frozenset({NOTE_TAG})


def map_experiment(record: JoinedExperiment) -> list[Entity]:
    """Return the group that an experiment is.

    Raises:
        RecordError: the experiment has neither name nor id.
    """
    scope, experiment = record.scope, record.experiment
    if not (experiment.name or experiment.experiment_id):
        raise RecordError("an experiment without name and id", record_ref="experiment")
    fitter = Fitter(scope.limits)
    name = scope.experiment_group(experiment)
    aspects = first_aspects(scope, removed=experiment.lifecycle_stage == "deleted")
    named = (scope.owners.urn(experiment.tags.get(tag)) for tag in OWNER_TAGS)
    owner = next(filter(None, named), None)
    aspects[OWNERSHIP] = scope.owners.ownership(owner)
    aspects[GLOBAL_TAGS] = NO_TAGS
    custom = common_properties(scope, name, fitter)
    stage = None if experiment.lifecycle_stage == "active" else experiment.lifecycle_stage
    custom.put_own(OwnKey.EXPERIMENT_ID, experiment.experiment_id)
    custom.put_own(OwnKey.ARTIFACT_LOCATION, experiment.artifact_location)
    custom.put_own(OwnKey.LIFECYCLE_STAGE, stage)
    custom.put_tags(experiment.tags, without=_SAID_ELSEWHERE)
    properties = _group(custom, experiment.name or experiment.experiment_id)
    properties["description"] = fitter.description(experiment.tags.get(NOTE_TAG))
    _put_times(properties, experiment.created_at_ms, experiment.last_updated_at_ms, fitter, owner)
    properties["externalUrl"] = scope.links.experiment(experiment.experiment_id)
    aspects[ML_MODEL_GROUP_PROPERTIES] = sized(properties, fitter)
    return [Entity(name.urn, aspects, notes=tuple(fitter.notes))]


def map_registered_model(record: JoinedRegisteredModel) -> list[Entity]:
    """Return the group that a registered model is, and the set of its versions.

    The group's version is the newest by number, whatever its stage.

    Raises:
        RecordError: the registered model has no name.
    """
    scope, model = record.scope, record.model
    if not model.name:
        raise RecordError("a registered model without a name", record_ref="registered model")
    fitter = Fitter(scope.limits)
    name = scope.registered_group(model.name)
    custom = common_properties(scope, name, fitter)
    custom.put_own(OwnKey.REGISTERED_MODEL, model.name)
    if model.aliases:
        custom.put_own(OwnKey.ALIASES, compact_json(dict(sorted(model.aliases.items()))))
    newest = max(record.versions, key=number_of, default=None)
    if newest is not None:
        newest = fitter.text(newest, "version")
        custom.put_own(OwnKey.LATEST_VERSION, newest)
    custom.put_tags(model.tags)
    properties = _group(custom, model.name)
    properties["description"] = fitter.description(model.description)
    _put_times(properties, model.created_at_ms, model.last_updated_at_ms, fitter)
    properties["version"] = None if newest is None else {"versionTag": newest}
    properties["externalUrl"] = scope.links.registered_model(model.name)
    aspects = first_aspects(scope, removed=False)
    # MLflow knows no owners and no catalog tags of it: what rules added goes when they go.
    aspects[OWNERSHIP] = scope.owners.ownership(None)
    aspects[GLOBAL_TAGS] = NO_TAGS
    aspects[ML_MODEL_GROUP_PROPERTIES] = sized(properties, fitter)
    entities = [Entity(name.urn, aspects, notes=tuple(fitter.notes))]
    if newest is not None:
        entities.append(_version_set(version_set_urn(scope, model.name)))
    return entities


def _version_set(urn: str) -> Entity:
    """Return the version set; its properties are the service's own to keep."""
    guid, entity_type = raw_parts(urn)
    key = {"id": guid, "entityType": entity_type}
    return Entity(urn, {f"{entity_type_of(urn)}Key": key}, only_if_absent=True)


def _group(custom: PropertiesBuilder, name: str) -> dict[str, Any]:
    return {"customProperties": custom.values, "name": custom.fitter.text(name, "name")}


def _put_times(
    properties: dict[str, Any],
    created_ms: int | None,
    updated_ms: int | None,
    fitter: Fitter,
    actor: str | None = None,
) -> None:
    created = fitter.time_stamp(created_ms, "creation time", actor)
    properties["createdAt"] = None if created is None else created["time"]
    properties["created"] = created
    updated = created_ms if updated_ms is None else updated_ms
    properties["lastModified"] = fitter.time_stamp(updated, "last update")
