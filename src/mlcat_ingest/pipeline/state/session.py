"""The state of one run: opened and locked when it begins, committed source by source, closed."""

import logging
import secrets
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import partial
from tempfile import TemporaryDirectory
from typing import Final, TypeVar

from mlcat_ingest.client.base import Catalog, each_type
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import (
    NotAuthorizedError,
    RecipeError,
    StateDamagedError,
    StateUnavailableError,
)
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.registry import key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.report.report import PassSummary
from mlcat_ingest.pipeline.state import partitions, records
from mlcat_ingest.pipeline.state.database import RunDatabase
from mlcat_ingest.pipeline.state.entities import KnownEntities
from mlcat_ingest.pipeline.state.locks import held_state
from mlcat_ingest.pipeline.state.opening import (
    file_of,
    is_missing,
    open_state,
    read_only,
    replace_damaged,
    set_aside,
    translate_errors,
)
from mlcat_ingest.pipeline.state.partitions import PartitionKey, PartitionPass, PartitionRow
from mlcat_ingest.sources.base import NullState, Partition, PartitionState
from mlcat_ingest.sql.database import Engine, SqlConnection

SAMPLE: Final = 100
"""Records whose entities have to be in the catalog still, before a pass believes its state."""

DIRTY: Final = 2_000
"""Dirty records that a pass asks for one by one; where there are more it reads everything."""

_NAMES_TIMEOUT_S: Final = 10.0
_KnownT = TypeVar("_KnownT")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StateOptions:
    """Options of how far state is believed; `settings` is a digest of the recipe's own.

    `writer_ids` are those of the recipe, its own first. None: that of the state, or a new one.
    Empty: that of the state, or none. `identities` are how URNs were made so far, by source, for a
    run that keeps no state.
    """

    recipe: str
    writer_ids: Sequence[str] | None = None
    identities: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    settings: str = ""
    full_every_s: float = 86_400.0
    full: bool = False
    accept_renaming: bool = False


_NO_RECIPE: Final = StateOptions("")


class StatePolicy(Enum):
    """How a session uses the database of its recipe."""

    KEEP = auto()
    """Hold the recipe's lock and write; a database that is missing is made."""
    COPY = auto()
    """Take no lock, and write to a copy that is deleted with the session.

    So a run decides all that one with `KEEP` would decide, and leaves the database as it was.
    """


def _new_writer_id() -> str:
    return secrets.token_hex(6)


def shared_writer_ids(url: str, recipe: str) -> Sequence[str]:
    """Return the writer ids in a state that several processes share; the first one makes it.

    There are none where it cannot be kept.
    """
    try:
        engine = open_state(url)
        with ExitStack() as opened, translate_errors(engine):
            opened.callback(engine.dispose)
            connection = opened.enter_context(engine.transaction(write=True))
            known = partitions.writer_ids(connection, recipe)
            if not known:
                known = [_new_writer_id()]
                connection.execute(partitions.SAVE_WRITER, recipe, *known, 0)
            return known
    except StateUnavailableError as error:
        log.warning("writing without a writer id, so nothing can be removed: %s", error)
        return ()


def known_writer_ids(url: str, recipe: str) -> Sequence[str]:
    """Return the writer ids in a state, its own first; none where there is none to be read."""
    return _known(url, partial(partitions.writer_ids, recipe=recipe))


def known_tests(url: str, recipe: str) -> Sequence[str]:
    """Return the digests of metadata tests that the passes of a recipe ended with, if any."""
    return [row.tests for row in _known(url, partial(partitions.partitions_of, recipe=recipe))]


def known_bases(url: str, recipe: str, sink: str, urn: str) -> Mapping[str, str]:
    """Return the base of an entity in a state, by the recipe; empty where there is none."""
    wanted = "SELECT base FROM state_entity WHERE recipe = ? AND sink = ? AND urn = ?"
    texts = _known(url, lambda connection: list(connection.scalars(wanted, recipe, sink, urn)))
    return dict.fromkeys([recipe], texts[0]) if any(texts) else {}


def _known(url: str, read: Callable[[SqlConnection], Sequence[_KnownT]]) -> Sequence[_KnownT]:
    """Return what `read` finds in a state, nothing where there is none to be read."""
    with suppress(NotAuthorizedError, StateUnavailableError):
        if not is_missing(url):
            with read_only(url, timeout_s=_NAMES_TIMEOUT_S) as connection:
                return () if connection is None else read(connection)
    return ()


