"""Maps experiments and registered models to mlModelGroups, and each version to an mlModel."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from mlcat_ingest.core.text import compact_json, whole_characters
from mlcat_ingest.errors import InvalidUrnError, RecordError
from mlcat_ingest.metadata.aliases import encode
from mlcat_ingest.metadata.aspects import (
    GLOBAL_TAGS,
    ML_MODEL_GROUP_PROPERTIES,
    ML_MODEL_PROPERTIES,
    OWNERSHIP,
    VERSION_PROPERTIES,
)
from mlcat_ingest.metadata.naming import datahub_guid
from mlcat_ingest.metadata.proposal import Entity, Note
from mlcat_ingest.metadata.reserved import ALIAS_LOG
from mlcat_ingest.metadata.urn import build
from mlcat_ingest.sources.mlflow.mapping.evidence import version_evidence, with_evidence
from mlcat_ingest.sources.mlflow.mapping.logged_models import add_model_facts, tags_with_model
from mlcat_ingest.sources.mlflow.mapping.metrics import (
    Entry,
    hyper_params,
    model_metrics,
    training_metrics,
)
from mlcat_ingest.sources.mlflow.mapping.process import experiment_containers, training_jobs
from mlcat_ingest.sources.mlflow.mapping.properties import (
    NO_TAGS,
    PropertiesBuilder,
    browse_path,
    common_properties,
    first_aspects,
    shown_tags,
    tag_entity,
    user_of,
)
from mlcat_ingest.sources.mlflow.mapping.signature import add_card, add_documents
from mlcat_ingest.sources.mlflow.mapping.text import Truncator, truncate_aspect
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedExperiment,
    JoinedRegisteredModel,
    JoinedVersion,
    WorkspaceScope,
)
from mlcat_ingest.sources.mlflow.values.records import (
    NOTE_TAG,
    OWNER_TAGS,
    ModelVersion,
    PropertyKey,
    SubType,
    aliases_of,
    number_of,
)
from mlcat_ingest.sources.mlflow.values.signatures import model_behind

_SORT_DIGITS: Final = 10
_NO_STAGE: Final = frozenset({"", "none"})

_MAPPED_TAGS: Final = frozenset({NOTE_TAG})
_NO_MAPPED_TAGS: Final[frozenset[str]] = frozenset()


def names_of(versions: Iterable[ModelVersion]) -> list[str]:
    """Return `<name>:<version>` of each version, by name and then by number."""
    ordered = sorted(versions, key=lambda version: (version.name, number_of(version.version)))
    return [f"{version.name}:{version.version}" for version in ordered]


def _version_set_urn(scope: WorkspaceScope, name: str) -> str:
    """Return the URN of the set of all versions of a registered model.

    Source: `_get_version_set_urn` of DataHub's own mlflow source, where its entities are shared.
    """
    naming = scope.naming
    if naming.joins_datahub:
        guid = datahub_guid(name=name, platform=naming.platform)
        return build("versionSet", guid, "mlModel")
    group = scope.registered_group(name).urn
    return build("versionSet", hashlib.sha256(group.encode()).hexdigest()[:32], "mlModel")


def map_version(record: JoinedVersion) -> list[Entity]:
    """Return the model of a version, and the tags it refers to.

    Parameters and metrics are those of its logged model, else of its run; where neither is known
    they are left out. Only some registries know who made a version; elsewhere it is its run's user.

    Raises:
        RecordError: the version has no name or number.
    """
    scope, version = record.scope, record.version
    if not version.name or not version.version:
        raise RecordError("a version without name or number", record_ref=f"version {version.name}")
    truncator = Truncator(scope.limits)
    name = scope.naming.version(whole_characters(version.name), whole_characters(version.version))
    path = browse_path(scope, version.name)
    aspects = first_aspects(scope, SubType.MODEL_VERSION, removed=False, path=path)
    run_id = _run_id(record)
    user = scope.owners.urn(version.user_id)
    if user is None and record.run is not None:
        user = user_of(scope, record.run.run)
    aspects[OWNERSHIP] = scope.owners.ownership(user)
    tags = version_tags(scope, version.stage, aliases_of(version, record.registered), truncator)
    aspects[GLOBAL_TAGS] = {"tags": [{"tag": entity.urn} for entity in tags]}
    version_properties = _version_properties(record, truncator, user)
    aspects[VERSION_PROPERTIES] = version_properties
    custom = common_properties(scope, name, truncator)
    _add_facts(custom, record, run_id)
    models = tuple(filter(None, (model_behind(record),)))
    add_documents(custom, models)
    add_card(aspects, record.files, models, truncator)
    model = record.model
    custom.add_tags(
        version.tags if model is None else tags_with_model(version.tags, model, _NO_MAPPED_TAGS)
    )
    properties = _properties(record, custom, user)
    _set_training(properties, record, custom)
    adds_only = {ML_MODEL_PROPERTIES} if record.files.unread else set[str]()
    if user is None and record.run is None and run_id is not None:
        # The run that knows the user was not read.
        adds_only.add(OWNERSHIP)
        (properties["created"] or {}).pop("actor", None)
        del version_properties["sourceCreatedTimestamp"]
    aspects[ML_MODEL_PROPERTIES] = truncate_aspect(properties, truncator)
    notes = tuple(truncator.notes)
    entity = Entity(name.urn, aspects, notes=notes, adds_only=frozenset(adds_only))
    return [*tags, with_evidence(entity, version_evidence(record), scope)]


def version_tags(
    scope: WorkspaceScope, stage: str | None, aliases: Iterable[str], truncator: Truncator
) -> list[Entity]:
    """Return the tags of a version's stage and, if asked for, of its aliases, each once."""
    names = {}
    if stage and stage.lower() not in _NO_STAGE:
        described = f"Stage {stage} of a version in MLflow's model registry"
        names[f"mlflow_{stage.lower()}"] = described
    for alias in aliases if scope.options.alias_tags else ():
        names.setdefault(f"mlflow_alias_{alias}", f"Alias {alias} in MLflow's model registry")
    tags: dict[str, Entity] = {}
    for name, description in names.items():
        fit = truncator.name(name, "tag name")
        try:
            entity = tag_entity(fit, whole_characters(description))
        except InvalidUrnError:
            truncator.note("tag_left_out", fit)
        else:
            tags.setdefault(entity.urn, entity)
    return list(tags.values())


