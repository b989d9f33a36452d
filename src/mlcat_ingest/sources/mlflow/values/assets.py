"""AI assets of MLflow: MCP servers with their tools, skills and prompts, before the mapping.

Every reader gives the same values. Times are epoch milliseconds UTC.

Source: `mlflow/entities/mcp_server*.py`, `skill*.py` and `prompt/registry_utils.py` of MLflow 3.18.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

AssetKind = Literal["mcp server", "skill", "prompt"]
AssetsName = Literal["mcp_servers", "skills", "prompts"]

MCP_SERVER: Final = "mcp server"
SKILL: Final = "skill"
PROMPT: Final = "prompt"

KINDS: Final[Mapping[AssetsName, AssetKind]] = {
    "mcp_servers": MCP_SERVER,
    "skills": SKILL,
    "prompts": PROMPT,
}
"""The kind of the records of what a recipe may include."""

ENTITY_TYPES: Final[Mapping[str, AssetKind]] = {
    "service": MCP_SERVER,
    "api": MCP_SERVER,
    "agentSkill": SKILL,
    "document": PROMPT,
}
"""The kind that an entity type is made of; a tool of an MCP server is an `api`."""

TOOL: Final = "api"
LINKED_PROMPTS_TAG: Final = "mlflow.linkedPrompts"
"""Tag of a run, logged model or version: a JSON list of the prompt versions that it uses."""
TEXT_TAG: Final = "mlflow.prompt.text"
"""Tag of a version of a prompt."""

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
    try:
        linked = json.loads(tags.get(LINKED_PROMPTS_TAG) or "[]")
    except ValueError:
        linked = ()
    named = (one.get("name") for one in linked if isinstance(one, dict))
    return frozenset(name for name in named if isinstance(name, str))