def names_of(url: str, options: StateOptions, sink: str) -> StateOptions:
    """Return the options of a run beside those that keep the state at `url`.

    It keeps nothing and takes no lock: it has the writer's id, and refuses to name entities another
    way than before. The next run that keeps state reads again what it read.

    Raises:
        RecipeError: a newer version made the database.
        StateUnavailableError: the database is a server's, and does not answer.
    """
    if is_missing(url):
        return options
    try:
        with read_only(url, timeout_s=_NAMES_TIMEOUT_S) as connection:
            if connection is None:
                return options
            recipe = options.recipe
            ids = (*(options.writer_ids or ()), *partitions.writer_ids(connection, recipe))
            rows = partitions.partitions_of(connection, recipe)
            known = {row.key.source: row.identity for row in rows if row.key.sink == sink}
            return replace(options, writer_ids=ids, identities=known)
    except (NotAuthorizedError, StateUnavailableError) as error:
        if file_of(url) is None:
            raise
        log.warning("running: names are not compared with those before: %s", error)
        return options


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
    ) -> None:
        """Keep the address; without one nothing is remembered."""
        self._url = url
        self._options = options
        self._policy = policy
        self._held = ExitStack()
        self._engine: Engine | None = None
        self._holds_file = False
        self._passes: dict[PartitionKey, PartitionPass] = {}
        self._known: list[PartitionRow] = []
        self._sink: Catalog | None = None
        self.database = RunDatabase()
        self.entities = KnownEntities(self.database)
        self.writer = Writer("")
        """Who writes the bases of the run."""

    def open(
        self,
        sink: Catalog,
        *,
        needs_results: bool = False,
        required: bool = False,
        on_problem: Callable[[str], object] = str,
    ) -> None:
        """Open the database by the policy, unless `sink` keeps nothing.

        A state file that cannot be made, written or copied is a warning, which `on_problem` is
        called with, too: the run then reads everything. A damaged one is set aside for a fresh one.
        A run that `needs_results` of metadata tests and has no database keeps them until it ends.
        Where state is `required`, such a file is an error: what it says would not be true any more.

        Raises:
            RecipeLockedError: another run of the recipe is at work.
            RecipeError: a newer version made the database.
            StateUnavailableError: the database is a server's, and does not answer; or it is
                `required`, and cannot be used.
        """
        self.database.on_problem = on_problem
        self.writer = self._writer_of(())
        if self._url is not None and sink.facts.keeps:
            engine = self._open_database(self._url, required=required)
            if engine is not None:
                self._sink = sink
                self._start(engine, sink)
                if not self.remembers:
                    self._replace()
            if self._options.writer_ids is None and not self.writer.id:
                self.writer = self._writer_of([_new_writer_id()])
        if needs_results and not self.remembers:
            self.database.start(self._temporary(), "", "", lasting=False)
            self.entities = KnownEntities(self.database)

    @property
    def remembers(self) -> bool:
        """True while there is a database that has not failed."""
        return self.database.engine is not None

    def _start(self, engine: Engine, sink: Catalog) -> None:
        self._engine = engine
        recipe = self._options.recipe
        self.database.may_be_replaced = self._holds_file
        self.database.start(engine, recipe, sink.address)
        self.entities = KnownEntities(self.database)
        rows, ids = self.database.read(
            lambda connection: (
                partitions.partitions_of(connection, recipe),
                partitions.writer_ids(connection, recipe),
            ),
            (list[PartitionRow](), list[str]()),
        )
        self._known = [row for row in rows if row.key.sink == sink.address]
        # The first run makes an id.
        new = [_new_writer_id()] if not ids and self._options.writer_ids is None else ids
        self.writer = self._writer_of(new)
        if self.writer.id and ids[:1] != [self.writer.id]:
            self.adopt(())

    def _writer_of(self, known: Sequence[str]) -> Writer:
        own, *adopted = (*(self._options.writer_ids or ()), *known, "")
        return Writer(self._options.recipe, own, frozenset(adopted) - {""})

    def adopt(self, ids: Collection[str]) -> None:
        """Take over the entities of other writers of the recipe's name, from now on."""
        self.writer = replace(self.writer, adopted=self.writer.adopted.union(ids))
        self.database.save(*partitions.writer_rows(self.writer))

    def _open_database(self, url: str, *, required: bool) -> Engine | None:
        copy = self._temporary() if self._policy is StatePolicy.COPY else None
        try:
            if copy is not None:
                partitions.copy_recipe(url, self._options.recipe, copy)
            else:
                state = held_state(url, self._options.recipe, self.database.warn)
                engine = self._held.enter_context(state)
                self._holds_file = file_of(url) is not None
                return engine
        except (NotAuthorizedError, StateUnavailableError) as error:
            if required or file_of(url) is None:
                raise
            doing = "running" if copy is None else "planning"
            self.database.warn(f"{doing}: no state, so reading everything: {error}")
        return copy

    def _replace(self) -> bool:
        """Use a fresh database in place of a damaged file; return whether there is one now."""
        damage = self._damage()
        if damage is None or self._sink is None or not self.database.may_be_replaced:
            return False
        warn = self.database.warn
        try:
            engine = replace_damaged(self._url or "", self._options.recipe, damage, warn)
        except StateUnavailableError as error:
            warn(str(error))
            return False
        self._held.callback(engine.dispose)
        self._start(engine, self._sink)
        return True

    def _damage(self) -> StateDamagedError | None:
        """Return the damage of the file that this session has locked, which is closed for that."""
        failure = self.database.failure
        if not self._holds_file or not isinstance(failure, StateDamagedError):
            return None
        if self._engine is not None:
            self._engine.dispose()
        return failure

    def _temporary(self) -> Engine:
        """Return a database that is deleted when the session is closed."""
        folder = self._held.enter_context(TemporaryDirectory(prefix="mlcat-"))
        engine = open_state(f"sqlite:///{folder}/state.db")
        self._held.callback(engine.dispose)
        return engine

    def partition(self, partition: Partition) -> PartitionState:
        """Return what is remembered of `partition`.

        Raises:
            RecipeError: the URNs of its entities would change, or another source of the recipe
                asked for it.

        Cost: a few statements, and one read request an entity type of the catalog.
        """
        if self._sink is not None:
            found = self._begin(self._sink, partition)
            if found is None and self._replace():
                found = self._begin(self._sink, partition)
            # The rows of a pass would have no place in a fresh database.
            self.database.may_be_replaced = False
            return found or NullState()
        before = self._options.identities.get(partition.key, {})
        for kind in _changed_kinds(before, partition.identity):
            raise _renaming(self._options.recipe, before[kind], partition.identity[kind])
        return NullState()

    def _begin(self, sink: Catalog, partition: Partition) -> PartitionPass | None:
        """Return a pass over `partition`, None where the database fails."""
        key = PartitionKey(self._options.recipe, sink.address, partition.key, partition.instance)
        own = [self._options.settings, self.writer.id]
        settings = content_hash([*own, partition.settings, partition.identity])
        try:
            with self.database.transaction(write=True) as connection:
                self._check_identity(connection, key, partition.identity)
                row = partitions.begin(connection, key, settings, partition.identity)
                why = self._why_full(connection, row)
                sample = () if why else _sample(connection, row.key)
                known = records.read_columns(connection, row.key.id, self.entities.earlier)
        except StateUnavailableError:
            return None
        if any(other.source == key.source for other in self._passes):
            raise equal_identities("two sources", key.source)
        # Otherwise a run would believe the state of a catalog that was emptied.
        there = each_type(sink.read_many, sample, lambda kind: [key_aspect_name(kind)])
        if len(there) < len(sample):
            why = "the catalog lacks entities that were written"
        partition_pass = PartitionPass(partition, row, why, known)
        log.info("%s: %s", partition_pass.label, partition_pass.why)
        self._passes[key] = partition_pass
        return partition_pass

    def _check_identity(
        self, connection: SqlConnection, key: PartitionKey, identity: Mapping[str, str]
    ) -> None:
        same = [
            row
            for row in partitions.partitions_of(connection, key.recipe)
            if (row.key.sink, row.key.source) == (key.sink, key.source)
        ]
        changed = _changed_kinds(same[0].identity if same else {}, identity)
        if not changed or self._options.accept_renaming:
            return
        count = sum(
            of_kind.records
            for row in same
            for kind, of_kind in partitions.counts(connection, row.key).items()
            if kind in changed
        )
        # A run that wrote nothing, for example after a clash of names, pins no names.
        if count:
            kind = changed[0]
            urns = (
                urn for row in same for urn in records.urns_of_kind(connection, row.key.id, kind)
            )
            example = _example_of_renaming(same[0].identity[kind], identity[kind], urns)
            raise _renaming(key.recipe, *example, plural(count, "entity", "entities"))

    def _why_full(self, connection: SqlConnection, row: PartitionRow) -> str | None:
        """Return why all of a partition has to be read, None where what changed will do."""
        if self._options.full:
            return "requested"
        if row.checkpoint is None:
            return "first run" if row.passed_at_ms is None else "recipe changed"
        if row.full_at_ms is None:
            return "the last pass was incomplete"
        age_s = time.time() - row.full_at_ms / 1000
        if not 0 <= age_s < self._options.full_every_s:
            return "the last one is older than state.full_every"
        if sum(count.dirty for count in partitions.counts(connection, row.key).values()) > DIRTY:
            return "too many records were refused"
        return None

    def partition_passes(self) -> Sequence[PartitionPass]:
        """Return the passes over the partitions that sources asked for so far, in that order."""
        return list(self._passes.values())

    def pass_summaries(self, why_unread: str | None = None) -> list[PassSummary]:
        """Return how each partition of the run is, or was, read.

        With `why_unread`, also the partitions that only earlier runs read.
        """
        passes = self.partition_passes()
        read = {part.key for part in passes}
        unread = [row for row in self._known if why_unread is not None and row.key not in read]
        return [part.summary() for part in passes] + [
            PassSummary(row.key.source, False, why_unread or "", row.key.instance, row.passed_at_ms)
            for row in unread
        ]

    def unread_records(self) -> Iterator[tuple[str, int]]:
        """Yield the sources that only earlier runs read, each with the number of its records.

        Not one that an earlier run found gone: its checkpoint holds nothing.
        """
        read = {part.key.source for part in self.partition_passes()}
        for row in self._known:
            if row.key.source.partition("#")[0] not in read and row.checkpoint != {}:
                known = partial(partitions.counts, key=row.key)
                counts = self.database.read(known, dict[str, partitions.Counts]())
                if counts:
                    yield row.key.source, sum(count.records for count in counts.values())

    def unread_keys(self) -> list[str]:
        """Return these sources alone."""
        return [key for key, _ in self.unread_records()]

    def source_keys(self) -> list[str]:
        """Return the keys of the sources that earlier runs read for this catalog."""
        return list(dict.fromkeys(row.key.source for row in self._known))

    def urns(self) -> Iterator[list[str]]:
        """Yield the entities of every record, those of some hundred records at a time."""
        if self._engine is not None:
            own = self.database
            with own.transaction() as connection:
                yield from records.urns_of(connection, *own.key)

    def invalidate(self) -> None:
        """Have the next run read and compare everything, even if this process is killed."""
        if self._engine is not None:
            own = self.database
            with own.transaction(write=True) as connection:
                partitions.invalidate(connection, *own.key)

    def delete(self) -> None:
        """Delete what is kept for this catalog; what is kept for others stays."""
        if self._engine is not None:
            own = self.database
            with own.transaction(write=True) as connection:
                partitions.delete_recipe(connection, *own.key)

    def close(self) -> None:
        """Release the lock; safe to call twice.

        A file that was found damaged too late to be replaced is set aside.
        """
        self.database.engine = None
        damage, self.database.failure = self._damage(), None
        if damage is not None:
            try:
                aside = set_aside(self._url or "", self._options.recipe, damage)
                log.warning("the damaged state database is kept as %s", aside)
            except StateUnavailableError as error:
                log.warning("%s", error)
        self._held.close()


