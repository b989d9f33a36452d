"""Entities that would be removed: kept back until it is known how many there are."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress
from tempfile import SpooledTemporaryFile
from typing import Final

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge import MergedEntity

_IN_MEMORY_BYTES: Final = 4 * 1024 * 1024


class Withheld:
    """Keeps entities on disk once there are many; safe to use from several threads."""

    def __init__(self) -> None:
        """Keep nothing yet, and keep back what comes."""
        self._lock = threading.Lock()
        self._file = SpooledTemporaryFile[bytes](_IN_MEMORY_BYTES)
        self._urns: dict[str, None] = {}
        self._odd: list[Entity] = []
        self._open = False

    @property
    def urns(self) -> Sequence[str]:
        """The URNs of what is kept back."""
        return tuple(self._urns)

    def sift(self, merged: Sequence[MergedEntity]) -> tuple[list[MergedEntity], list[str]]:
        """Return `merged` without those that would be removed, and their URNs: they are kept."""
        passing: list[MergedEntity] = []
        kept: list[str] = []
        for one in merged:
            if one.outcome != "removed" or self._open:
                passing.append(one)
            else:
                self._keep(one.entity)
                kept.append(one.urn)
        return passing, kept

    def _keep(self, entity: Entity) -> None:
        with self._lock:
            if entity.urn in self._urns:
                return
            self._urns[entity.urn] = None
            try:
                line = dumps([entity.urn, entity.aspects, sorted(entity.adds_only)])
            except CodecError:
                self._odd.append(entity)  # the catalog will refuse it, in its own words
            else:
                self._file.write(line + b"\n")

    def release(self) -> Iterator[Entity]:
        """Yield what was kept back, and keep nothing back until `restart`."""
        self._open = True
        self._file.seek(0)
        for line in self._file:
            urn, aspects, adds_only = loads(line)
            yield Entity(urn, aspects, adds_only=frozenset(adds_only))
        yield from self._odd

    def restart(self) -> None:
        """Forget what was kept, and keep back what comes from now on."""
        with self._lock:
            self._open = False
            self._urns, self._odd = {}, []
            self._file.seek(0)
            self._file.truncate()

    def close(self) -> None:
        """Delete the file; safe to call twice."""
        with suppress(ValueError):
            self._file.close()
