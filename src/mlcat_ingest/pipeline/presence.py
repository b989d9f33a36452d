"""What the catalog has: entities that are there, and not marked as removed."""

from collections.abc import Iterator, Sequence
from typing import Final

from mlcat_ingest.metadata.entities import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.sinks.base import Sink

BATCH_SIZE: Final = 200
"""Entities in one look-up."""


def present(sink: Sink, urns: Sequence[str]) -> Iterator[str]:
    """Yield those of `urns`, all of one type, that the catalog has.

    Cost: one request for each 200.
    """
    for start in range(0, len(urns), BATCH_SIZE):
        batch = urns[start : start + BATCH_SIZE]
        key = key_aspect_name(entity_type_of(batch[0]))
        stored = sink.read_many(batch, [key, "status"])
        for urn in batch:
            found = stored.get(urn, {})
            status = found.get("status")
            removed = status is not None and status.value.get("removed") is True
            if key in found and not removed:
                yield urn
