"""The state of one run: opened and locked when it begins, committed source by source, closed."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from enum import Enum, auto
from tempfile import TemporaryDirectory
from typing import Final

from sqlalchemy import Engine

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.errors import NotAuthorizedError, RecipeError, StateUnavailableError
from mlcat_ingest.pipeline.report.report import PassSummary
from mlcat_ingest.pipeline.state import parts, rows
from mlcat_ingest.pipeline.state.database import (
    copy_recipe,
    file_of,
    is_missing,
    open_state,
    read_only,
    translate_errors,
)
from mlcat_ingest.pipeline.state.lock import held_state
from mlcat_ingest.pipeline.state.memory import PartitionPass, RememberedPartitions, StateOptions
from mlcat_ingest.pipeline.state.parts import PartitionRow
from mlcat_ingest.pipeline.state.tracker import Tracker
from mlcat_ingest.sources.base import NullState, Partition, PartitionState

_NAMES_TIMEOUT_S: Final = 10.0
_NO_RECIPE: Final = StateOptions("")
_UNREAD: Final = "not read: the run ended before it"

log = logging.getLogger(__name__)


class StatePolicy(Enum):
    """What a session does with the database of its recipe."""

    KEEP = auto()
    """Hold the recipe's lock and write; a database that is missing is made."""
    EXISTING = auto()
    """Hold the recipe's lock and write; nothing is made where there is no database."""
    COPY = auto()
    """Take no lock, and write to a copy that is deleted with the session.

    So a run decides all that one with `KEEP` would decide, and leaves the database as it was.
    """
    NAMES = auto()
    """Take no lock, keep nothing, and only refuse to name entities another way than before.

    The next run with `KEEP` reads again what such a run read.
    """


class StateSession:
    """The state of a recipe for one catalog, as one run uses it: a `sources.base.RunState`.

    Nothing is remembered before `open`, and nothing for a sink that keeps none.
    """

    def __init__(
        self,
        url: str | None = None,
        options: StateOptions = _NO_RECIPE,
        policy: StatePolicy = StatePolicy.KEEP,
        mask: Callable[[str], str] = str,
    ) -> None:
        """Keep the address; without one nothing is remembered."""
        self._url = url
        self._options = options
        self._policy = policy
        self._held = ExitStack()
        self._engine: Engine | None = None
        self._partitions: RememberedPartitions | None = None
        self._names: Mapping[str, Mapping[str, str]] = {}
        self._known: list[PartitionRow] = []
        self._sink = ""
        self.tracker = Tracker(mask)

    def open(self, sink: Catalog, *, needs_results: bool = False) -> None:
        """Open the database as the policy says, unless `sink` has nothing to remember of.

        A state file that cannot be made, written or copied is a warning: the run then reads
        everything. Where nothing can be remembered and the run `needs_results` of metadata tests,
        these are kept until it ends.

        Raises:
            RecipeLockedError: another run of the recipe is at work.
            RecipeError: the database is damaged, or a newer version made it.
            StateUnavailableError: the database is a server's, and does not answer.
        """
        if self._url is not None and sink.keeps:
            self._sink = sink.address
            if self._policy is StatePolicy.NAMES:
                self._read_names(self._url)
            else:
                self._remember(self._url, sink)
        if needs_results and not self.tracker.remembers:
            self.tracker.start(self._temporary(), "", "", lasting=False)

    def _read_names(self, url: str) -> None:
        if is_missing(url):
            return
        with read_only(url, timeout_s=_NAMES_TIMEOUT_S) as connection:
            if connection is not None:
                self._names = parts.names(connection, self._options.recipe, self._sink)

    def _remember(self, url: str, sink: Catalog) -> None:
        self._engine = engine = self._database(url)
        if engine is None:
            return
        recipe = self._options.recipe
        self._partitions = RememberedPartitions(engine, sink, self._options)
        self.tracker.start(engine, recipe, self._sink)
        with translate_errors(engine.url):
            known = parts.parts_of(engine, recipe)
        self._known = [row for row in known if row.key.sink == self._sink]

    def _database(self, url: str) -> Engine | None:
        copy = self._temporary() if self._policy is StatePolicy.COPY else None
        must_exist = self._policy is StatePolicy.EXISTING
        try:
            if copy is not None:
                copy_recipe(url, self._options.recipe, copy)
            elif not (must_exist and is_missing(url)):
                return self._held.enter_context(held_state(url, self._options.recipe))
        except (NotAuthorizedError, StateUnavailableError) as error:
            if must_exist or file_of(url) is None:
                raise
            doing = "running" if copy is None else "planning"
            log.warning("%s without state, so reading everything: %s", doing, error)
        return copy

    def _temporary(self) -> Engine:
        """Return a database that is deleted when the session is closed."""
        folder = self._held.enter_context(TemporaryDirectory(prefix="mlcat-"))
        engine = open_state(f"sqlite:///{folder}/state.db")
        self._held.callback(engine.dispose)
        return engine

    def partition(self, partition: Partition) -> PartitionState:
        """Return what is remembered of `partition`.

        Raises:
            RecipeError: the URNs of its entities would change.
        """
        if self._partitions is not None:
            return self._partitions.partition(partition)
        before = self._names.get(partition.key, {})
        for kind, urn in partition.identity.items():
            if before.get(kind, urn) != urn:
                raise RecipeError(
                    f"the recipe {self._options.recipe!r} names things another way than before, "
                    f"{urn} instead of {before[kind]}",
                    hint="undo the change of `naming`, `env` or `instance`, or run the recipe once "
                    "with --accept-renaming",
                )
        return NullState()

    def partition_passes(self) -> Sequence[PartitionPass]:
        """Return the passes over the partitions that sources asked for so far, in that order."""
        return () if self._partitions is None else self._partitions.passes

    def pass_summaries(self, *, failed: bool = False) -> list[PassSummary]:
        """Return how each partition of the run is, or was, read.

        If the run `failed`, also the partitions that only earlier runs read.
        """
        passes = self.partition_passes()
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

    def source_keys(self) -> list[str]:
        """Return the keys of the sources that earlier runs read for this catalog."""
        # A place that two sources of the recipe read is kept a second time as `<key>#2`.
        return list(dict.fromkeys(row.key.source.partition("#")[0] for row in self._known))

    def urns(self) -> Iterator[list[str]]:
        """Yield the entities of every record, those of some hundred records at a time."""
        if self._engine is not None:
            yield from rows.urns_of(self._engine, self._options.recipe, self._sink)

    def invalidate(self) -> None:
        """Let the next run read everything and compare it, whatever becomes of this process."""
        if self._engine is not None:
            with translate_errors(self._engine.url):
                parts.invalidate(self._engine, self._options.recipe, self._sink)

    def delete(self) -> None:
        """Delete what is kept for this catalog; what is kept for others stays."""
        if self._engine is not None:
            with translate_errors(self._engine.url):
                parts.delete_recipe(self._engine, self._options.recipe, self._sink)

    def commit(self) -> None:
        """Let the checkpoints of what was read count: the catalog is done with all of it."""
        self.tracker.commit(self.partition_passes())

    def close(self) -> None:
        """Keep what was acknowledged, and let the next run begin; safe to call twice."""
        self.tracker.stop()
        self._held.close()
