"""AI assets of a pass: which models use a prompt, and which assets MLflow lacks now."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Final
from urllib.parse import unquote

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import entity_type_of, raw_parts
from mlcat_ingest.sources.base import Missing, Unlisted
from mlcat_ingest.sources.mlflow.read.reader import MlflowObject, Reader
from mlcat_ingest.sources.mlflow.values.assets import (
    ENTITY_TYPES,
    PROMPT,
    TOOL,
    Asset,
    linked_prompts,
)
from mlcat_ingest.sources.mlflow.values.joined import (
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


class PromptUsers:
    """The models that use each prompt: those of earlier passes, and what this one reads.

    Cost: holds the URNs of these models.
    """

    def __init__(self, earlier: Mapping[str, str]) -> None:
        """Begin with the fingerprints that `JoinedAsset` has, of prompts; none to begin anew."""
        self._earlier = {name: {*text.split("\n")} - {""} for name, text in earlier.items()}
        self._users = defaultdict[str, set[str]](set)
        self._earlier_with = defaultdict[str, list[set[str]]](list)
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


def missing_assets(
    reader: Reader,
    scope: WorkspaceScope,
    unlisted: Iterable[Unlisted],
    included: Collection[str],
    listed: Mapping[str, Mapping[str, Asset]],
) -> Iterator[Missing]:
    """Yield those of `unlisted` whose asset MLflow does not have, or the recipe does not include.

    `listed` are the assets of each kind that this pass listed, by name. An entity whose URN this
    naming would not make is left out, and so is one with a shortened name.
    """
    for entity in unlisted:
        kind = ENTITY_TYPES[entity_type_of(entity.urn)]
        name, tool = _name_in(scope, entity.urn)
        if not name or _SHORTENED.search(entity.urn):
            continue
        if kind not in included:
            yield Missing(entity.urn, lambda: True, switched_off=True)
        elif kind in listed and (found := listed[kind].get(name)) is None:
            yield Missing(
                entity.urn,
                partial(
                    reader.is_gone, MlflowObject("registered" if kind == PROMPT else kind, name)
                ),
            )
        elif kind in listed and found and tool not in {"", *(t.name for t in found.newest.tools)}:
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
