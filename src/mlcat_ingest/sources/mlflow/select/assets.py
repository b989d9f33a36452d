"""AI assets of a pass: who uses which of them, and which ones MLflow lacks now."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Final
from urllib.parse import unquote

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import entity_type_of, raw_parts
from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.mlflow.read.listing import id_pieces
from mlcat_ingest.sources.mlflow.read.reader import Kind, MlflowObject, ModelFilter, Reader
from mlcat_ingest.sources.mlflow.values.assets import (
    AGENT,
    ENTITY_TYPES,
    MCP_SERVER,
    PROMPT,
    SKILL,
    TOOL,
    Asset,
    AssetKind,
    linked_prompts,
    references,
)
from mlcat_ingest.sources.mlflow.values.joined import (
    JoinedAgent,
    JoinedAsset,
    JoinedLoggedModel,
    JoinedRecord,
    JoinedRun,
    JoinedVersion,
    WorkspaceScope,
    storable,
)
from mlcat_ingest.sources.mlflow.values.records import LoggedModel, ModelVersion, Run

_SHORTENED: Final = re.compile("~[0-9a-f]{16}$")
"""The end of a URN that lacks some of the name."""
_MODEL_ID: Final = re.compile("m-[0-9a-f]{32}")
_ZEROS: Final = re.compile("/0+(?=[0-9]+$)")
_SKILL: Final = re.compile("(?:@[^/@]+/)?[^/@]+")
_SCHEMES: Final[Mapping[str, AssetKind]] = {"mcp-servers": MCP_SERVER, "skills": SKILL}
_FIELDS: Final = {MCP_SERVER: "tools", SKILL: "skills"}
"""The dependencies of an agent that are of a kind."""
_OBJECTS: Final[Mapping[AssetKind, Kind]] = {PROMPT: "registered", AGENT: "logged_model"}
"""What MLflow keeps a kind as, if it is none of its own."""

ListedAssets = Mapping[str, Mapping[str, Collection[str]]]
"""The names of assets by kind, each with those of its tools."""


class AssetUsers:
    """The models that use each prompt, of earlier passes and of this one, and agents of this one.

    Cost: holds the URNs of these models, and the agents.
    """

    def __init__(self, earlier: Mapping[str, str]) -> None:
        """Begin with the fingerprints that `JoinedAsset` has, of prompts; none to begin anew."""
        self._earlier = {name: {*text.split("\n")} - {""} for name, text in earlier.items()}
        self._users = defaultdict[str, set[str]](set)
        self._earlier_with = defaultdict[str, list[set[str]]](list)
        self.agents: dict[str, JoinedLoggedModel] = {}
        for users in self._earlier.values():
            for urn in users:
                self._earlier_with[urn].append(users)

    def add(self, records: Iterable[JoinedRecord]) -> None:
        """Add what runs, versions and logged models name."""
        for record in records:
            with suppress(InvalidUrnError):
                self._add(record)

    def _add(self, record: JoinedRecord) -> None:
        tagged: Sequence[Run | ModelVersion | LoggedModel | None]
        if isinstance(record, JoinedRun):
            tagged = () if record.is_removed else (record.run, *record.models.values())
            urn = record.scope.naming.model(record.run_id).urn
        elif isinstance(record, JoinedVersion):
            tagged = record.version, record.model
            urn = record.scope.naming.version(record.version.name, record.version.version).urn
        elif isinstance(record, JoinedLoggedModel):
            tagged, urn = [record.model], record.scope.naming.model(record.model.model_id).urn
            if (record.model.model_type or "").lower() == AGENT:
                self.agents[record.model.model_id] = record
        else:
            return
        for users in self._earlier_with.pop(urn, ()):
            users.discard(urn)
        for one in tagged:
            for name in linked_prompts(one.tags) if one else ():
                self._users[name].add(urn)

    def join(self, scope: WorkspaceScope, asset: Asset) -> JoinedAsset:
        """Return an asset with the models that use it."""
        if asset.kind != PROMPT:
            return JoinedAsset(scope, asset)
        users = self._users.get(asset.name, set()) | self._earlier.get(storable(asset.name), set())
        return JoinedAsset(scope, asset, tuple(sorted(users)))


def join_agents(
    reader: Reader,
    agents: Collection[JoinedLoggedModel],
    listed: ListedAssets,
    unread: Collection[str] = (),
) -> Iterator[JoinedAgent]:
    """Yield agents with what they use of the models and of the `listed` assets.

    Of kinds of which none are listed, or some are `unread`, it is left as it is. What they name of
    `unread` kinds is not unknown.

    Cost: a request for each 100 logged models that they name by their ids; a listing of versions
    where they name one.
    """
    if not agents:
        return
    named = [(one, references(one.model.params, one.model.tags)) for one in agents]
    used = {uri.partition(":/") for _, uris in named for uri in uris}
    names = {_ZEROS.sub("/", name.lstrip("/")) for scheme, _, name in used if scheme == "models"}
    ids = set(filter(_MODEL_ID.fullmatch, names))
    experiments = [one.experiment_id for page in reader.experiments() for one in page]
    made = {
        model.model_id: model.model_id if model.is_external else model.source_run_id or ""
        for piece in id_pieces(ids)
        for page in reader.logged_models(experiments, only=ModelFilter(model_ids=piece))
        for model in page
    }
    versions = {
        name: one
        for page in (reader.model_versions() if names - ids else ())
        for one in page
        for end in (f"/{one.version}", *(f"@{alias}" for alias in one.aliases))
        if (name := f"{one.name}{end}") in names
    }
    fields = {
        "models",
        *(field for kind, field in _FIELDS.items() if kind in listed.keys() - unread),
    }
    for one, uris in named:
        uses: dict[str, set[str]] = {field: set() for field in sorted(fields)}
        unknown = []
        for uri in uris:
            scheme, _, name = uri.partition(":/")
            kind, name, found = _SCHEMES.get(scheme), name.lstrip("/"), set[str]()
            with suppress(InvalidUrnError):
                if scheme == "models":
                    found = _models(one.scope, name, versions, made)
                elif kind:
                    found = _assets(one.scope, kind, name, listed.get(kind, {}))
            uses.get(_FIELDS[kind] if kind else "models", set()).update(found)
            unknown += [] if found or kind in unread else [uri]
        of_fields = {field: tuple(sorted(urns)) for field, urns in uses.items()}
        yield JoinedAgent(one.scope, one.model, one.experiment, of_fields, tuple(unknown))


def _models(
    scope: WorkspaceScope, name: str, versions: Mapping[str, ModelVersion], made: Mapping[str, str]
) -> set[str]:
    """Return the URN of the model at `models:/<name>`, none for a stage or what is not there."""
    if run_id := made.get(name):
        return {scope.naming.model(run_id).urn}
    found = versions.get(_ZEROS.sub("/", name))
    return {scope.naming.version(found.name, found.version).urn} if found else set()


def _assets(
    scope: WorkspaceScope, kind: str, name: str, listed: Mapping[str, Collection[str]]
) -> set[str]:
    """Return the URN of a skill, or of an MCP server's tool, or of all its tools."""
    name, _, tool = name.partition("#")
    if kind == MCP_SERVER:
        tools = {tool} & {*listed.get(name, ())} if tool else listed.get(name, ())
        return {scope.asset(kind, name, one).urn for one in tools}
    parts = _SKILL.match(name)
    return {scope.asset(kind, parts[0]).urn} if parts and parts[0] in listed else set()


