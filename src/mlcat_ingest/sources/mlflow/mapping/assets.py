"""Maps MCP servers to services, tools to APIs, prompts to documents, skills and agents to such."""

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from mlcat_ingest.core.redaction import MASK, redact_secrets
from mlcat_ingest.core.text import compact_json, plural, whole_characters
from mlcat_ingest.errors import RecordError
from mlcat_ingest.metadata.aspects import (
    AGENT_SKILL_INFO,
    AI_AGENT_DEPENDENCIES,
    AI_AGENT_INFO,
    API_PROPERTIES,
    BROWSE_PATHS_V2,
    DATA_PLATFORM_INSTANCE,
    DOCUMENT_INFO,
    GLOBAL_TAGS,
    MCP_SERVER_PROPERTIES,
    OWNERSHIP,
    SERVICE_DEFINITION,
    SERVICE_PROPERTIES,
    STATUS,
    SUB_TYPES,
)
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.urn import build
from mlcat_ingest.sources.mlflow.mapping import properties
from mlcat_ingest.sources.mlflow.mapping.groups import version_tags
from mlcat_ingest.sources.mlflow.mapping.text import Truncator, truncate_aspect
from mlcat_ingest.sources.mlflow.values.assets import AGENT, MCP_SERVER, SKILL, Asset
from mlcat_ingest.sources.mlflow.values.joined import JoinedAgent, JoinedAsset, WorkspaceScope
from mlcat_ingest.sources.mlflow.values.records import (
    NOTE_TAG,
    USER_TAG,
    LoggedModel,
    PropertyKey,
    SubType,
)

_LIFECYCLES: Final = {"draft": "EXPERIMENTAL", "active": "PRODUCTION", "deprecated": "DEPRECATED"}
_TRANSPORTS: Final = {"sse": "SSE", "websocket": "WEBSOCKET"}
_UNKNOWN: Final = build("corpuser", "unknown")
_PLAIN_BYTES: Final = 64 * 1024
"""A longer definition is compressed."""
_EARLIER: Final = 100
"""Most earlier versions of a prompt whose texts its document has."""
_USERS: Final = 10_000
"""Most models that a document names, about 1 MB."""
_SKILL_TAGS: Final = 20
_TEXT_CHARS: Final = 500_000


def map_asset(record: JoinedAsset) -> list[Entity]:
    """Return the entities of an asset: tags, the tools of an MCP server, and the asset.

    Raises:
        RecordError: the asset has no name.
    """
    asset, scope, truncator = record.asset, record.scope, Truncator(record.scope.limits)
    if not asset.name:
        raise RecordError(f"{asset.kind} without a name", record_ref=asset.kind)
    tags = version_tags(scope, None, sorted(asset.aliases), truncator)
    tools: list[Entity] = []
    if asset.kind == MCP_SERVER:
        tools = list(_tools(scope, asset))
        kind, aspects = SubType.MCP_SERVER, _service(record, tools, truncator)
    elif asset.kind == SKILL:
        kind, aspects = None, {AGENT_SKILL_INFO: _skill(record, truncator)}
        tags += _skill_tags(asset, truncator)
    else:
        kind, aspects = SubType.PROMPT, {DOCUMENT_INFO: _document(record, truncator)}
        if (path := properties.browse_path(scope)) is not None:
            aspects[BROWSE_PATHS_V2] = path
    tagged: Aspect = {GLOBAL_TAGS: {"tags": [{"tag": tag.urn} for tag in tags]}}
    urn = scope.asset(asset.kind, asset.name).urn
    every = {**_first_aspects(scope, asset.user_id, kind), **tagged, **aspects}
    return [*tags, *tools, Entity(urn, every, notes=tuple(truncator.notes))]


def map_agent(record: JoinedAgent) -> list[Entity]:
    """Return the agent that an external model is, beside the model itself.

    Raises:
        InvalidUrnError: the id cannot be part of a URN.
    """
    model, scope, truncator = record.model, record.scope, Truncator(record.scope.limits)
    for uri in record.unknown:
        truncator.note("agent_uses_unknown", uri)
    user = model.tags.get(USER_TAG)
    removed = record.experiment.lifecycle_stage == "deleted"
    aspects = {
        **_first_aspects(scope, user, None),
        STATUS: properties.REMOVED if removed else properties.ACTIVE,
        AI_AGENT_DEPENDENCIES: {field: list(urns) for field, urns in record.uses.items()},
        AI_AGENT_INFO: {
            "name": truncator.text(model.name or model.model_id, "name"),
            "description": truncator.description(model.tags.get(NOTE_TAG)),
            "source": {"type": "EXTERNAL"},
            **_stamps(scope, model, user, user),
        },
    }
    return [Entity(scope.asset(AGENT, model.model_id).urn, aspects, notes=tuple(truncator.notes))]


