"""What the catalog holds of entities that are to be merged."""

from collections.abc import Iterable, Sequence

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge import properties_aspect


def read_stored(sink: Catalog, entities: Iterable[Entity]) -> dict[str, StoredEntity]:
    """Return what the catalog holds of every aspect that merging `entities` looks at.

    Cost: one request for a batch of entities of a type.
    """
    by_type: dict[str, list[Entity]] = {}
    for one in entities:
        by_type.setdefault(entity_type_of(one.urn), []).append(one)
    stored: dict[str, StoredEntity] = {}
    for entity_type, some in by_type.items():
        urns = [one.urn for one in some]
        stored.update(sink.read_many(urns, _aspects_to_read(entity_type, some)))
    return stored


def _aspects_to_read(entity_type: str, entities: Sequence[Entity]) -> list[str]:
    names = {name for one in entities for name in one.aspects}
    home = properties_aspect(entity_type)
    if home is not None:
        names.add(home)
    if home is None or any(one.only_if_absent for one in entities):
        # Whether an entity is there at all shows in the aspect that every entity has.
        names.add(key_aspect_name(entity_type))
    return sorted(names)