def _version_properties(
    record: JoinedVersion, truncator: Truncator, actor: str | None
) -> dict[str, Any]:
    """Return the `versionProperties` aspect.

    Source: `VersionProperties`; which version is the latest (`isLatest`, the version set's own
    properties) is computed by the service.
    """
    scope, version = record.scope, record.version
    number = truncator.text(version.version, "version")
    created = truncator.time_stamp(version.created_at_ms, "version's creation", actor)
    return {
        "versionSet": _version_set_urn(scope, version.name),
        "version": {"versionTag": number},
        "sortId": number.zfill(_SORT_DIGITS),
        "versioningScheme": "LEXICOGRAPHIC_STRING",
        "aliases": [
            {"versionTag": truncator.text(alias, "alias")}
            for alias in aliases_of(version, record.registered)
        ],
        "comment": truncator.description(version.description, "comment"),
        # The service wants to know by whom, too.
        "sourceCreatedTimestamp": None if actor is None else created,
    }


def _add_facts(custom: PropertiesBuilder, record: JoinedVersion, run_id: str | None) -> None:
    version = record.version
    facts = {
        PropertyKey.REGISTERED_MODEL: version.name,
        PropertyKey.VERSION: version.version,
        PropertyKey.RUN_ID: run_id,
        PropertyKey.RUN_MODEL: run_model(record.scope, run_id),
        # The name in the source of a copy may be that of another version now.
        PropertyKey.SOURCE: None if version.copied_name else version.source,
        PropertyKey.COPIED_FROM: names_of([version.origin])[0] if version.origin else None,
        PropertyKey.MODEL_ID: version.model_id,
        PropertyKey.VERSION_STATUS: version.status,
    }
    for key, value in facts.items():
        custom.set_own(key, value)
    if record.model is not None:
        add_model_facts(custom, record.model)
    aliases = aliases_of(version, record.registered)
    if aliases:
        named = compact_json([f"{version.name}@{alias}" for alias in aliases])
        custom.set_own(PropertyKey.ALIASES, named)