def _first_aspects(
    scope: WorkspaceScope, user: str | None, kind: SubType | None
) -> dict[str, Aspect]:
    platform = {"platform": scope.naming.platform_urn}
    aspects: dict[str, Aspect] = {
        STATUS: properties.ACTIVE,
        # The URNs do not name the platform.
        DATA_PLATFORM_INSTANCE: scope.platform_instance() or platform,
        OWNERSHIP: scope.owners.ownership(scope.owners.urn(user)),
    }
    return {**aspects, SUB_TYPES: {"typeNames": [kind.value]}} if kind else aspects


def _tools(scope: WorkspaceScope, asset: Asset) -> Iterator[Entity]:
    for tool in {tool.name: tool for tool in asset.newest.tools if tool.name}.values():
        truncator = Truncator(scope.limits)
        described = truncator.description(tool.description or tool.title)
        named = {"name": truncator.text(tool.name, "name"), "description": described}
        first = _first_aspects(scope, asset.user_id, SubType.MCP_TOOL)
        urn = scope.asset(asset.kind, asset.name, tool.name).urn
        yield Entity(urn, {**first, API_PROPERTIES: named}, notes=tuple(truncator.notes))


def _service(
    record: JoinedAsset, tools: Iterable[Entity], truncator: Truncator
) -> dict[str, Aspect]:
    asset = record.asset
    found = redact_secrets(json.loads(asset.newest.content or "null"))
    definition: Mapping[str, Any] = found if isinstance(found, dict) else {}
    custom = _custom(record, PropertyKey.MCP_SERVER, truncator)
    repository, title = definition.get("repository"), definition.get("title")
    if isinstance(repository, dict):
        custom.set_own(PropertyKey.REPOSITORY, str(repository.get("url") or ""))
    if len(asset.endpoints) > 1:
        custom.set_own(PropertyKey.ENDPOINTS, compact_json([one.url for one in asset.endpoints]))
    if others := {one.version: one.status for one in asset.versions[-2::-1]}:
        custom.set_own(PropertyKey.OTHER_VERSIONS, compact_json(others))
    _add_tags(custom, asset)
    named = asset.title or (title if isinstance(title, str) else None) or asset.name
    service = {
        "customProperties": custom.values,
        "displayName": truncator.text(named, "name"),
        "description": truncator.description(asset.description),
        "lifecycle": _LIFECYCLES.get(asset.newest.status or ""),
        "apis": [tool.urn for tool in tools],
    }
    return {
        MCP_SERVER_PROPERTIES: _connection(asset, definition),
        SERVICE_DEFINITION: _definition(asset, definition, truncator),
        SERVICE_PROPERTIES: truncate_aspect(service, truncator),
    }


def _definition(asset: Asset, definition: Mapping[str, Any], truncator: Truncator) -> Aspect:
    """Return the server.json, empty where there is none, or none that fits into one proposal."""
    if not definition:
        return dict.fromkeys(("format", "rawSpec", "version"))
    text = compact_json(definition)
    data = text.encode("utf-8", "replace")
    spec = {"blob": text, "compression": "NONE", "uncompressedSize": len(data)}
    if len(data) > _PLAIN_BYTES:
        packed = base64.b64encode(gzip.compress(data, mtime=0)).decode()
        if len(packed) > truncator.limits.aspect_bytes:
            truncator.note("truncated", f"server.json of {plural(len(data), 'byte')} is left out")
            return dict.fromkeys(("format", "rawSpec", "version"))
        spec |= {"blob": packed, "compression": "GZIP"}
    return {"format": "OTHER", "rawSpec": spec, "version": asset.newest.version}


