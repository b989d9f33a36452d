"""What the catalog has: entities that are there, and not marked as removed."""

from collections.abc import Iterator, Sequence

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of


def present(sink: Catalog, urns: Sequence[str]) -> Iterator[str]:
    """Yield those of `urns`, all of one type, that the catalog has.

    Cost: one request for each batch.
    """
    for start in range(0, len(urns), MAX_REQUEST_ITEMS):
        batch = urns[start : start + MAX_REQUEST_ITEMS]
        key = key_aspect_name(entity_type_of(batch[0]))
        stored = sink.read_many(batch, [key, STATUS])
        for urn in batch:
            found = stored.get(urn, {})
            status = found.get(STATUS)
            removed = status is not None and status.value.get("removed") is True
            if key in found and not removed:
                yield urn
