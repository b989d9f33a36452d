"""Which entities may hold something of a recipe: what it remembers, and what the catalog names."""

import logging
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby, islice
from typing import Any

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog
from mlcat_ingest.client.search import SEARCHABLE
from mlcat_ingest.errors import (
    MlcatError,
    ProtocolMismatchError,
)
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.sources.base import (
    NullState,
    Partition,
    PartitionState,
    ReadRequest,
    Source,
)

log = logging.getLogger(__name__)


class UrnList:
    """URNs, each once, in a temporary file that is gone with the process."""

    def __init__(self) -> None:
        """Start with none."""
        self._db = sqlite3.connect("", isolation_level=None)
        self._db.executescript("CREATE TABLE urn (urn TEXT PRIMARY KEY, type TEXT); BEGIN;")

    def add(self, urns: Iterable[str]) -> None:
        """Add URNs; those that are there already stay as they are."""
        self._db.executemany(
            "INSERT OR IGNORE INTO urn VALUES (?, ?)", [(urn, entity_type_of(urn)) for urn in urns]
        )

    def __iter__(self) -> Iterator[str]:
        """Yield them by type; nothing may be added meanwhile."""
        for (urn,) in self._db.execute("SELECT urn FROM urn ORDER BY type, urn"):
            yield urn

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        self._db.close()


def in_chunks(urns: Iterable[str]) -> Iterator[Sequence[str]]:
    """Yield `urns`, which come by type, in chunks of one type."""
    for _, some in groupby(urns, entity_type_of):
        while chunk := list(islice(some, MAX_REQUEST_ITEMS)):
            yield chunk


def list_ours(
    urns: UrnList, state: StateSession, sink: Catalog, sources: Sequence[Source[Any]], recipe: str
) -> None:
    """Add to `urns` the entities that may hold something `recipe` wrote.

    Those are the entities of the records that it remembers, and all that the catalog says came
    from the same sources. Where nothing is remembered, the sources are read for what they are
    called.

    Raises:
        ProtocolMismatchError: nothing is remembered, and the catalog cannot be searched.

    Cost: one request for each 1,000 entities; a full reading of the sources where nothing is
    remembered.
    """
    remembered = False
    for some in state.urns():
        remembered = True
        urns.add(some)
    keys = state.source_keys() or _keys_of(sources)
    try:
        for key in keys:
            for entity_type in SEARCHABLE:
                for page in sink.search.owned(entity_type, key).pages:
                    urns.add(page)
    except CANNOT_ANSWER as error:
        if not remembered:
            raise _unlistable(recipe, error) from error
        log.warning("the catalog cannot be searched, so only what is remembered counts: %s", error)


def _unlistable(recipe: str, error: MlcatError) -> ProtocolMismatchError:
    return ProtocolMismatchError(
        f"what {recipe!r} wrote cannot be listed, and nothing was changed: nothing is remembered "
        f"of it, and the catalog cannot be searched: {error.message}",
        hint=error.hint,
    )


def _keys_of(sources: Sequence[Source[Any]]) -> list[str]:
    names = _Names()
    for source in sources:
        with closing(source):
            for _ in source.read(ReadRequest(state=names)):
                pass  # further partitions may come with further pages
    return list(dict.fromkeys(names.keys))


class _Names(NullState):
    """A state that only takes note of the keys of the partitions that sources read."""

    def __init__(self) -> None:
        self.keys: list[str] = []

    def partition(self, partition: Partition) -> PartitionState:
        self.keys.append(partition.key)
        return super().partition(partition)
