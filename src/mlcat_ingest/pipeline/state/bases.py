"""The bases of entities as they were last written: another tool may drop them in the catalog."""

from collections.abc import Mapping

from sqlalchemy import Engine, exists, select

from mlcat_ingest.pipeline.state.database import RunDatabase
from mlcat_ingest.pipeline.state.tables import base
from mlcat_ingest.sql.engine import write_rows, write_transaction

_SAVE = (
    "INSERT INTO state_base (recipe, sink, urn, text) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (recipe, sink, urn) DO UPDATE SET text = excluded.text"
)


class AppliedBases:
    """The bases that one recipe wrote to one catalog, from any thread.

    A base that cannot be kept or read is one that the state does not know.
    """

    def __init__(self, database: RunDatabase) -> None:
        """Keep them in `database` once it is started."""
        self._database = database
        self.is_new = False
        """True where an earlier run kept none: then those of unchanged entities are missing too."""

    def start(self) -> None:
        """Look if there are any; the database is started."""
        self.is_new = self._database.attempt(self._has_none, False)

    def _has_none(self, engine: Engine) -> bool:
        own = self._database
        found = select(base.c.urn).where(base.c.recipe == own.recipe, base.c.sink == own.sink)
        with engine.connect() as connection:
            return not connection.scalar(select(exists(found)))

    def get(self, urn: str) -> str | None:
        """Return the base of an entity as it was last written. Cost: one statement."""

        def read(engine: Engine) -> str | None:
            own = self._database
            with engine.connect() as connection:
                return connection.scalar(
                    select(base.c.text).where(
                        base.c.recipe == own.recipe, base.c.sink == own.sink, base.c.urn == urn
                    )
                )

        return self._database.attempt(read, None)

    def save(self, texts: Mapping[str, str]) -> None:
        """Keep bases by URN, once the catalog has acknowledged them."""
        if not texts:
            return
        own = self._database
        # In one order, so that two writers never wait for each other.
        rows = ((own.recipe, own.sink, urn, texts[urn]) for urn in sorted(texts))

        def save(engine: Engine) -> None:
            with write_transaction(engine) as connection:
                write_rows(connection, _SAVE, rows)

        own.attempt(save, None)
