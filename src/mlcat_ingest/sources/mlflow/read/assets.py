"""Makes AI assets of MLflow's JSON, of which the reader of SQL has the same."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from mlcat_ingest.sources.mlflow.read.decode import Json
from mlcat_ingest.sources.mlflow.read.fields import id_text, moment
from mlcat_ingest.sources.mlflow.values.assets import (
    MCP_SERVER,
    PROMPT,
    TEXT_TAG,
    Asset,
    AssetVersion,
    McpEndpoint,
    Tool,
    in_order,
)
from mlcat_ingest.sources.mlflow.values.records import PROMPT_TAG, ModelVersion, RegisteredModel


def path_of(item: Json) -> str:
    """Return the name of an MCP server or skill, as paths and `Asset` have it."""
    organization = item.get("organization")
    name: str = item["name"]
    return f"@{organization}/{name}" if organization else name


def asset(kind: str, item: Json, versions: Iterable[Json]) -> Asset:
    """Return an MCP server or a skill, without its deleted versions."""
    there = in_order(_version(kind, one) for one in versions if one.get("status") != "deleted")
    named = {version.version for version in there}
    aliases = {one["alias"]: id_text(one["version"]) for one in item.get("aliases") or ()}
    live = {**{one: one for one in named}, **aliases, "latest": next(iter(named), None)}
    endpoints = [
        McpEndpoint(one["url"], one.get("transport_type") or "")
        for one in item.get("access_endpoints") or ()
        if live.get(one.get("server_version") or one.get("server_alias")) in named
    ]
    return Asset(
        kind,
        path_of(item),
        item.get("display_name") or None,
        item.get("description") or _described(there),
        item.get("created_by") or None,
        moment(item.get("creation_timestamp")),
        moment(item.get("last_updated_timestamp")),
        dict(item.get("tags") or {}),
        {alias: version for alias, version in aliases.items() if version in named},
        there,
        tuple(sorted(endpoints)),
    )


def _described(versions: Sequence[AssetVersion]) -> str | None:
    """Return the description of the newest version, as a server gives it; SQL has its own only."""
    content = json.loads(versions[-1].content or "null") if versions else None
    return content.get("description") or None if isinstance(content, dict) else None


def _version(kind: str, item: Json) -> AssetVersion:
    content = _json(item["server_json"]) if kind == MCP_SERVER else None
    texts = {name: item.get(name) or None for name in ("status", "source", "ref", "created_by")}
    return AssetVersion(
        id_text(item["version"]),
        texts["status"],
        None,
        texts["created_by"],
        moment(item.get("creation_timestamp")),
        content and json.dumps(content, ensure_ascii=False, sort_keys=True),
        tuple(
            Tool(one["name"], one.get("title"), one.get("description"))
            for one in _json(item.get("tools")) or ()
        ),
        texts["source"],
        texts["ref"],
        item.get("subpath") or None,
        dict(item.get("tags") or {}),
    )


def _json(value: Any) -> Any:
    """Return a value of JSON; of databases, some drivers give it as a text, and others as it is."""
    return json.loads(value) if isinstance(value, str) else value


def prompts(models: Iterable[RegisteredModel], versions: Iterable[ModelVersion]) -> list[Asset]:
    """Return the prompts, which MLflow keeps as registered models, with their versions."""
    by_name: dict[str, list[AssetVersion]] = {}
    for one in versions:
        text, made = one.tags.get(TEXT_TAG), (one.user_id, one.created_at_ms)
        described = one.version, None, one.description, *made, text
        version = AssetVersion(*described, tags=_tags_of_prompt(one))
        by_name.setdefault(one.name, []).append(version)
    assets = []
    for model in models:
        there = in_order(by_name.get(model.name, ()))
        named = PROMPT, model.name, None, model.description, there[0].user_id if there else None
        times = model.created_at_ms, model.last_updated_at_ms
        assets.append(Asset(*named, *times, _tags_of_prompt(model), model.aliases, there))
    return assets


def _tags_of_prompt(one: RegisteredModel | ModelVersion) -> Mapping[str, str]:
    return {key: value for key, value in one.tags.items() if key not in {TEXT_TAG, PROMPT_TAG}}