def _run_id(record: JoinedVersion) -> str | None:
    if record.version.run_id:
        return record.version.run_id
    if record.run is not None:
        return record.run.run_id
    return None if record.model is None else record.model.source_run_id


def run_model(scope: WorkspaceScope, run_id: str | None) -> str | None:
    """Return the URN of the model of a run, whether or not the run can be read."""
    try:
        return scope.naming.model(run_id).urn if run_id else None
    except InvalidUrnError:
        return None


def _properties(
    record: JoinedVersion, custom: PropertiesBuilder, user: str | None
) -> dict[str, Any]:
    scope, version, truncator = record.scope, record.version, custom.truncator
    result: dict[str, Any] = {
        "customProperties": custom.values,
        "name": truncator.text(f"{version.name}_{version.version}", "name"),
        "version": {"versionTag": truncator.text(version.version, "version")},
        "groups": [scope.registered_group(version.name).urn],
    }
    description = version.description or (
        record.registered.description if record.registered else None
    )
    result["description"] = truncator.description(description)
    result |= truncator.times(version.created_at_ms, version.last_updated_at_ms, user)
    result["externalUrl"] = scope.links.version(version.name, version.version)
    result["tags"] = shown_tags(version.tags)
    return result


def _set_training(result: dict[str, Any], record: JoinedVersion, custom: PropertiesBuilder) -> None:
    """Put the parameters and metrics of the logged model; of the run where that one has none."""
    model, run = record.model, record.run
    if model is not None:
        result["type"] = custom.truncator.optional(model.model_type, "type")
    if not record.scope.options.process_instances:
        result["trainingJobs"] = None  # or those of a recipe that had the option would stay
    elif run is not None:
        result["trainingJobs"] = training_jobs(run, custom.truncator)
    if model is not None and (model.params or run is None):
        result["hyperParams"] = hyper_params(model.params, custom)
    elif run is not None:
        result["hyperParams"] = hyper_params(run.run.params, custom)
    metrics = _metrics(record, custom)
    if metrics is not None:
        result["trainingMetrics"] = metrics


def _metrics(record: JoinedVersion, custom: PropertiesBuilder) -> Sequence[Entry] | None:
    """Return the metrics of a version, None where neither its logged model nor its run is known.

    Those of a run that made several models are not those of one of them.
    """
    model, run = record.model, record.run
    if model is not None and (model.metrics or run is None or run.made_several):
        return model_metrics(model, custom, None if run is None else run.run)
    if run is not None and not run.made_several:
        return training_metrics(run, custom)
    version = record.version
    if run is not None or (version.copied_name and not version.run_id):
        source = custom.truncator.clean(version.source or "no source", "source of a version")
        detail = f"version {version.version} of {version.name}, made from {source}"
        custom.truncator.note("model_of_version_unknown", detail)
    return None if run is None else []


