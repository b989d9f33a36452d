"""What `catalog reindex` does to a database that nobody serves."""

import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from mlcat_ingest.catalog.server.lock import ServerLock
from mlcat_ingest.catalog.store.reindex import rebuild
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.cli.output import PLAIN_INTERVAL_S, log
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.sql.engine import database_url


def rebuild_index(database: str) -> int:
    """Make search index and edges in `database` anew and return the number of its entities.

    Raises:
        RecipeError: there is no catalog, or somebody serves it.
    """
    path = Path(database_url(database).database or "")
    if not path.is_file():
        raise RecipeError(f"there is no catalog at {path}")
    with ServerLock.acquire(database), closing(Store.open(database)) as store:
        progress = ReindexProgress()
        return store.change(lambda connection: rebuild(connection, progress))


class ReindexProgress:
    """Logs how many entities are indexed, at most every five seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Be silent for the first five seconds."""
        self._clock = clock
        self._next_s = clock() + PLAIN_INTERVAL_S

    def __call__(self, entities: int) -> None:
        """Log the number of `entities` if it is time."""
        if self._clock() >= self._next_s:
            self._next_s = self._clock() + PLAIN_INTERVAL_S
            log.info("%s entities indexed", f"{entities:,}")
