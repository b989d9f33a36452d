"""The state of one run: opened and locked when it begins, committed source by source, closed."""

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import Enum, auto
from tempfile import TemporaryDirectory
from typing import Final

from sqlalchemy import Engine

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import NotAuthorizedError, RecipeError, StateUnavailableError
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.report.report import PassSummary
from mlcat_ingest.pipeline.state import partitions, records
from mlcat_ingest.pipeline.state.database import (
    file_of,
    held_state,
    is_missing,
    open_state,
    read_only,
    translate_errors,
)
from mlcat_ingest.pipeline.state.partitions import PartitionKey, PartitionPass, PartitionRow
from mlcat_ingest.pipeline.state.tracker import Tracker
from mlcat_ingest.sources.base import NullState, Partition, PartitionState

SAMPLE: Final = 100
"""Records whose entities have to be in the catalog still, before a pass believes its state."""

DIRTY: Final = 2_000
"""Dirty records that a pass asks for one by one; where there are more it reads everything."""


_NAMES_TIMEOUT_S: Final = 10.0
_UNREAD: Final = "not read: the run ended before it"

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Options of how far state is believed; `settings` is a digest of the recipe's own."""

    recipe: str
    settings: str = ""
    full_every_s: float = 86_400.0
    full: bool = False
    accept_renaming: bool = False


_NO_RECIPE: Final = StateOptions("")


class StatePolicy(Enum):
    """How a session uses the database of its recipe: locked, copied, or only read."""

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


def equal_identities(readers: str, key: str) -> RecipeError:
    """Return the error about two sources of a recipe, `readers`, that read the partition `key`.

    Each would remove what only the other one lists.
    """
    return RecipeError(
        f"{readers} have the same identity, {key}",
        hint="make one source of them; if they are two stores, set another `server_id` in one",
    )


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
        self._identities: Mapping[str, Mapping[str, str]] = {}
        self._known: list[PartitionRow] = []
        self._sink = ""
        self.tracker = Tracker(mask)

    def open(self, sink: Catalog, *, needs_results: bool = False) -> None:
        """Open the database by the policy, unless `sink` keeps nothing.

        A state file that cannot be made, written or copied is a warning: the run then reads
        everything. A run that `needs_results` of metadata tests and has no database keeps them
        until it ends.

        Raises:
            RecipeLockedError: another run of the recipe is at work.
            RecipeError: the database is damaged, or a newer version made it.
            StateUnavailableError: the database is a server's, and does not answer.
        """
        if self._url is not None and sink.facts.keeps:
            self._sink = sink.address
            if self._policy is StatePolicy.NAMES:
                self._read_identities(self._url)
            else:
                self._remember(self._url, sink)
        if needs_results and not self.tracker.remembers:
            self.tracker.start(self._temporary(), "", "", lasting=False)

    def _read_identities(self, url: str) -> None:
        if is_missing(url):
            return
        with read_only(url, timeout_s=_NAMES_TIMEOUT_S) as connection:
            if connection is not None:
                recipe = self._options.recipe
                self._identities = partitions.names(connection, recipe, self._sink)

    def _remember(self, url: str, sink: Catalog) -> None:
        self._engine = engine = self._database(url)
        if engine is None:
            return
        recipe = self._options.recipe
        self._partitions = RememberedPartitions(engine, sink, self._options)
        self.tracker.start(engine, recipe, self._sink)
        with translate_errors(engine.url):
            known = partitions.partitions_of(engine, recipe)
        self._known = [row for row in known if row.key.sink == self._sink]

    def _database(self, url: str) -> Engine | None:
        copy = self._temporary() if self._policy is StatePolicy.COPY else None
        must_exist = self._policy is StatePolicy.EXISTING
        try:
            if copy is not None:
                partitions.copy_recipe(url, self._options.recipe, copy)
            elif not (must_exist and is_missing(url)):
                return self._held.enter_context(held_state(url, self._options.recipe))
        except (NotAuthorizedError, StateUnavailableError) as error:
            if must_exist or file_of(url) is None:
                raise
            doing = "running" if copy is None else "planning"
            log.warning("%s: no state, so reading everything: %s", doing, error)
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
        before = self._identities.get(partition.key, {})
        for kind, urn in partition.identity.items():
            if before.get(kind, urn) != urn:
                raise RecipeError(
                    f"the naming of recipe {self._options.recipe!r} has changed: "
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
                part.key.source,
                part.full is not None,
                part.why,
                part.key.instance,
                part.current_at_ms,
            )
            for part in passes
        ] + [
            PassSummary(
                row.key.source,
                full=False,
                why=_UNREAD,
                instance=row.key.instance,
                current_at_ms=row.passed_at_ms,
            )
            for row in self._known
            if failed and row.key not in {part.key for part in passes}
        ]

    def source_keys(self) -> list[str]:
        """Return the keys of the sources that earlier runs read for this catalog."""
        return list(dict.fromkeys(row.key.source for row in self._known))

    def urns(self) -> Iterator[list[str]]:
        """Yield the entities of every record, those of some hundred records at a time."""
        if self._engine is not None:
            yield from records.urns_of(self._engine, self._options.recipe, self._sink)

    def invalidate(self) -> None:
        """Have the next run read and compare everything, even if this process is killed."""
        if self._engine is not None:
            with translate_errors(self._engine.url):
                partitions.invalidate(self._engine, self._options.recipe, self._sink)

    def delete(self) -> None:
        """Delete what is kept for this catalog; what is kept for others stays."""
        if self._engine is not None:
            with translate_errors(self._engine.url):
                partitions.delete_recipe(self._engine, self._options.recipe, self._sink)

    def commit(self) -> None:
        """Save the checkpoints: the catalog has acknowledged or refused all that was read."""
        self.tracker.commit(self.partition_passes())

    def close(self) -> None:
        """Save what was acknowledged, and release the lock; safe to call twice."""
        self.tracker.stop()
        self._held.close()


class RememberedPartitions:
    """A `sources.base.RunState` in a database, of one run of one recipe into one catalog."""

    def __init__(self, engine: Engine, sink: Catalog, options: StateOptions) -> None:
        """Remember for the catalog `sink`."""
        self._engine = engine
        self._sink = sink
        self._options = options
        self._passes: dict[PartitionKey, PartitionPass] = {}

    @property
    def passes(self) -> Sequence[PartitionPass]:
        """The partitions of this run so far."""
        return list(self._passes.values())

    def partition(self, partition: Partition) -> PartitionPass:
        """Return a pass over `partition`.

        Raises:
            RecipeError: the URNs of its entities would change, or another source of the recipe
                asked for it.

        Cost: a few statements, and one read request an entity type of the catalog.
        """
        key = PartitionKey(
            self._options.recipe, self._sink.address, partition.key, partition.instance
        )
        if any(known.source == key.source for known in self._passes):
            raise equal_identities("two sources", key.source)
        settings = content_hash([self._options.settings, partition.settings, partition.identity])
        with translate_errors(self._engine.url):
            self._check_identity(key, partition.identity)
            row = partitions.begin(self._engine, key, settings)
            partition_pass = PartitionPass(self._engine, partition, row, self._why_full(row))
        log.info("%s: reading %s", key.source, partition_pass.why)
        self._passes[key] = partition_pass
        return partition_pass

    def _check_identity(self, key: PartitionKey, identity: Mapping[str, str]) -> None:
        before = partitions.identity_of(self._engine, key)
        changed = [kind for kind, urn in identity.items() if before.get(kind, urn) != urn]
        if changed and not self._options.accept_renaming:
            count = self._entities(key, changed)
            # A run that wrote nothing, for example after a clash of names, pins no names.
            if count:
                raise self._renaming(key, before[changed[0]], identity[changed[0]], count)
        if before != identity:
            partitions.save_identity(self._engine, key, identity)

    def _entities(self, key: PartitionKey, kinds: Sequence[str]) -> int:
        """Return how many entities of some kinds are known of a source, whatever its instance."""
        return sum(
            count.records
            for row in partitions.partitions_of(self._engine, key.recipe)
            if (row.key.sink, row.key.source) == (key.sink, key.source)
            for kind, count in partitions.counts(self._engine, row.key).items()
            if kind in kinds
        )

    def _renaming(self, key: PartitionKey, before: str, now: str, count: int) -> RecipeError:
        return RecipeError(
            f"the naming of recipe {key.recipe!r} has changed: {now} instead of {before}; "
            f"{plural(count, 'entity', 'entities')} would be duplicated under new URNs",
            hint="undo the change of `naming`, `env` or `instance`, or run once with "
            "--accept-renaming",
        )

    def _why_full(self, row: PartitionRow) -> str | None:
        """Return why all of a partition has to be read, None where what changed will do."""
        if self._options.full:
            return "everything: a full run was requested"
        if row.checkpoint is None:
            return "everything: no state, or the recipe has changed"
        if row.full_at_ms is None:
            return "everything: the last pass was incomplete"
        age_s = time.time() - row.full_at_ms / 1000
        if not 0 <= age_s < self._options.full_every_s:
            return "everything: the last full pass is older than state.full_every"
        if sum(count.dirty for count in partitions.counts(self._engine, row.key).values()) > DIRTY:
            return "everything: too many records were refused"
        if self._is_sample_missing(row.key):
            return "everything: the catalog lacks entities that were written"
        return None

    def _is_sample_missing(self, key: PartitionKey) -> bool:
        """Return whether the catalog lacks some of a sample of what was written to it.

        Otherwise a run would believe the state of a catalog that was emptied.
        """
        start = secrets.token_hex(16)
        urns = records.sample(self._engine, key.id, start, SAMPLE)
        urns = urns or records.sample(self._engine, key.id, "", SAMPLE)
        by_type: dict[str, list[str]] = {}
        for urn in urns:
            by_type.setdefault(entity_type_of(urn), []).append(urn)
        return any(
            len(self._sink.read_many(members, [key_aspect_name(entity_type)])) < len(set(members))
            for entity_type, members in by_type.items()
        )
