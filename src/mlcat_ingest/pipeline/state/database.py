"""The state database as one run uses it: its first failure ends the use, and not the run."""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final, TypeVar

from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import StateDamagedError, StateUnavailableError
from mlcat_ingest.pipeline.state.opening import translate_errors
from mlcat_ingest.recipe.secrets import mask
from mlcat_ingest.sql.database import Engine, SqlConnection

log = logging.getLogger(__name__)

ValueT = TypeVar("ValueT")

Rows = tuple[str, Iterable[tuple[Any, ...]]]
"""A statement, and the values of its places for each row that it writes."""

IN_LIST: Final = 500
"""Most values in one IN list."""


def in_lists(values: Iterable[str]) -> Iterator[list[str]]:
    """Return `values`, each once and in their order, in lists that fit into an IN list."""
    return chunks(dict.fromkeys(values), IN_LIST)


class RunDatabase:
    """The state database as one run uses it, from any thread; `key` is its recipe and catalog.

    There is none before `start`, and after its first failure: that costs the rest of what would be
    remembered, with one warning, and not the run. `failure` is the last failure; there is no
    warning of damage while the database `may_be_replaced`. `on_problem` is called with the sentence
    of each warning.
    """

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.failure: StateUnavailableError | None = None
        self.may_be_replaced = False
        self.on_problem: Callable[[str], object] = str
        self._lock = threading.Lock()
        self.key = ("", "")
        self.lasting = True
        self.run_ms = 0

    def start(self, engine: Engine, recipe: str, sink: str, *, lasting: bool = True) -> None:
        """Use `engine`, for later runs if `lasting`; the time of now names the run."""
        self.key = (recipe, sink)
        self.lasting = lasting
        self.run_ms = now_ms()
        self.failure = None
        self.engine = engine

    def read(self, work: Callable[[SqlConnection], ValueT], default: ValueT) -> ValueT:
        """Return what `work` reads, `default` where there is no database or it fails."""
        with suppress(StateUnavailableError), self.transaction() as connection:
            return work(connection)
        return default

    def select(
        self,
        make: Callable[..., ValueT],
        statement: str,
        *values: object,
        among: Iterable[str] | None = None,
    ) -> list[ValueT]:
        """Return what `make` makes of each row; nothing where there is no database or it fails.

        The last place of the statement, an `IN ?`, is for the values `among` which to look.

        Cost: one statement, or one for each 500 of `among`.
        """
        found: list[ValueT] = []
        with suppress(StateUnavailableError), self.transaction() as connection:
            for batch in [values] if among is None else ((*values, one) for one in in_lists(among)):
                found.extend(make(*row) for row in connection.execute(statement, *batch))
            return found
        return []

    def change(self, work: Callable[[SqlConnection], object]) -> None:
        """Do `work` in one transaction; nothing where there is no database or it fails."""
        with suppress(StateUnavailableError), self.transaction(write=True) as connection:
            work(connection)

    def save(self, *written: Rows) -> None:
        """Write the rows of each statement in one transaction, as `change` does."""
        with suppress(StateUnavailableError), self.transaction(write=True) as connection:
            for statement, rows in written:
                connection.execute_many(statement, rows)

    @contextmanager
    def transaction(self, *, write: bool = False) -> Iterator[SqlConnection]:
        """Give a connection; where the database fails there is none from then on.

        Raises:
            StateUnavailableError: there is none, or it fails.
        """
        engine = self.engine
        if engine is None:
            raise StateUnavailableError("the state database is not open")
        try:
            with translate_errors(engine), engine.transaction(write=write) as connection:
                yield connection
        except StateUnavailableError as error:
            with self._lock:
                is_first, self.engine = self.engine is engine, None
                self.failure = error
            log.debug("the state database failed", exc_info=True)
            replaced = self.may_be_replaced and isinstance(error, StateDamagedError)
            if is_first and not replaced:
                self.warn(f"{error.message}; the run continues without state")
            raise

    def warn(self, problem: str) -> None:
        """Log a problem of the state, and pass it to `on_problem`."""
        problem = mask(problem)
        log.warning("%s", problem)
        self.on_problem(problem)
