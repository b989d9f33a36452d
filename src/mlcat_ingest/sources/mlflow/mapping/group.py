"""Experiments and registered models become mlModelGroups."""

from typing import Any, Final

from mlcat_ingest.errors import RecordError
from mlcat_ingest.metadata.proposal import Entity, Note
from mlcat_ingest.metadata.urn import entity_type_of, raw_parts
from mlcat_ingest.sources.mlflow.joined import (
    JoinedExperiment,
    JoinedRegisteredModel,
    Scope,
)
from mlcat_ingest.sources.mlflow.mapping.aspects import (
    NO_TAGS,
    common_properties,
    display_name,
    first_aspects,
    time_stamp,
)
from mlcat_ingest.sources.mlflow.mapping.limits import sized
from mlcat_ingest.sources.mlflow.mapping.properties import put_own, put_tags
from mlcat_ingest.sources.mlflow.mapping.text import compact_json, fit, fit_or_none
from mlcat_ingest.sources.mlflow.mapping.version import version_set_urn
from mlcat_ingest.sources.mlflow.names import NOTE_TAG, OWNER_TAGS, OwnKey
from mlcat_ingest.sources.mlflow.records import number_of

_SAID_ELSEWHERE: Final = frozenset({NOTE_TAG})


def map_experiment(record: JoinedExperiment) -> list[Entity]:
    """Return the group that an experiment is.

    Raises:
        RecordError: the experiment has neither name nor id.
    """
    scope, experiment = record.scope, record.experiment
    if not (experiment.name or experiment.experiment_id):
        raise RecordError("an experiment without name and id", record_ref="experiment")
    notes: list[Note] = []
    limits = scope.limits
    name = scope.experiment_group(experiment)
    aspects = first_aspects(scope, removed=experiment.lifecycle_stage == "deleted")
    named = (scope.owners.urn(experiment.tags.get(tag)) for tag in OWNER_TAGS)
    owner = next(filter(None, named), None)
    aspects["ownership"] = scope.owners.ownership(owner)
    aspects["globalTags"] = NO_TAGS
    custom = common_properties(scope, name, notes)
    stage = None if experiment.lifecycle_stage == "active" else experiment.lifecycle_stage
    put_own(custom, OwnKey.EXPERIMENT_ID, experiment.experiment_id, limits, notes)
    put_own(custom, OwnKey.ARTIFACT_LOCATION, experiment.artifact_location, limits, notes)
    put_own(custom, OwnKey.LIFECYCLE_STAGE, stage, limits, notes)
    put_tags(custom, experiment.tags, scope.limits, notes, without=_SAID_ELSEWHERE)
    properties = _group(scope, custom, experiment.name or experiment.experiment_id, notes)
    _put_description(properties, experiment.tags.get(NOTE_TAG), scope, notes)
    _put_times(properties, experiment.created_at_ms, experiment.last_updated_at_ms, notes, owner)
    properties["externalUrl"] = scope.links.experiment(experiment.experiment_id)
    aspects["mlModelGroupProperties"] = sized(properties, scope.limits, notes)
    return [Entity(name.urn, aspects, notes=tuple(notes))]


def map_registered_model(record: JoinedRegisteredModel) -> list[Entity]:
    """Return the group that a registered model is, and the set of its versions.

    The group's version is the newest by number, whatever its stage.

    Raises:
        RecordError: the registered model has no name.
    """
    scope, model = record.scope, record.model
    if not model.name:
        raise RecordError("a registered model without a name", record_ref="registered model")
    notes: list[Note] = []
    limits = scope.limits
    name = scope.registered_group(model.name)
    custom = common_properties(scope, name, notes)
    put_own(custom, OwnKey.REGISTERED_MODEL, model.name, limits, notes)
    if model.aliases:
        aliases = compact_json(dict(sorted(model.aliases.items())))
        put_own(custom, OwnKey.ALIASES, aliases, limits, notes)
    newest = max(record.versions, key=number_of, default=None)
    if newest is not None:
        newest = fit(newest, limits.value_chars, notes, "version")
        put_own(custom, OwnKey.LATEST_VERSION, newest, limits, notes)
    put_tags(custom, model.tags, scope.limits, notes)
    properties = _group(scope, custom, model.name, notes)
    _put_description(properties, model.description, scope, notes)
    _put_times(properties, model.created_at_ms, model.last_updated_at_ms, notes)
    properties["version"] = None if newest is None else {"versionTag": newest}
    properties["externalUrl"] = scope.links.registered_model(model.name)
    aspects = first_aspects(scope, removed=False)
    # MLflow knows no owners and no catalog tags of it: what rules added goes when they go.
    aspects["ownership"] = scope.owners.ownership(None)
    aspects["globalTags"] = NO_TAGS
    aspects["mlModelGroupProperties"] = sized(properties, scope.limits, notes)
    entities = [Entity(name.urn, aspects, notes=tuple(notes))]
    if newest is not None:
        entities.append(_version_set(version_set_urn(scope, model.name)))
    return entities


def _version_set(urn: str) -> Entity:
    """Return the version set; its properties are the service's own to keep."""
    guid, entity_type = raw_parts(urn)
    key = {"id": guid, "entityType": entity_type}
    return Entity(urn, {f"{entity_type_of(urn)}Key": key}, only_if_absent=True)


def _group(scope: Scope, custom: dict[str, str], shown: str, notes: list[Note]) -> dict[str, Any]:
    return {"customProperties": custom, "name": display_name(scope, shown, notes)}


def _put_description(
    properties: dict[str, Any], text: str | None, scope: Scope, notes: list[Note]
) -> None:
    limit = scope.limits.description_chars
    properties["description"] = fit_or_none(text, limit, notes, "description")


def _put_times(
    properties: dict[str, Any],
    created_ms: int | None,
    updated_ms: int | None,
    notes: list[Note],
    actor: str | None = None,
) -> None:
    created = time_stamp(created_ms, notes, "creation time", actor)
    properties["createdAt"] = None if created is None else created["time"]
    properties["created"] = created
    updated = created_ms if updated_ms is None else updated_ms
    properties["lastModified"] = time_stamp(updated, notes, "last update")
