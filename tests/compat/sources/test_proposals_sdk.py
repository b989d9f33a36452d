"""Proposals of the MLflow and Feast mappings are valid by the DataHub SDK's schema classes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.metadata.schema_classes import ASPECT_NAME_MAP
from datahub.metadata.urns import Urn

pytestmark = pytest.mark.compat

GOLDEN = Path(__file__).parents[2] / "golden"
FEAST = GOLDEN / "feast" / "registry.jsonl"
FILES = [*sorted((GOLDEN / "mlflow").glob("*/proposals.json")), FEAST]


def proposals(path: Path) -> Iterator[tuple[str, str, Any]]:
    if path == FEAST:
        for line in path.read_text(encoding="utf-8").splitlines():
            named = json.loads(line)
            urn = named.pop("urn")
            yield from ((urn, name, aspect) for name, aspect in named.items() if name != "note")
        return
    for entity in json.loads(path.read_text(encoding="utf-8")):
        for name, aspect in entity["aspects"].items():
            yield entity["urn"], name, aspect


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.parent.name)
def test_every_proposal_is_one_of_the_sdk(path: Path) -> None:
    for urn, name, aspect in proposals(path):
        value = ASPECT_NAME_MAP[name].from_obj(aspect, tuples=False)
        wrapper = MetadataChangeProposalWrapper(entityUrn=urn, aspect=value)
        assert wrapper.validate()
        assert wrapper.make_mcp().validate()
        assert Urn.from_string(urn).urn() == urn
        # Nothing that was said is lost on the way through the SDK's class.
        sent = value.to_obj()
        assert {key: sent.get(key) for key in aspect} == aspect


def test_there_are_proposals() -> None:
    assert len(FILES) > 60
    types = {Urn.from_string(urn).entity_type for urn, _, _ in proposals(FEAST)}
    assert types == {"mlFeatureTable", "mlFeature", "mlPrimaryKey"}