def _changed_kinds(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the kinds of objects whose URNs are made another way than before."""
    return [kind for kind, urn in now.items() if before.get(kind, urn) != urn]


def _renaming(recipe: str, before: str, now: str, entities: str = "its entities") -> RecipeError:
    return RecipeError(
        f"the naming of recipe {recipe!r} has changed: {now} instead of {before}; {entities} would "
        "be duplicated under new URNs",
        hint="undo the change of `naming`, `env` or `instance`, or run once with --accept-renaming",
    )


def _sample(connection: SqlConnection, key: PartitionKey) -> Collection[str]:
    """Return a sample of the entities that were written, each once; all of them are URNs."""
    urns = records.sample(connection, key.id, secrets.token_hex(16), SAMPLE)
    urns = urns or records.sample(connection, key.id, "", SAMPLE)
    return {urn: entity_type_of(urn) for urn in urns}


def _example_of_renaming(before: str, now: str, urns: Iterable[str]) -> tuple[str, str]:
    """Return the old and the new URN of one of `urns`; where they do not fit, of the object `0`.

    A source names its URNs by that object: `before` and `now`.
    """
    start, _, end = before.rpartition("0")
    new_start, zero, new_end = now.rpartition("0")
    for urn in urns:
        if zero and urn.startswith(start) and urn.endswith(end):
            name = urn.removeprefix(start).removesuffix(end)
            return urn, f"{new_start}{name}{new_end}"
    return before, now
