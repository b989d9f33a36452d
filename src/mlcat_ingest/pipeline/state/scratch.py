"""The state of a run that writes nothing: a copy of what the recipe remembers, then thrown away.

So such a run decides all that a real one would decide, waits for no lock, and leaves no trace.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, Engine, insert, select

from mlcat_ingest.errors import NotAuthorizedError, StateUnavailableError
from mlcat_ingest.pipeline.state import tables
from mlcat_ingest.pipeline.state.database import file_of, lasting_address, open_state, shown, told
from mlcat_ingest.pipeline.state.memory import MemoryOptions
from mlcat_ingest.pipeline.state.session import State
from mlcat_ingest.pipeline.state.summary import is_missing
from mlcat_ingest.sinks.base import Sink
from mlcat_ingest.sql.engine import write_transaction
from mlcat_ingest.sql.migrations import pending
from mlcat_ingest.sql.readonly import open_readonly

log = logging.getLogger(__name__)

_TIMEOUT_S = 60.0
_ROWS = 1_000


class ScratchState(State):
    """A copy of the state, in a temporary folder while it is open."""

    def __init__(self, url: str, options: MemoryOptions, mask: Callable[[str], str] = str) -> None:
        """Copy from the database at `url`, once opened."""
        super().__init__(url, options, mask)
        self._original, self._recipe = url, options.recipe
        self._folder: TemporaryDirectory[str] | None = None

    def open(self, sink: Sink, *, always: bool = False) -> None:
        """Copy what the recipe remembers, and open that, unless `sink` has nothing to remember of.

        Raises:
            RecipeError: the database is damaged, or a newer version made it.
            StateUnavailableError: it is a server's, and does not answer.
        """
        del always  # nothing is evaluated
        if sink.address() is None:
            return
        self._folder = TemporaryDirectory(prefix="mlcat-plan-")
        self._url = f"sqlite:///{Path(self._folder.name) / 'state.db'}"
        try:
            copy_recipe(self._original, self._recipe, self._url)
        except (NotAuthorizedError, StateUnavailableError) as error:
            if file_of(self._original) is None:
                raise
            # A run warns and goes on, so a plan does.
            log.warning("planning without state, so reading everything: %s", error)
        super().open(sink)

    def close(self) -> None:
        """Throw the copy away; safe to call twice."""
        super().close()
        if self._folder is not None:
            self._folder.cleanup()


def copy_recipe(url: str, recipe: str, to_url: str) -> None:
    """Copy what the database at `url` keeps of a recipe's records to another, which is made.

    A database of an older version is not brought up to date for that: nothing is copied.

    Raises:
        RecipeError: the database cannot hold state, is damaged, or a newer version made it.
        StateUnavailableError: it cannot be reached, or the copy cannot be made.

    Cost: a statement a table; memory for a thousand rows.
    """
    lasting_address(url)
    target = open_state(to_url)
    try:
        if is_missing(url):
            return
        source = open_readonly(url, timeout_s=_TIMEOUT_S)
        try:
            with told(url), source.connect() as connection, connection.begin():
                if pending(connection, tables.COMPONENT, tables.MIGRATIONS):
                    log.warning("an older version kept %s: planning without it", shown(url))
                else:
                    _copy(connection, recipe, target)
        finally:
            source.dispose()
    finally:
        target.dispose()


def _copy(source: Connection, recipe: str, target: Engine) -> None:
    ids = select(tables.part.c.id).where(tables.part.c.recipe == recipe)
    with write_transaction(target) as connection:
        for table in (tables.part, tables.identity, tables.record, tables.absent):
            mine = table.c.recipe == recipe if "recipe" in table.c else table.c.part_id.in_(ids)
            rows = source.execution_options(yield_per=_ROWS).execute(select(table).where(mine))
            for some in rows.mappings().partitions(_ROWS):
                connection.execute(insert(table), [dict(row) for row in some])
