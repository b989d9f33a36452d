"""Chunks: entities of one type that are read, merged and written together."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.aspects import fold
from mlcat_ingest.pipeline.merge.limits import HEAVIEST, weight_of
from mlcat_ingest.pipeline.read.links import shrink

REMEMBERED_REFERENCES: Final = 20_000
"""Entities merely referred to that are not looked up again in the same run."""

# Not feature tables: they come among their features, so that each chunk would have only a few.
_WRITTEN_EARLY: Final = "mlModelGroup"


Chunk = Mapping[str, Entity]
"""Entities of one type by their URNs, that are read, merged and written together."""


class Chunker:
    """Groups entities by type into chunks of at most one request, each URN once a chunk.

    A chunk ends sooner with an entity that makes it weigh `HEAVIEST`.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._buffers: dict[str, dict[str, Entity]] = {}
        self._weights: Counter[str] = Counter()
        self._references: dict[str, None] = {}

    def chunks(self, entities: Iterable[Entity]) -> Iterator[Chunk]:
        """Yield the chunks that `entities` fill; the rest stays for the next call or `rest`."""
        for entity in entities:
            if entity.only_if_absent and self._is_repeated(entity.urn):
                continue
            entity_type = entity.entity_type
            buffer = self._buffers.setdefault(entity_type, {})
            earlier = buffer.get(entity.urn)
            buffer[entity.urn] = entity if earlier is None else fold(earlier, entity)
            if earlier is not None and not (earlier.only_if_absent or entity.only_if_absent):
                self._context.ledger.folded(entity.urn)
            self._weights[entity_type] += weight_of(entity)
            if len(buffer) >= MAX_REQUEST_ITEMS or self._weights[entity_type] >= HEAVIEST:
                yield from self._containers()
                if entity_type in self._buffers:
                    yield self._cut(entity_type)

    def rest(self) -> Iterator[Chunk]:
        """Yield what is left, containers first."""
        yield from self._containers()
        for entity_type in list(self._buffers):
            yield self._cut(entity_type)

    def _containers(self) -> Iterator[Chunk]:
        # A run that breaks off should not leave members without their group.
        if _WRITTEN_EARLY in self._buffers:
            yield self._cut(_WRITTEN_EARLY)

    def _cut(self, entity_type: str) -> Chunk:
        del self._weights[entity_type]
        return self._buffers.pop(entity_type)

    def _is_repeated(self, urn: str) -> bool:
        if urn in self._references:
            return True
        self._references[urn] = None
        # The older half at once: a dict walks over the holes of single deletions.
        shrink(self._references, REMEMBERED_REFERENCES)
        return False
