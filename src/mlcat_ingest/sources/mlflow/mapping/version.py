"""What the versions registered from a run add to its model: groups, tags, version, aliases."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.proposal import Aspect, Entity, Note
from mlcat_ingest.metadata.urn import build, tag
from mlcat_ingest.sources.mlflow.mapping.aspects import (
    tag_entity,
    time_stamp,
)
from mlcat_ingest.sources.mlflow.mapping.limits import Limits
from mlcat_ingest.sources.mlflow.mapping.properties import put, put_tags
from mlcat_ingest.sources.mlflow.mapping.records import JoinedRun, Scope
from mlcat_ingest.sources.mlflow.mapping.text import (
    compact_json,
    fit,
    fit_or_none,
    whole_characters,
)
from mlcat_ingest.sources.mlflow.records import ModelVersion, RegisteredModel

_SORT_DIGITS: Final = 10
_NO_STAGE: Final = frozenset({"", "none"})


@dataclass(frozen=True, slots=True)
class VersionFacts:
    """What the versions registered from one run add to its model."""

    versions: tuple[ModelVersion, ...]
    groups: list[str]
    tags: list[dict[str, str]]
    tag_entities: list[Entity]
    version_properties: Aspect
    properties: dict[str, str]
    description: str | None

    def put_tags(
        self, properties: dict[str, str], limits: Limits, notes: list[Note], *, described: bool
    ) -> None:
        """Add the versions' tags, and their descriptions where they are not `described` yet."""
        alone = len(self.versions) == 1
        for version in self.versions:
            prefix = "version." if alone else f"version.{version.name}:{version.version}."
            put_version_tags(properties, version, prefix, limits, notes)
            if version.description and not (alone or described):
                value = fit(version.description, limits.value_chars, notes, "version description")
                put(properties, f"{prefix}description", value, "version.")


NO_VERSION: Final[Aspect] = {
    "versionSet": None,
    "version": None,
    "sortId": None,
    "versioningScheme": None,
    "aliases": [],
    "comment": None,
    "sourceCreatedTimestamp": None,
}
"""The `versionProperties` of a model behind no version, or behind several: none is the one."""

NO_VERSIONS: Final = VersionFacts((), [], [], [], NO_VERSION, {}, None)
"""What a run adds that nothing was registered from."""


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


def version_set_urn(scope: Scope, name: str) -> str:
    """Return the URN of the set of all versions of a registered model.

    Source: `_get_version_set_urn` of DataHub's own mlflow source, where its entities are shared.
    """
    if scope.options.version_models and scope.naming.workspace is None:
        facts = json.dumps({"name": name, "platform": scope.naming.platform}, separators=(",", ":"))
        guid = hashlib.md5(facts.encode(), usedforsecurity=False).hexdigest()
        return build("versionSet", guid, "mlModel")
    group = scope.registered_group(name).urn
    return build("versionSet", hashlib.sha256(group.encode()).hexdigest()[:32], "mlModel")


def version_facts(record: JoinedRun, notes: list[Note]) -> VersionFacts:
    """Return what every version registered from a run, not just one, adds to its model.

    Raises:
        InvalidUrnError: a registered model without a name.
    """
    scope = record.scope
    versions = tuple(sorted(record.versions, key=lambda v: (v.name, number_of(v.version))))
    if scope.options.version_models:
        # Groups, tags and the like stand on the versions' own models; the run's only names them.
        return replace(NO_VERSIONS, properties={"mlflow.versions": _named(versions, scope, notes)})
    tags = TagCollector(scope, notes)
    aliases: list[str] = []
    for version in versions:
        found = aliases_of(version, record.registered.get(version.name))
        aliases.extend(f"{version.name}@{alias}" for alias in found)
        tags.add(version.stage, found)
    limit = scope.limits.value_chars
    properties = {"mlflow.versions": _named(versions, scope, notes)}
    if aliases:
        properties["mlflow.aliases"] = fit(compact_json(aliases), limit, notes, "aliases")
    unready = {
        f"{v.name}:{v.version}": v.status for v in versions if v.status not in {None, "READY"}
    }
    if unready:
        properties["mlflow.version_status"] = fit(compact_json(unready), limit, notes, "status")
    groups = dict.fromkeys(scope.registered_group(version.name).urn for version in versions)
    alone = versions[0] if len(versions) == 1 else None
    return VersionFacts(
        versions=versions,
        groups=list(groups),
        tags=tags.associations,
        tag_entities=tags.entities,
        version_properties=NO_VERSION
        if alone is None
        else version_properties(scope, alone, record.registered.get(alone.name), notes),
        properties=properties,
        description=_description(versions, record.registered),
    )


