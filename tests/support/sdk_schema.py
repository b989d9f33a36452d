"""Holds proposals against the schema classes of the DataHub SDK, which is a peer, not ours."""

from collections.abc import Mapping
from typing import Any

from datahub.emitter.mcp import MetadataChangeProposalWrapper
from datahub.emitter.serialization_helper import post_json_transform, pre_json_transform
from datahub.metadata.schema_classes import ASPECT_NAME_MAP, KEY_ASPECTS
from datahub.metadata.urns import Urn

from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.proposal import Proposal


def assert_valid_for_sdk(proposal: Proposal) -> None:
    """Fail unless the SDK takes the proposal's URN, its aspect, and every field of the aspect."""
    sent = proposal.wire()
    urn, name = sent["entityUrn"], sent["aspectName"]
    assert str(Urn.from_string(urn)) == urn
    assert name in aspects_of(sent["entityType"]), f"{sent['entityType']} has no aspect {name}"
    value = loads(sent["aspect"]["value"])
    # Its classes have other names of the records in a union than the wire.
    aspect = ASPECT_NAME_MAP[name].from_obj(post_json_transform(value))
    assert aspect.validate(), f"{urn}: {name} does not fit the SDK's schema: {value}"
    wrapped = MetadataChangeProposalWrapper(entityUrn=urn, aspect=aspect)
    assert wrapped.entityType == sent["entityType"]
    assert wrapped.make_mcp().validate()
    assert_holds(pre_json_transform(aspect.to_obj()), value, f"{urn}: {name}")


def aspects_of(entity_type: str) -> set[str]:
    """Return the aspects that the SDK's registry gives an entity type, its key among them."""
    key = KEY_ASPECTS[entity_type]
    return {key.ASPECT_NAME, *key.get_aspect_info()["entityAspects"]}


def assert_holds(whole: Any, part: Any, place: str) -> None:
    """Fail unless every field of `part` stands in `whole` with the same value."""
    if isinstance(part, Mapping):
        for key, item in part.items():
            assert key in whole, f"{place}: the SDK drops {key!r}"
            assert_holds(whole[key], item, f"{place}.{key}")
    elif isinstance(part, list):
        assert len(whole) == len(part), place
        for index, item in enumerate(part):
            assert_holds(whole[index], item, f"{place}[{index}]")
    else:
        assert whole == part, place