def missing_assets(
    reader: Reader,
    scope: WorkspaceScope,
    unlisted: Iterable[Unlisted],
    included: Collection[str],
    listed: ListedAssets,
) -> Iterator[Missing]:
    """Yield those of `unlisted` whose asset MLflow does not have, or the recipe does not include.

    `listed` are the assets of each kind that this pass listed. An entity whose URN this
    naming would not make is left out, and so is one with a shortened name.
    """
    # A server that is gone is asked for once: it may have many tools.
    is_gone = cache(reader.is_gone)
    for entity in unlisted:
        kind = ENTITY_TYPES[entity_type_of(entity.urn)]
        name, tool = _name_in(scope, entity.urn)
        if not name or _SHORTENED.search(entity.urn):
            continue
        if kind not in included:
            yield Missing(entity.urn, lambda: True, switched_off=True)
        elif kind in listed and (tools := listed[kind].get(name)) is None:
            target = MlflowObject(_OBJECTS.get(kind, kind), name)
            yield Missing(entity.urn, partial(is_gone, target))
        elif kind in listed and tools is not None and tool not in {"", *tools}:
            yield Missing(entity.urn, lambda: True)


def _name_in(scope: WorkspaceScope, urn: str) -> tuple[str, str]:
    """Return the names of the asset and the tool in a URN, empty where it is not of `scope`."""
    entity_type = entity_type_of(urn)
    name, tool = raw_parts(urn)[0].removeprefix(f"{scope.naming.asset_place}:"), ""
    if entity_type == TOOL:
        name, _, tool = name.rpartition("/")
    names = list(map(unquote, filter(None, (name, tool))))
    with suppress(InvalidUrnError):
        if scope.naming.asset(entity_type, *names).urn == urn:
            return unquote(name), unquote(tool)
    return "", ""