def _named(versions: tuple[ModelVersion, ...], scope: Scope, notes: list[Note]) -> str:
    named = compact_json([f"{version.name}:{version.version}" for version in versions])
    return fit(named, scope.limits.value_chars, notes, "versions")


def _description(
    versions: tuple[ModelVersion, ...], registered: Mapping[str, RegisteredModel]
) -> str | None:
    """Return the versions' descriptions, each under a heading, for a run without a note."""
    parts = []
    for version in versions:
        model = registered.get(version.name)
        if version.description:
            parts.append(f"## {version.name} version {version.version}\n\n{version.description}")
        elif model is not None and model.description:
            part = f"## {version.name}\n\n{model.description}"
            if part not in parts:
                parts.append(part)
    return "\n\n".join(parts) or None


class TagCollector:
    """Collects the tags of stages and, if asked for, of aliases."""

    def __init__(self, scope: Scope, notes: list[Note]) -> None:
        """Start with no tags."""
        self.associations: list[dict[str, str]] = []
        self.entities: list[Entity] = []
        self._scope = scope
        self._notes = notes

    def add(self, stage: str | None, aliases: list[str]) -> None:
        """Add the tags of one version."""
        if stage and stage.lower() not in _NO_STAGE:
            name = f"mlflow_{stage.lower()}"
            self._add(name, f"Stage {stage} of a version in MLflow's model registry")
        if self._scope.options.alias_tags:
            for alias in aliases:
                self._add(f"mlflow_alias_{alias}", f"Alias {alias} in MLflow's model registry")

    def _add(self, name: str, description: str) -> None:
        name = fit(name, self._scope.limits.name_chars, self._notes, "tag name")
        try:
            urn = tag(name)
        except InvalidUrnError:
            self._notes.append(Note("tag_left_out", name))
            return
        if all(association["tag"] != urn for association in self.associations):
            self.associations.append({"tag": urn})
            self.entities.append(tag_entity(name, whole_characters(description)))


def version_properties(
    scope: Scope, version: ModelVersion, registered: RegisteredModel | None, notes: list[Note]
) -> Aspect:
    """Return the `versionProperties` aspect of the model behind one version.

    Source: `VersionProperties`; which version is the latest (`isLatest`, the version set's own
    properties) is kept by the service itself.
    """
    limit = scope.limits.value_chars
    number = fit(version.version, limit, notes, "version")
    actor = scope.owners.urn(version.user_id)
    created = time_stamp(version.created_at_ms, notes, "version's creation", actor)
    return {
        "versionSet": version_set_urn(scope, version.name),
        "version": {"versionTag": number},
        "sortId": number.zfill(_SORT_DIGITS),
        "versioningScheme": "LEXICOGRAPHIC_STRING",
        "aliases": [
            {"versionTag": fit(alias, limit, notes, "alias")}
            for alias in aliases_of(version, registered)
        ],
        "comment": fit_or_none(
            version.description, scope.limits.description_chars, notes, "comment"
        ),
        # The service wants to know by whom, too.
        "sourceCreatedTimestamp": None if actor is None else created,
    }


def put_version_tags(
    properties: dict[str, str],
    version: ModelVersion,
    prefix: str,
    limits: Limits,
    notes: list[Note],
) -> None:
    """Add a version's tags as custom properties `<prefix><key>`."""
    own: dict[str, str] = {}
    put_tags(own, {f"{prefix}{key}": value for key, value in version.tags.items()}, limits, notes)
    for key, value in own.items():
        put(properties, key, value, "version.")
