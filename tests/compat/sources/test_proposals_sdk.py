"""Proposals of golden files are valid by the DataHub SDK's schema classes."""

from pathlib import Path

import pytest
from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.emitter.serialization_helper import post_json_transform, pre_json_transform
from datahub.metadata.schema_classes import ASPECT_NAME_MAP
from datahub.metadata.urns import Urn

from support.golden import FILES, GOLDEN, proposals_of


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_every_proposal_is_one_of_the_sdk(path: Path) -> None:
    for urn, name, aspect in proposals_of(path):
        value = ASPECT_NAME_MAP[name].from_obj(post_json_transform(aspect), tuples=False)
        wrapper = MetadataChangeProposalWrapper(entityUrn=urn, aspect=value)
        assert wrapper.validate()
        assert wrapper.make_mcp().validate()
        assert Urn.from_string(urn).urn() == urn
        # Nothing that was said is lost on the way through the SDK's class.
        sent = pre_json_transform(value.to_obj())
        assert {key: sent.get(key) for key in aspect} == aspect


def test_there_are_proposals() -> None:
    assert len(FILES) > 60
    types = {Urn.from_string(urn).entity_type for path in FILES for urn, _, _ in proposals_of(path)}
    assert types >= {"mlFeatureTable", "mlFeature", "mlPrimaryKey", "mlModel", "mlModelGroup"}
