"""Maps an external model of MLflow 3, such as an agent, to an mlModel in its experiment's group."""

from typing import Any, Final

from mlcat_ingest.errors import RecordError
from mlcat_ingest.metadata.aspects.governance import GLOBAL_TAGS, OWNERSHIP
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES, SOURCE_CODE
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.sources.mlflow.mapping.evidence import external_evidence, with_evidence
from mlcat_ingest.sources.mlflow.mapping.groups import run_model
from mlcat_ingest.sources.mlflow.mapping.logged_models import add_model_facts
from mlcat_ingest.sources.mlflow.mapping.metrics import hyper_params, model_metrics
from mlcat_ingest.sources.mlflow.mapping.properties import (
    NO_TAGS,
    PropertiesBuilder,
    browse_path,
    common_properties,
    first_aspects,
    shown_tags,
)
from mlcat_ingest.sources.mlflow.mapping.source_code import source_code
from mlcat_ingest.sources.mlflow.mapping.text import Truncator, truncate_aspect
from mlcat_ingest.sources.mlflow.values.joined import JoinedLoggedModel
from mlcat_ingest.sources.mlflow.values.records import NOTE_TAG, USER_TAG, PropertyKey, SubType

_MAPPED_TAGS: Final = frozenset({NOTE_TAG})


def map_external_model(record: JoinedLoggedModel) -> list[Entity]:
    """Return the model that an external model is, named by its id as a run is by its own.

    Raises:
        RecordError: the model has no id.
        InvalidUrnError: the id cannot be part of a URN.
    """
    scope, model, experiment = record.scope, record.model, record.experiment
    if not model.model_id:
        raise RecordError("a logged model without an id", record_ref=f"logged model {model.name}")
    truncator = Truncator(scope.limits)
    name = scope.naming.model(model.model_id)
    user = scope.owners.urn(model.tags.get(USER_TAG))
    removed = experiment.lifecycle_stage == "deleted"
    path = browse_path(scope, experiment.name or experiment.experiment_id)
    aspects = first_aspects(scope, SubType.EXTERNAL_MODEL, removed=removed, path=path)
    aspects[OWNERSHIP] = scope.owners.ownership(user)
    aspects[SOURCE_CODE] = source_code(model.tags)
    aspects[GLOBAL_TAGS] = NO_TAGS
    custom = common_properties(scope, name, truncator)
    add_model_facts(custom, model)
    custom.set_own(PropertyKey.EXPERIMENT_ID, model.experiment_id)
    custom.set_own(PropertyKey.ARTIFACT_URI, model.artifact_uri)
    custom.set_own(PropertyKey.RUN_ID, model.source_run_id)
    custom.set_own(PropertyKey.RUN_MODEL, run_model(scope, model.source_run_id))
    custom.add_tags(model.tags, without=_MAPPED_TAGS)
    aspects[ML_MODEL_PROPERTIES] = _properties(record, custom, user)
    entity = Entity(name.urn, aspects, notes=tuple(truncator.notes))
    return [with_evidence(entity, external_evidence(record), scope)]


def _properties(record: JoinedLoggedModel, custom: PropertiesBuilder, user: str | None) -> Aspect:
    scope, model, truncator = record.scope, record.model, custom.truncator
    created = truncator.time_stamp(model.created_at_ms, "creation time", user)
    updated_ms = model.last_updated_at_ms
    result: dict[str, Any] = {
        "customProperties": custom.values,
        "name": truncator.text(model.name or model.model_id, "name"),
        "description": truncator.description(model.tags.get(NOTE_TAG)),
        "date": None if created is None else created["time"],
        "created": created,
        "lastModified": truncator.time_stamp(
            model.created_at_ms if updated_ms is None else updated_ms, "last update"
        ),
        "externalUrl": scope.links.logged_model(model.experiment_id, model.model_id),
        "type": truncator.optional(model.model_type, "type"),
        "hyperParams": hyper_params(model.params, custom),
        "trainingMetrics": model_metrics(model, custom),
        "tags": shown_tags(model.tags, scope.limits),
        "groups": [scope.experiment_group(record.experiment).urn],
    }
    return truncate_aspect(result, truncator)
