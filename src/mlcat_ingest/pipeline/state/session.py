"""The state of one run: opened and locked when it begins, committed source by source, closed."""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import Final

from mlcat_ingest.errors import StateUnavailableError
from mlcat_ingest.pipeline.report import PassSummary
from mlcat_ingest.pipeline.state.database import file_of, open_state, told
from mlcat_ingest.pipeline.state.lock import held_state
from mlcat_ingest.pipeline.state.memory import MemoryOptions, PartPass, StateMemory
from mlcat_ingest.pipeline.state.parts import PartRow, parts_of
from mlcat_ingest.pipeline.state.tracker import Tracker
from mlcat_ingest.sinks.base import Sink
from mlcat_ingest.sources.base import Forgetful, Memory

_UNREAD: Final = "not read: the run ended before it"

log = logging.getLogger(__name__)


class State:
    """What one run remembers; nothing before `open`, and nothing for a sink that keeps none."""

    def __init__(
        self,
        url: str | None = None,
        options: MemoryOptions | None = None,
        mask: Callable[[str], str] = str,
    ) -> None:
        """Keep the address; without one nothing is remembered."""
        self._url = url
        self._options = options
        self._held = ExitStack()
        self._remembered: StateMemory | None = None
        self._known: list[PartRow] = []
        self.tracker = Tracker(mask)

    @property
    def memory(self) -> Memory:
        """What sources ask for their parts."""
        return self._remembered or Forgetful()

    def open(self, sink: Sink, *, always: bool = False) -> None:
        """Open the database and take the recipe's lock, unless `sink` has nothing to remember of.

        A state file that cannot be made or written is a warning: the run then reads everything.
        Where nothing can be remembered and `always` asks for it all the same, what the run learns
        of metadata tests is kept until it ends.

        Raises:
            RecipeLockedError: another run of the recipe is at work.
            RecipeError: the database is damaged, or a newer version made it.
            StateUnavailableError: the database is a server's, and does not answer.
        """
        self._remember(sink)
        if always and self._remembered is None:
            self._remember_until_closed()

    def _remember(self, sink: Sink) -> None:
        address = sink.address()
        if self._url is None or self._options is None or address is None:
            return
        try:
            engine = self._held.enter_context(held_state(self._url, self._options.recipe))
        except StateUnavailableError as error:
            if file_of(self._url) is None:
                raise
            log.warning("running without state, so reading everything: %s", error)
            return
        self._remembered = StateMemory(engine, sink, address, self._options)
        self.tracker.start(engine, self._options.recipe, address)
        with told(engine.url):
            known = parts_of(engine, self._options.recipe)
        self._known = [row for row in known if row.key.sink == address]

    def _remember_until_closed(self) -> None:
        folder = self._held.enter_context(TemporaryDirectory(prefix="mlcat-"))
        engine = open_state(f"sqlite:///{folder}/results.db")
        self._held.callback(engine.dispose)
        self.tracker.start(engine, "", "", lasting=False)

    def parts(self) -> Sequence[PartPass]:
        """Return the parts that sources asked for so far, in that order."""
        return () if self._remembered is None else self._remembered.passes

    def passes(self, *, failed: bool = False) -> list[PassSummary]:
        """Return how each part of the run is, or was, read; if it `failed`, also what it was not.

        Those are the parts that earlier runs read.
        """
        passes = self.parts()
        return [
            PassSummary(
                one.key.source, one.full is not None, one.why, one.key.instance, one.current_at_ms
            )
            for one in passes
        ] + [
            PassSummary(
                row.key.source,
                full=False,
                why=_UNREAD,
                instance=row.key.instance,
                current_at_ms=row.passed_at_ms,
            )
            for row in self._known
            if failed and row.key not in {one.key for one in passes}
        ]

    def commit(self) -> None:
        """Let the checkpoints of what was read count: the catalog is done with all of it."""
        if self._remembered is not None:
            self.tracker.commit(self._remembered.passes)

    def close(self) -> None:
        """Keep what was acknowledged, and let the next run begin; safe to call twice."""
        self.tracker.stop()
        self._held.close()
