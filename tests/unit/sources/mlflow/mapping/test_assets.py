"""Assets of which a catalog does not take all."""

import hashlib
import json
from typing import Any

import pytest

from mlcat_ingest.metadata.aspects import (
    DOCUMENT_INFO,
    MCP_SERVER_PROPERTIES,
    SERVICE_DEFINITION,
    SERVICE_PROPERTIES,
)
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.mlflow.mapping.assets import map_asset
from mlcat_ingest.sources.mlflow.values.assets import MCP_SERVER, PROMPT, SKILL, Asset, AssetVersion
from mlcat_ingest.sources.mlflow.values.joined import JoinedAsset, WorkspaceScope
from mlcat_ingest.sources.mlflow.values.uris import UiLinks

SCOPE = WorkspaceScope(Naming(), UiLinks(None), "mlflow:0:default")


def mapped(definition: dict[str, Any]) -> Entity:
    versions = (AssetVersion("1", "active", content=json.dumps(definition)),)
    return map_asset(JoinedAsset(SCOPE, Asset(MCP_SERVER, "a/b", versions=versions)))[-1]


@pytest.mark.parametrize("headers", [7, {"X-Tenant": "acme"}, ["X-Tenant"], None])
def test_headers_that_are_no_list_of_objects_are_none(headers: Any) -> None:
    remote = {"type": "sse", "url": "https://h/x", "headers": headers}
    connection = mapped({"remotes": [remote]}).aspects[MCP_SERVER_PROPERTIES]
    assert connection == {"url": "https://h/x", "transport": "SSE", "customHeaders": {}}


def test_a_definition_that_fits_into_no_proposal_is_left_out_with_a_note() -> None:
    data = hashlib.shake_256(b"").hexdigest(5_000_000)
    entity = mapped({"_meta": {"data": data}})
    assert not any(entity.aspects[SERVICE_DEFINITION].values())
    assert [note.kind for note in entity.notes] == ["truncated"]


def test_a_prompt_names_no_more_models_than_a_proposal_takes() -> None:
    urns = tuple(SCOPE.naming.model(f"{number:032}").urn for number in range(10_001))
    entity = map_asset(JoinedAsset(SCOPE, Asset(PROMPT, "greet"), urns))[-1]
    document = entity.aspects[DOCUMENT_INFO]
    assert len(document["relatedAssets"]) == 10_000
    assert document["customProperties"]["mlflow.left_out"] == "1 of 10001 related models"
    assert [note.kind for note in entity.notes] == ["truncated"]


def test_a_skill_has_a_tag_for_each_tag_of_it_and_of_its_newest_version_up_to_a_limit() -> None:
    versions = tuple(AssetVersion(at, tags={"stage": at}) for at in ("1", "2"))
    tags = {f"key{at:02}": "" for at in range(20)}
    for held, left_out in ((dict(list(tags.items())[:19]), []), (tags, ["1 of 21 tags left out"])):
        *_, skill = map_asset(
            JoinedAsset(SCOPE, Asset(SKILL, "review", tags=held, versions=versions))
        )
        given = [
            one["tag"].removeprefix("urn:li:tag:") for one in skill.aspects["globalTags"]["tags"]
        ]
        assert given == [*held, *(["version.stage:2"] if not left_out else [])]
        assert [note.detail for note in skill.notes] == left_out


@pytest.mark.parametrize("kind", [MCP_SERVER, PROMPT])
def test_a_tag_of_a_version_hides_none_of_the_asset(kind: str) -> None:
    versions = (AssetVersion("1", tags={"team": "a"}),)
    asset = Asset(kind, "a", tags={"version.team": "b"}, versions=versions)
    aspects = map_asset(JoinedAsset(SCOPE, asset))[-1].aspects
    name = SERVICE_PROPERTIES if kind == MCP_SERVER else DOCUMENT_INFO
    custom = aspects[name]["customProperties"]
    assert (custom["version.team"], custom["tag.version.team"]) == ("b", "a")
