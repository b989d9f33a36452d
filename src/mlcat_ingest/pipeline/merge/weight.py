"""What an entity weighs on its way: where some hold thousands of entries, fewer travel together."""

from typing import Final

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge import properties_aspect

HEAVIEST: Final = 20_000
"""Entries in one chunk, and in one batch; 200 runs of 20 parameters and 20 metrics have 10,000."""


def weight_of(entity: Entity) -> int:
    """Return how many entries the lists and maps of an entity's properties aspect have."""
    properties = entity.aspects.get(properties_aspect(entity_type_of(entity.urn)) or "")
    if properties is None:
        return 0
    return sum(len(value) for value in properties.values() if isinstance(value, list | dict))
