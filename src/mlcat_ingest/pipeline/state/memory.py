"""What a run remembers of each partition that it reads, and whether it has to read all of it."""

import logging
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Engine

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.state import parts, rows
from mlcat_ingest.pipeline.state.database import translate_errors
from mlcat_ingest.pipeline.state.parts import PartitionKey, PartitionRow
from mlcat_ingest.sources.base import Partition

log = logging.getLogger(__name__)

SAMPLE: Final = 100
"""Records whose entities have to be in the catalog still, before a pass believes its state."""

DIRTY: Final = 2_000
"""Dirty records that a pass asks for one by one; where there are more it reads everything."""


@dataclass(frozen=True, slots=True)
class StateOptions:
    """What decides how far state is believed; `settings` is a digest of the recipe's own."""

    recipe: str
    settings: str = ""
    full_every_s: float = 86_400.0
    full: bool = False
    accept_renaming: bool = False


class PartitionPass:
    """One pass over a partition: a `PartitionState` that also says how it is to be read."""

    def __init__(
        self, engine: Engine, partition: Partition, row: PartitionRow, full: str | None
    ) -> None:
        """Read everything if `full` gives a reason."""
        self._engine = engine
        self._partition = partition
        self._row = row
        self.full = full
        self.began_at_ms = time.time_ns() // 1_000_000
        self.finished: tuple[Mapping[str, Any], bool] | None = None
        self.current_at_ms = row.passed_at_ms

    @property
    def key(self) -> PartitionKey:
        """What the partition is kept under."""
        return self._row.key

    @property
    def source(self) -> str:
        """What entities of the partition carry as `mlcat.source`."""
        return self._partition.key

    @property
    def entity_types(self) -> Sequence[str]:
        """The types of the entities that are made of its records."""
        return sorted(set(map(entity_type_of, self._partition.identity.values())))

    @property
    def is_complete(self) -> bool:
        """Whether every record of the partition was listed in this pass."""
        return self.finished is not None and self.finished[1]

    @property
    def part_id(self) -> int:
        """The number its rows carry."""
        return self._row.key.id

    @property
    def number(self) -> int:
        """The number of this pass."""
        return self._row.pass_number

    @property
    def why(self) -> str:
        """Why the partition is read the way it is, as words for the user."""
        return self.full or "what changed since the last run"

    @property
    def checkpoint(self) -> Mapping[str, Any] | None:
        """What `finish` was given after the last pass; None: everything has to be read."""
        return None if self.full else self._row.checkpoint

    def fingerprints(self, kind: str) -> Mapping[str, str]:
        """Return the fingerprints of records of a kind that have one."""
        return self._column(kind, "fingerprint")

    def joined_fingerprints(self, kind: str) -> Mapping[str, str]:
        """Return the joined fingerprints of records of a kind that have one."""
        return self._column(kind, "joined_fingerprint")

    def dirty(self, kind: str) -> Sequence[str]:
        """Return the records of a kind that could not be mapped, or that the catalog refused."""
        return list(self._column(kind, "reason"))

    def _column(self, kind: str, name: str) -> Mapping[str, str]:
        with translate_errors(self._engine.url):
            return rows.column_of(self._engine, self.part_id, kind, name)

    def finish(self, checkpoint: Mapping[str, Any], *, complete: bool) -> None:
        """Keep for `commit` that the partition is read."""
        self.finished = (checkpoint, complete)

    def commit(self, engine: Engine) -> None:
        """Let the checkpoint count: everything that was read is acknowledged."""
        if self.finished is not None:
            parts.finish(
                engine,
                self.key,
                self.finished[0],
                self.began_at_ms,
                full=self.full is not None and self.is_complete,
            )
            self.finished = None
            self.current_at_ms = self.began_at_ms

    def reopen(self, engine: Engine) -> None:
        """Keep nothing of this pass if it came to its end: the next one has to read everything."""
        if self.finished is not None:
            parts.reopen(engine, self.key)
            self.finished = None


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
            RecipeError: the URNs of its entities would change.

        Cost: a few statements, and one read request an entity type of the catalog.
        """
        key = self._key(partition)
        settings = content_hash([self._options.settings, partition.settings, partition.identity])
        with translate_errors(self._engine.url):
            self._pin(key, partition.identity)
            row = parts.begin(self._engine, key, settings)
            one = PartitionPass(self._engine, partition, row, self._why_full(row))
        log.info("%s: reading %s", key.source, one.why)
        self._passes[key] = one
        return one

    def _key(self, part: Partition) -> PartitionKey:
        recipe, address = self._options.recipe, self._sink.address
        key = PartitionKey(recipe, address, part.key, part.instance)
        again = 1
        while key in self._passes:
            # Two sources of a recipe may read one place, each with filters of its own.
            again += 1
            key = PartitionKey(recipe, address, f"{part.key}#{again}", part.instance)
        return key

    def _pin(self, key: PartitionKey, identity: Mapping[str, str]) -> None:
        before = parts.pinned(self._engine, key)
        changed = [kind for kind, urn in identity.items() if before.get(kind, urn) != urn]
        if changed and not self._options.accept_renaming:
            count = self._entities(key, changed)
            # A run that got nothing into the catalog, a clash of names say, leaves nothing to keep.
            if count:
                raise self._renaming(key, before[changed[0]], identity[changed[0]], count)
        if before != identity:
            parts.pin(self._engine, key, identity)

    def _entities(self, key: PartitionKey, kinds: Sequence[str]) -> int:
        """Return how many entities of some kinds are known of a source, whatever its instance."""
        return sum(
            found.records
            for row in parts.parts_of(self._engine, key.recipe)
            if (row.key.sink, row.key.source) == (key.sink, key.source)
            for kind, found in parts.counts(self._engine, row.key).items()
            if kind in kinds
        )

    def _renaming(self, key: PartitionKey, before: str, now: str, count: int) -> RecipeError:
        return RecipeError(
            f"the recipe {key.recipe!r} names things another way than before, "
            f"{now} instead of {before}: {count:,} entities would stand in the "
            f"catalog a second time, under new URNs",
            hint="undo the change of `naming`, `env` or `instance`, or run once with "
            "--accept-renaming",
        )

    def _why_full(self, row: PartitionRow) -> str | None:
        """Return why all of a partition has to be read, None where what changed will do."""
        if self._options.full:
            return "everything, as asked for"
        if row.checkpoint is None:
            return "everything: nothing is remembered of it, or the recipe has changed"
        if row.full_at_ms is None:
            return "everything: the last pass could not do all that it found"
        age_s = time.time() - row.full_at_ms / 1000
        if not 0 <= age_s < self._options.full_every_s:
            return "everything: the last time was longer ago than state.full_every"
        if sum(found.dirty for found in parts.counts(self._engine, row.key).values()) > DIRTY:
            return "everything: too many records were refused"
        if self._lost(row.key):
            return "everything: the catalog lacks what was written to it"
        return None

    def _lost(self, key: PartitionKey) -> bool:
        """Return whether the catalog lacks some of a sample of what was written to it.

        State would be believed for ever by who emptied the catalog behind it.
        """
        start = secrets.token_hex(16)
        urns = rows.sample(self._engine, key.id, start, SAMPLE)
        urns = urns or rows.sample(self._engine, key.id, "", SAMPLE)
        by_type: dict[str, list[str]] = {}
        for urn in urns:
            by_type.setdefault(entity_type_of(urn), []).append(urn)
        return any(
            len(self._sink.read_many(some, [key_aspect_name(entity_type)])) < len(set(some))
            for entity_type, some in by_type.items()
        )