def map_experiment(record: JoinedExperiment) -> list[Entity]:
    """Return the group that an experiment is, bare where another experiment is that group.

    Raises:
        RecordError: the experiment has neither name nor id.
    """
    scope, experiment = record.scope, record.experiment
    if not (experiment.name or experiment.experiment_id):
        raise RecordError("an experiment without name and id", record_ref="experiment")
    truncator = Truncator(scope.limits)
    name = scope.experiment_group(experiment)
    if record.namesake is not None:
        detail = f"experiments {record.namesake} and {experiment.experiment_id} have this name"
        return [Entity(name.urn, {}, notes=(Note("experiments_of_one_name", detail),))]
    removed = experiment.lifecycle_stage == "deleted"
    aspects = first_aspects(scope, SubType.EXPERIMENT, removed=removed, path=browse_path(scope))
    named = (scope.owners.urn(experiment.tags.get(tag)) for tag in OWNER_TAGS)
    owner = next(filter(None, named), None)
    aspects[OWNERSHIP] = scope.owners.ownership(owner)
    aspects[GLOBAL_TAGS] = NO_TAGS
    custom = common_properties(scope, name, truncator)
    stage = None if experiment.lifecycle_stage == "active" else experiment.lifecycle_stage
    custom.set_own(PropertyKey.EXPERIMENT_ID, experiment.experiment_id)
    custom.set_own(PropertyKey.ARTIFACT_LOCATION, experiment.artifact_location)
    custom.set_own(PropertyKey.LIFECYCLE_STAGE, stage)
    custom.add_tags(experiment.tags, without=_MAPPED_TAGS)
    times_ms = experiment.created_at_ms, experiment.last_updated_at_ms
    properties = {
        "customProperties": custom.values,
        "name": truncator.text(experiment.name or experiment.experiment_id, "name"),
        "description": truncator.description(experiment.tags.get(NOTE_TAG)),
        **truncator.times(*times_ms, owner, date="createdAt"),
        "externalUrl": scope.links.experiment(experiment.experiment_id),
    }
    aspects[ML_MODEL_GROUP_PROPERTIES] = truncate_aspect(properties, truncator)
    group = Entity(name.urn, aspects, notes=tuple(truncator.notes))
    return [*experiment_containers(scope, experiment), group]


def map_registered_model(record: JoinedRegisteredModel) -> list[Entity]:
    """Return the group that a registered model is.

    Its version is the newest by number, whatever its stage. The set of its versions is the
    service's own: the write of a version makes it.

    Raises:
        RecordError: the registered model has no name.
    """
    scope, model = record.scope, record.model
    if not model.name:
        raise RecordError("a registered model without a name", record_ref="registered model")
    truncator = Truncator(scope.limits)
    name = scope.registered_group(model.name)
    custom = common_properties(scope, name, truncator)
    custom.set_own(PropertyKey.REGISTERED_MODEL, model.name)
    if model.aliases:
        custom.set_own(PropertyKey.ALIASES, compact_json(dict(sorted(model.aliases.items()))))
    if record.sightings:
        custom.values[ALIAS_LOG] = encode(record.sightings)
    newest = max(record.versions, key=number_of, default=None)
    if newest is not None:
        newest = truncator.text(newest, "version")
        custom.set_own(PropertyKey.LATEST_VERSION, newest)
    custom.add_tags(model.tags)
    properties = {
        "customProperties": custom.values,
        "name": truncator.text(model.name, "name"),
        "description": truncator.description(model.description),
        **truncator.times(model.created_at_ms, model.last_updated_at_ms, date="createdAt"),
        "version": None if newest is None else {"versionTag": newest},
        "externalUrl": scope.links.registered_model(model.name),
    }
    path = browse_path(scope)
    aspects = first_aspects(scope, SubType.REGISTERED_MODEL, removed=False, path=path)
    # MLflow has no owners and no catalog tags of it, so those of deleted rules are removed.
    aspects[OWNERSHIP] = scope.owners.ownership(None)
    aspects[GLOBAL_TAGS] = NO_TAGS
    aspects[ML_MODEL_GROUP_PROPERTIES] = truncate_aspect(properties, truncator)
    return [Entity(name.urn, aspects, notes=tuple(truncator.notes))]
