"""What a recipe remembers of one catalog, held while what it wrote there is taken back."""

from collections.abc import Iterator
from contextlib import ExitStack

from sqlalchemy import ColumnElement, Engine, Select, select, update

from mlcat_ingest.pipeline.state import parts, tables
from mlcat_ingest.pipeline.state.database import told
from mlcat_ingest.pipeline.state.lock import held_state
from mlcat_ingest.pipeline.state.summary import is_missing
from mlcat_ingest.sql.engine import write_transaction

_ROWS = 500


class KeptState:
    """The state of a recipe for one catalog; empty, and not made, where there is none."""

    def __init__(self, url: str, recipe: str, address: str) -> None:
        """Keep the places; nothing is opened."""
        self._url = url
        self._recipe = recipe
        self._address = address
        self._engine: Engine | None = None
        self._held = ExitStack()

    def open(self) -> None:
        """Open the database and take the recipe's lock.

        Raises:
            RecipeLockedError: a run of the recipe is at work.
            RecipeError: the database is damaged, or a newer version made it.
            StateUnavailableError: it cannot be reached.
        """
        if is_missing(self._url):
            return
        self._engine = self._held.enter_context(held_state(self._url, self._recipe))

    def sources(self) -> list[str]:
        """Return the keys of the sources that were read for this catalog."""
        if self._engine is None:
            return []
        with told(self._url):
            found = parts.parts_of(self._engine, self._recipe)
        # A place that two sources of the recipe read is kept a second time as `<key>#2`.
        keys = (row.key.source.partition("#")[0] for row in found if self._is_here(row))
        return list(dict.fromkeys(keys))

    def _is_here(self, row: parts.PartRow) -> bool:
        return row.key.sink == self._address

    def urns(self) -> Iterator[list[str]]:
        """Yield the entities of every record, those of some hundred records at a time."""
        if self._engine is None:
            return
        statement = select(tables.record.c.urns).where(
            tables.record.c.part_id.in_(self._ids), tables.record.c.urns != ""
        )
        with told(self._url), self._engine.connect() as connection:
            rows = connection.execution_options(yield_per=_ROWS).scalars(statement)
            for some in rows.partitions(_ROWS):
                yield [urn for urns in some for urn in urns.split("\n")]

    @property
    def _ids(self) -> Select[tuple[int]]:
        return select(tables.part.c.id).where(*self._here)

    @property
    def _here(self) -> tuple[ColumnElement[bool], ...]:
        return tables.part.c.recipe == self._recipe, tables.part.c.sink == self._address

    def doubt(self) -> None:
        """Let the next run read everything and compare it, whatever becomes of this process."""
        if self._engine is None:
            return
        with told(self._url), write_transaction(self._engine) as connection:
            connection.execute(update(tables.part).where(*self._here).values(checkpoint=None))
            connection.execute(
                update(tables.record)
                .where(tables.record.c.part_id.in_(self._ids))
                .values(digest="")
            )

    def forget(self) -> None:
        """Delete what is kept for this catalog; what is kept for others stays."""
        if self._engine is not None:
            with told(self._url):
                parts.forget(self._engine, self._recipe, self._address)

    def close(self) -> None:
        """Let the next run begin; safe to call twice."""
        self._held.close()
