"""AI assets of MLflow: MCP servers with tools, skills, prompts and agents, before the mapping.

Every reader gives the same values. Times are epoch milliseconds UTC.

Source: `mlflow/entities/mcp_server*.py`, `skill*.py` and `prompt/registry_utils.py` of MLflow 3.18.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from mlcat_ingest.metadata.reserved import USES_TAG

AssetKind = Literal["mcp server", "skill", "prompt", "agent"]
AssetsName = Literal["mcp_servers", "skills", "prompts", "agents"]

MCP_SERVER: Final = "mcp server"
SKILL: Final = "skill"
PROMPT: Final = "prompt"
AGENT: Final = "agent"
"""Also the type of a logged model that is one, as MLflow's documentation has it."""

KINDS: Final[Mapping[AssetsName, AssetKind]] = {
    "mcp_servers": MCP_SERVER,
    "skills": SKILL,
    "prompts": PROMPT,
    "agents": AGENT,
}
"""The kind of the records of what a recipe may include."""

ENTITY_TYPES: Final[Mapping[str, AssetKind]] = {
    "service": MCP_SERVER,
    "api": MCP_SERVER,
    "agentSkill": SKILL,
    "document": PROMPT,
    "aiAgent": AGENT,
}
"""The kind that an entity type is made of; a tool of an MCP server is an `api`."""

TOOL: Final = "api"
LINKED_PROMPTS_TAG: Final = "mlflow.linkedPrompts"
"""Tag of a run, logged model or version: a JSON list of the prompt versions that it uses."""
TEXT_TAG: Final = "mlflow.prompt.text"
"""Tag of a version of a prompt."""

_REFERENCE: Final = re.compile("(?:models|skills|mcp-servers):/+[^/]")
"""A URI as MLflow has it for models and skills, and as this package has it for MCP servers."""
_SEMVER: Final = re.compile(r"(\d+)(?:\.(\d+))?(?:\.(\d+))?(?:-([0-9A-Za-z.-]+))?(?:\+.*)?")


class Tool(NamedTuple):
    """A tool of an MCP server."""

    name: str
    title: str | None = None
    description: str | None = None


class McpEndpoint(NamedTuple):
    """An address at which an MCP server answers."""

    url: str
    transport: str


class AssetVersion(NamedTuple):
    """A version of an asset.

    `content` is the server.json of an MCP server, as JSON with sorted keys, or the text of a
    prompt. `source`, `ref` and `path` are where the files of a skill are.
    """

    version: str
    status: str | None = None
    description: str | None = None
    user_id: str | None = None
    created_at_ms: int | None = None
    content: str | None = None
    tools: tuple[Tool, ...] = ()
    source: str | None = None
    ref: str | None = None
    path: str | None = None
    tags: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Asset:
    """An asset and all its versions, the one that counts last; `aliases` name versions.

    The name of a skill begins with its organization, if it has one: `@acme/review`.
    """

    kind: str
    name: str
    title: str | None = None
    description: str | None = None
    user_id: str | None = None
    created_at_ms: int | None = None
    last_updated_at_ms: int | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    versions: tuple[AssetVersion, ...] = ()
    endpoints: tuple[McpEndpoint, ...] = ()

    @property
    def newest(self) -> AssetVersion:
        """The newest version that is active, else the newest; an empty one if there is none."""
        return self.versions[-1] if self.versions else AssetVersion("")

    @property
    def version_tags(self) -> Mapping[str, str]:
        """The tags of the newest version, each under `version.<key>`."""
        return {f"version.{key}": value for key, value in self.newest.tags.items()}


def in_order(versions: Iterable[AssetVersion]) -> tuple[AssetVersion, ...]:
    """Return versions by number, the active ones behind the others.

    Source: `_resolved_latest_candidates_query` of MLflow 3.18.
    """
    return tuple(sorted(versions, key=_order))


def _order(version: AssetVersion) -> tuple[Any, ...]:
    match = _SEMVER.fullmatch(version.version)
    *numbers, before = match.groups() if match else ("-1", None, None, None)
    # Numbers come before words, and all of these before the release itself.
    parts = [
        (0, int(one), "") if one.isdecimal() else (1, 0, one) for one in (before or "").split(".")
    ]
    return (
        version.status in {"active", None},
        [int(one or 0) for one in numbers],
        *(before is None, parts, version.created_at_ms or 0, version.version),
    )


def linked_prompts(tags: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the prompts that a run, logged model or version names in its tag."""
    named = (one.get("name") for one in _listed(tags, LINKED_PROMPTS_TAG) if isinstance(one, dict))
    return frozenset(name for name in named if isinstance(name, str))


def references(params: Mapping[str, str], tags: Mapping[str, str]) -> list[str]:
    """Return what an agent says that it uses, sorted: URIs of models, skills and MCP servers.

    A parameter says so if it is one URI, or a list of them; so does the tag `mlcat.uses`, of which
    other texts are returned, too.
    """
    declared = {one for of in (params, tags) for one in _texts(of, USES_TAG)}
    listed = (_texts(params, name) for name in params)
    return sorted(declared.union(*(of for of in listed if all(map(_REFERENCE.match, of)))))


def _texts(values: Mapping[str, str], name: str) -> list[str]:
    """Return the texts of a list as JSON, or with commas."""
    found = _listed(values, name) or (values.get(name) or "").split(",")
    return [text for one in found if isinstance(one, str) and (text := one.strip())]


def _listed(values: Mapping[str, str], name: str) -> list[Any]:
    """Return the items of a list as JSON, none where that cannot be read."""
    try:
        found = json.loads(values.get(name) or "[]")
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []
