"""Writes that were begun and not acknowledged: the next run writes these entities again.

A service may fail after its database took a write and before its search index learns of it. Then
an entity is stored and never found, until it is written again, with the same values too.
"""

import threading
from collections.abc import Collection
from typing import Final

from sqlalchemy import Engine, select

from mlcat_ingest.pipeline.state.database import RunDatabase, translate_errors
from mlcat_ingest.pipeline.state.tables import unacknowledged
from mlcat_ingest.sql.engine import write_rows, write_transaction

_BEGIN: Final = (
    "INSERT INTO state_unacknowledged (recipe, sink, urn) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
)
_DELETE: Final = "DELETE FROM state_unacknowledged WHERE recipe = ? AND sink = ? AND urn = ?"


class UnacknowledgedWrites:
    """The entities whose writes are under way, of one recipe in one catalog; from any thread.

    Attributes:
        earlier: entities whose writes an earlier run began, and no run saw the end of.
    """

    def __init__(self, database: RunDatabase) -> None:
        """Keep them in `database` once it is started."""
        self._database = database
        self._lock = threading.Lock()
        self._ended: set[str] = set()
        self.earlier: set[str] = set()

    def load(self) -> None:
        """Find what earlier runs left.

        Raises:
            StateUnavailableError: the database fails.
        """
        own = self._database
        if own.engine is None:
            return
        conditions = unacknowledged.c.recipe == own.recipe, unacknowledged.c.sink == own.sink
        with translate_errors(own.engine.url), own.engine.connect() as connection:
            self.earlier.update(connection.scalars(select(unacknowledged.c.urn).where(*conditions)))

    def begin(self, urns: Collection[str]) -> None:
        """Keep that `urns` are about to be written; a run that is killed leaves them.

        Cost: one transaction, which also deletes those whose writes have ended since the last one.
        """
        with self._lock:
            ended, self._ended = self._ended.difference(urns), set()
            self._database.attempt(lambda engine: self._save(engine, urns, ended), None)

    def end(self, urns: Collection[str]) -> None:
        """Take note that the catalog took or refused `urns`; the next `begin` deletes them."""
        with self._lock:
            self._ended.update(urns)
            self.earlier.difference_update(urns)

    def _save(self, engine: Engine, begun: Collection[str], ended: Collection[str]) -> None:
        own = self._database
        with write_transaction(engine) as connection:
            # In one order, so that two writers never wait for each other.
            for statement, urns in ((_DELETE, ended), (_BEGIN, begun)):
                if urns:
                    rows = ((own.recipe, own.sink, urn) for urn in sorted(urns))
                    write_rows(connection, statement, rows)
