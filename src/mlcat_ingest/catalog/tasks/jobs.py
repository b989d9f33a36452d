"""What tasks do: each kind of work, batch after batch, so that other writers get their turn."""

from dataclasses import dataclass
from typing import ClassVar, Final, Protocol

from sqlalchemy import Connection

from mlcat_ingest.catalog.store.reindex import ReindexScope, count_aspects, reindex_batch
from mlcat_ingest.catalog.store.timeseries import Span, count_events, truncate_batch

_EVENTS_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """What one batch did; `place` is where the next begins, None after the last."""

    place: int | None
    updated: int = 0
    created: int = 0
    deleted: int = 0
    noops: int = 0


class Job(Protocol):
    """Work that is done in batches, each inside a transaction."""

    @property
    def kind(self) -> str:
        """The name under which the task is kept."""

    def total(self, connection: Connection) -> int:
        """Return how much there is to do."""

    def step(self, connection: Connection, place: int) -> BatchProgress | None:
        """Do the batch at `place`, 0 being the first; None where nothing was left."""


@dataclass(frozen=True, slots=True)
class Reindexing:
    """Makes the edges of entities, and the search index, anew from their aspects."""

    scope: ReindexScope
    kind: ClassVar[str] = "reindex"

    def total(self, connection: Connection) -> int:
        """Return how many aspects will be looked at."""
        return count_aspects(connection, self.scope)

    def step(self, connection: Connection, place: int) -> BatchProgress | None:
        """Mend the edges and the index of the next entities."""
        done = reindex_batch(connection, self.scope, place)
        if done.last_id is None:
            return None
        noops = max(0, done.aspects - done.changed)
        return BatchProgress(done.last_id, done.changed, done.created, done.deleted, noops)


@dataclass(frozen=True, slots=True)
class Truncation:
    """Deletes events of a timeseries aspect, of all entities of one type."""

    entity_type: str
    span: Span
    kind: ClassVar[str] = "truncate"

    def total(self, connection: Connection) -> int:
        """Return how many events there are to delete."""
        return count_events(connection, self.entity_type, self.span)

    def step(self, connection: Connection, place: int) -> BatchProgress | None:
        """Delete the next events."""
        gone = truncate_batch(connection, self.entity_type, self.span, _EVENTS_AT_ONCE)
        if not gone:
            return None
        return BatchProgress(place + 1 if gone == _EVENTS_AT_ONCE else None, deleted=gone)
