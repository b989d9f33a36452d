"""A version of a registered model that has no readable run is a model of its own.

With `compat: datahub` each version is one, as DataHub's own source has it.
"""

from typing import Any

from mlcat_ingest.errors import RecordError
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.sources.mlflow.mapping.aspects import (
    common_properties,
    display_name,
    first_aspects,
    time_stamp,
)
from mlcat_ingest.sources.mlflow.mapping.evidence import version_evidence, with_evidence
from mlcat_ingest.sources.mlflow.mapping.limits import sized
from mlcat_ingest.sources.mlflow.mapping.metrics import model_metrics, training_metrics
from mlcat_ingest.sources.mlflow.mapping.params import hyper_params
from mlcat_ingest.sources.mlflow.mapping.records import JoinedRun, JoinedVersion
from mlcat_ingest.sources.mlflow.mapping.text import (
    compact_json,
    fit,
    fit_or_none,
    whole_characters,
)
from mlcat_ingest.sources.mlflow.mapping.version import (
    TagCollector,
    aliases_of,
    number_of,
    put_version_tags,
    version_properties,
)


def map_versions_beside(record: JoinedRun) -> list[Entity]:
    """Return the models of a run's versions where they stand beside the run's own, else nothing.

    Raises:
        RecordError: a version has no name or number.
    """
    scope = record.scope
    if not scope.options.version_models:
        return []
    joined = (
        JoinedVersion(scope, version, record.registered.get(version.name), run=record)
        for version in sorted(record.versions, key=lambda v: (v.name, number_of(v.version)))
    )
    return [entity for one in joined for entity in map_version(one)]


def map_version(record: JoinedVersion) -> list[Entity]:
    """Return the model that a version without a readable run is, and the tags it refers to.

    Parameters and metrics are left out unless its run, or the logged model behind it, is known.

    Raises:
        RecordError: the version has no name or number.
    """
    scope, version = record.scope, record.version
    if not version.name or not version.version:
        raise RecordError("a version without name or number", record_ref=f"version {version.name}")
    notes: list[Note] = []
    name = scope.naming.version(whole_characters(version.name), whole_characters(version.version))
    aspects = first_aspects(scope, removed=False)
    user = scope.owners.urn(version.user_id)
    aspects["ownership"] = scope.owners.ownership(user)
    tags = TagCollector(scope, notes)
    tags.add(version.stage, aliases_of(version, record.registered))
    aspects["globalTags"] = {"tags": tags.associations}
    aspects["versionProperties"] = version_properties(scope, version, record.registered, notes)
    custom = common_properties(scope, name, notes)
    _put_facts(custom, record, notes)
    put_version_tags(custom, version, "version.", scope.limits, notes)
    aspects["mlModelProperties"] = _version_model(record, custom, user, notes)
    model = Entity(name.urn, aspects, notes=tuple(notes))
    return [*tags.entities, with_evidence(model, version_evidence(record), scope)]


def _put_facts(custom: dict[str, str], record: JoinedVersion, notes: list[Note]) -> None:
    version = record.version
    facts = {
        "mlflow.registered_model": version.name,
        "mlflow.version": version.version,
        "mlflow.run_id": version.run_id or (record.run.run.run_id if record.run else None),
        "mlflow.run_model": None if record.run is None else _run_model(record.run),
        "mlflow.source": version.source,
        "mlflow.model_id": version.model_id,
        "mlflow.version_status": version.status,
    }
    for key, value in facts.items():
        if value:
            custom[key] = fit(value, record.scope.limits.value_chars, notes, key)
    aliases = aliases_of(version, record.registered)
    if aliases:
        named = compact_json([f"{version.name}@{alias}" for alias in aliases])
        custom["mlflow.aliases"] = fit(named, record.scope.limits.value_chars, notes, "aliases")


def _run_model(record: JoinedRun) -> str:
    """Return the URN of the model that the version's run is."""
    return record.scope.naming.model(record.run.run_id).urn


def _version_model(
    record: JoinedVersion, custom: dict[str, str], user: str | None, notes: list[Note]
) -> Aspect:
    scope, version, limits = record.scope, record.version, record.scope.limits
    result: dict[str, Any] = {
        "customProperties": custom,
        "name": display_name(scope, f"{version.name}_{version.version}", notes),
        "version": {"versionTag": fit(version.version, limits.value_chars, notes, "version")},
        "groups": [scope.registered_group(version.name).urn],
    }
    description = version.description or (
        record.registered.description if record.registered else None
    )
    result["description"] = fit_or_none(description, limits.description_chars, notes, "description")
    created = time_stamp(version.created_at_ms, notes, "creation time", user)
    result["date"] = None if created is None else created["time"]
    result["created"] = created
    updated = version.last_updated_at_ms
    result["lastModified"] = time_stamp(
        version.created_at_ms if updated is None else updated, notes, "last update"
    )
    result["externalUrl"] = scope.links.version(version.name, version.version)
    if record.run is not None:
        run, models = record.run.run, record.run.models
        result["hyperParams"] = hyper_params(run.params, custom, limits, notes)
        result["trainingMetrics"] = training_metrics(
            run, models, custom, limits, notes, system_metrics=scope.options.system_metrics
        )
    elif record.model is not None:
        result["hyperParams"] = hyper_params(record.model.params, custom, limits, notes)
        result["trainingMetrics"] = model_metrics(record.model, custom, limits, notes)
        result["type"] = fit_or_none(record.model.model_type, limits.value_chars, notes, "type")
    return sized(result, limits, notes)
