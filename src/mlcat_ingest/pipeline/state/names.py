"""The state of a run that may be beside another: no lock, nothing kept, names held to what was."""

from collections.abc import Callable

from sqlalchemy import Engine

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.pipeline.state import tables
from mlcat_ingest.pipeline.state.database import told
from mlcat_ingest.pipeline.state.parts import PartKey, pinned
from mlcat_ingest.pipeline.state.session import State
from mlcat_ingest.pipeline.state.summary import is_missing
from mlcat_ingest.sinks.base import Sink
from mlcat_ingest.sources.base import Forgetful, Memory, Part, PartState
from mlcat_ingest.sql.migrations import pending
from mlcat_ingest.sql.readonly import open_readonly

_TIMEOUT_S = 10.0


class NamesState(State):
    """Looks up how a recipe named things, and keeps nothing.

    So its run waits for no other one of the recipe and disturbs none: what is ours on an entity
    stands beside it in the catalog, and the next pass reads again what this one read.
    """

    def __init__(self, url: str, recipe: str, mask: Callable[[str], str] = str) -> None:
        """Keep the place; nothing is opened."""
        super().__init__(mask=mask)
        self._at, self._recipe = url, recipe
        self._names: Memory = Forgetful()

    @property
    def memory(self) -> Memory:
        """What sources ask for their parts."""
        return self._names

    def open(self, sink: Sink, *, always: bool = False) -> None:
        """Open the state to read, where there is one.

        Raises:
            RecipeError: the database is damaged, or a newer version made it.
            StateUnavailableError: it cannot be reached.
        """
        del always  # there is no gate
        address = sink.address()
        if address is None or is_missing(self._at):
            return
        engine = open_readonly(self._at, timeout_s=_TIMEOUT_S)
        self._held.callback(engine.dispose)
        with told(self._at), engine.connect() as connection:
            older = pending(connection, tables.COMPONENT, tables.MIGRATIONS)
        if not older:
            self._names = _Names(engine, self._at, self._recipe, address)


class _Names:
    """A memory that knows how URNs were made, and nothing else."""

    def __init__(self, engine: Engine, url: str, recipe: str, address: str) -> None:
        self._engine, self._url = engine, url
        self._recipe, self._address = recipe, address

    def part(self, part: Part) -> PartState:
        key = PartKey(self._recipe, self._address, part.key, part.instance)
        with told(self._url):
            before = pinned(self._engine, key)
        for kind, urn in part.identity.items():
            if before.get(kind, urn) != urn:
                raise RecipeError(
                    f"the recipe {self._recipe!r} names things another way than before, {urn} "
                    f"instead of {before[kind]}",
                    hint="undo the change of `naming`, `env` or `instance`, or run the recipe once "
                    "with --accept-renaming",
                )
        return Forgetful()