def _connection(asset: Asset, definition: Mapping[str, Any]) -> Aspect:
    """Return where the server answers: an endpoint of MLflow, else the first of its server.json.

    Of headers, only those with a fixed value that is no secret.
    """
    remotes = [one for one in definition.get("remotes") or () if isinstance(one, dict)]
    known: list[tuple[str, Any]] = [(one.url, one.transport) for one in asset.endpoints]
    known += [(one["url"], one.get("type")) for one in remotes if isinstance(one.get("url"), str)]
    url, transport = known[0] if known else (None, None)
    headers = {
        str(header.get("name")): value
        for remote in remotes
        if url and remote.get("url") == url
        if isinstance(listed := remote.get("headers"), list)
        for header in listed
        if isinstance(header, dict) and isinstance(value := header.get("value"), str)
        if MASK not in value and "{" not in value
    }
    shown = _TRANSPORTS.get(str(transport), "HTTP") if url else None
    return {"url": url, "transport": shown, "customHeaders": headers}


def _skill(record: JoinedAsset, truncator: Truncator) -> Aspect:
    asset, newest = record.asset, record.asset.newest
    source = None
    if newest.source:
        at = f"{newest.source}@{newest.ref}" if newest.ref else newest.source
        path = {"path": newest.path} if newest.path else {}
        source = {"url": truncator.text(at, "source"), **path}
    return {
        "name": truncator.text(asset.name, "name"),
        "description": truncator.description(asset.description),
        "sourceRepository": source,
        **_stamps(record.scope, asset, asset.user_id, asset.user_id),
    }


def _skill_tags(asset: Asset, truncator: Truncator) -> Iterator[Entity]:
    """Yield tags for those of MLflow, since a skill has no custom properties."""
    tags = [*sorted(asset.tags.items()), *sorted(asset.version_tags.items())]
    if (left_out := len(tags) - _SKILL_TAGS) > 0:
        truncator.note("truncated", f"{left_out} of {len(tags)} tags left out")
    for key, value in tags[:_SKILL_TAGS]:
        name = truncator.name(f"{key}:{value}" if value else key, "tag name")
        described = f"Tag {whole_characters(key)} of a skill in MLflow"
        yield properties.tag_entity(name, described)


def _document(record: JoinedAsset, truncator: Truncator) -> Aspect:
    asset, newest = record.asset, record.asset.newest
    custom = _custom(record, PropertyKey.PROMPT, truncator)
    custom.set_own(PropertyKey.DESCRIPTION, asset.description)
    custom.set_own(PropertyKey.COMMIT_MESSAGE, newest.description)
    for version in custom.limit_entries("versions", asset.versions[-2::-1], _EARLIER):
        key = truncator.name(f"{PropertyKey.PROMPT.value}.{version.version}", "version")
        custom.add(key, truncator.text(version.content or "", key), "tag.")
    users = custom.limit_entries("related models", record.related, _USERS)
    _add_tags(custom, asset)
    source, link = {"sourceType": "EXTERNAL"}, record.scope.links.prompt(asset.name)
    info = {
        "customProperties": custom.values,
        "title": (title := truncator.text(asset.name, "name")),
        "source": {**source, "externalId": title, **({"externalUrl": link} if link else {})},
        "status": {"state": "PUBLISHED"},
        "contents": {"text": truncator.text(newest.content or "", "text", _TEXT_CHARS)},
        **_stamps(record.scope, asset, asset.user_id, newest.user_id),
        "relatedAssets": [{"asset": urn} for urn in users],
    }
    return truncate_aspect(info, truncator)


def _add_tags(custom: properties.PropertiesBuilder, asset: Asset) -> None:
    custom.add_tags(asset.tags)
    custom.add_tags(asset.version_tags)


def _stamps(
    scope: WorkspaceScope, made: Asset | LoggedModel, maker: str | None, editor: str | None
) -> dict[str, Any]:
    """Return when something was made and changed, which the catalog requires with users."""
    first, last = (scope.owners.urn(user) or _UNKNOWN for user in (maker, editor))
    created_ms = made.created_at_ms or 0
    return {
        "created": {"time": created_ms, "actor": first},
        "lastModified": {"time": made.last_updated_at_ms or created_ms, "actor": last},
    }


def _custom(
    record: JoinedAsset, key: PropertyKey, truncator: Truncator
) -> properties.PropertiesBuilder:
    """Return custom properties with the name under `key`, the newest version and the aliases."""
    asset, scope = record.asset, record.scope
    name = scope.asset(asset.kind, asset.name)
    custom = properties.common_properties(scope, name, truncator)
    custom.set_own(key, asset.name)
    custom.set_own(PropertyKey.LATEST_VERSION, asset.newest.version)
    custom.set_own(PropertyKey.VERSION_STATUS, asset.newest.status)
    if asset.aliases:
        custom.set_own(PropertyKey.ALIASES, compact_json(dict(sorted(asset.aliases.items()))))
    return custom
