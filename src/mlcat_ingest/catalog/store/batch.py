"""One batch of writes, worked out on the stored state inside one transaction."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, func, select

from mlcat_ingest.catalog.errors import (
    AspectRefusedError,
    InvalidProposalError,
    VersionConflictError,
)
from mlcat_ingest.catalog.schema.series import Moment, is_series, moment_of
from mlcat_ingest.catalog.schema.tables import aspect, aspect_history, entity
from mlcat_ingest.catalog.schema.values import Written
from mlcat_ingest.catalog.schema.virtual import DEFAULT_VERSION, default_aspect, key_edges
from mlcat_ingest.catalog.search.document import IndexedEntity
from mlcat_ingest.catalog.search.fields import is_indexed
from mlcat_ingest.catalog.search.index import forget, refresh
from mlcat_ingest.catalog.store.conditions import ExistingEntity, State, refusal_of
from mlcat_ingest.catalog.store.patch.applying import apply_patch
from mlcat_ingest.catalog.store.patch.reading import Patch
from mlcat_ingest.catalog.store.patch.templates import blank
from mlcat_ingest.catalog.store.prepare import (
    PreparedWrite,
    StorableValue,
    content_of,
    name_in,
    prepare,
)
from mlcat_ingest.catalog.store.rows import (
    AspectRow,
    EntityRow,
    EventRow,
    Key,
    RowChanges,
    chunks,
    write_changes,
)
from mlcat_ingest.catalog.store.version_sets import VERSION_ASPECTS, VersionSets, needed_by
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import canonical, dumps, loads
from mlcat_ingest.metadata.registry import ASPECTS, key_aspect_name


def _same(stored: str, text: str) -> bool:
    if stored == text or len(stored) != len(text):
        return stored == text
    # Equal values may still differ in the order of their keys.
    return canonical(loads(stored)) == canonical(loads(text))


class Batch:
    """Works out what a batch changes, in memory, and then writes all of it.

    The order of the items counts: a later item sees what an earlier one wrote.
    """

    def __init__(self, connection: Connection, actor: str, now_ms: int) -> None:
        """Write as `actor` at `now_ms`, milliseconds since the epoch."""
        self._connection = connection
        self._actor = actor
        self._now_ms = now_ms
        self._entities: dict[str, ExistingEntity] = {}
        self._rows: dict[Key, AspectRow] = {}
        # The last version of aspects that are gone: their next value counts on from there.
        self._last_versions: dict[Key, int] = {}
        # Aspects whose stored state was read, as URN and name.
        self._read_pairs: set[tuple[str, str]] = set()
        self._read_urns: set[str] = set()
        self._next_id = 0
        self._changes = RowChanges()
        self._version_sets = VersionSets(connection, self._value)

    def apply(self, items: Sequence[PreparedWrite]) -> list[Written]:
        """Write `items` and say what became of each.

        Raises:
            InvalidProposalError: an item is refused, named by its `index`; the caller's savepoint
                takes back what was written before.

        Cost: a handful of SQL statements for each thousand items.
        """
        self._load(items)
        written = [self._apply_one(index, item) for index, item in enumerate(items)]
        self._flush()
        return written

    def _flush(self) -> None:
        changes = self._changes
        write_changes(self._connection, changes)
        forget(self._connection, changes.deleted_entities)
        changed = {entity_id for entity_id, name in changes.rows if is_indexed(name)}
        new = self._new_sources()
        refresh(self._connection, changed - new.keys(), new)

    def _new_sources(self) -> dict[int, IndexedEntity]:
        """Return what the search index needs to know of the entities that this batch made."""
        changes = self._changes
        sources = {
            entity_id: IndexedEntity(row.urn, row.entity_type, self._now_ms)
            for entity_id, row in changes.new_entities.items()
        }
        for key, row in changes.rows.items():
            if row is not None and row.entity_id in sources:
                sources[row.entity_id].add(row.aspect, changes.values[key], self._now_ms)
        return sources

    def _load(self, items: Sequence[PreparedWrite]) -> None:
        self._read([(item.write.urn, item.write.aspect) for item in items])
        self._next_id = 1 + (self._connection.scalar(select(func.max(entity.c.id))) or 0)
        for pairs in needed_by(items, self._value):
            self._read(pairs)

    def _read(self, pairs: Collection[tuple[str, str]]) -> None:
        """Read the stored state of aspects, by URN and name, that this batch did not change."""
        self._read_entities(urn for urn, _ in pairs if urn not in self._read_urns)
        self._read_pairs.update(pairs)
        names = sorted({name for _, name in pairs})
        known = {urn: self._entities[urn].id for urn, _ in pairs if urn in self._entities}
        for ids in chunks(known.values()):
            current = select(aspect).where(aspect.c.entity_id.in_(ids), aspect.c.aspect.in_(names))
            for found in self._connection.execute(current):
                row = AspectRow(*found)
                key = row.entity_id, row.aspect
                if key not in self._changes.rows:
                    self._rows[key] = row
                    self._changes.stored.add(key)
        self._read_last_versions(
            [known[urn] for urn, name in pairs if urn in known and not self._has(known[urn], name)],
            names,
        )

    def _has(self, entity_id: int, name: str) -> bool:
        return (entity_id, name) in self._rows

    def _read_entities(self, urns: Iterable[str]) -> None:
        for some in chunks(urns):
            query = select(entity.c.urn, entity.c.id, entity.c.name, entity.c.created_ms)
            for urn, *known in self._connection.execute(query.where(entity.c.urn.in_(some))):
                self._entities[urn] = ExistingEntity(*known)
            self._read_urns.update(some)

    def _read_last_versions(self, absent: Sequence[int], names: Sequence[str]) -> None:
        for ids in chunks(absent):
            past = aspect_history.c
            query = (
                select(past.entity_id, past.aspect, func.max(past.version))
                .where(past.entity_id.in_(ids), past.aspect.in_(names))
                .group_by(past.entity_id, past.aspect)
            )
            for entity_id, name, version in self._connection.execute(query):
                self._last_versions.setdefault((entity_id, name), version)

    def _value(self, urn: str, name: str) -> Mapping[str, Any] | None:
        """Return what an aspect is after the items before this one."""
        if (urn, name) not in self._read_pairs:
            self._read([(urn, name)])
        known = self._entities.get(urn)
        row = None if known is None else self._rows.get((known.id, name))
        return None if row is None else loads(row.value)

    def _apply_one(self, index: int, item: PreparedWrite) -> Written:
        write = item.write
        known = self._entities.get(write.urn)
        state = self._state(item, known)
        refusal = refusal_of(write, known, state)
        if refusal is not None:
            if write.skip_if_exists and write.change in {"CREATE", "CREATE_ENTITY"}:
                return Written(write.urn, write.aspect, state.version, changed=False)
            raise VersionConflictError(write.urn, write.aspect, refusal, index=index)
        if write.change == "DELETE":
            return self._delete(item, known, state)
        content = item.content
        if item.patch is not None:
            content = self._patched(index, item, item.patch, state)
        if content is None:
            return Written(write.urn, write.aspect, state.version, changed=False)
        if write.aspect in VERSION_ASPECTS and write.change != "RESTATE":
            return self._store_versioned(index, item, known, state, content)
        return self._store(item, known, state, content)

    def _store_versioned(
        self,
        index: int,
        item: PreparedWrite,
        known: ExistingEntity | None,
        state: State,
        content: StorableValue,
    ) -> Written:
        """Store an aspect of a version or a version set, and what the service computes from it."""
        urn, name = item.write.urn, item.write.aspect
        try:
            effects = self._version_sets.effects(urn, name, content.value)
        except InvalidProposalError as error:
            raise AspectRefusedError(urn, name, str(error), index=index) from error
        if effects.value is not content.value:
            content = content_of(item.entity_type, name, effects.value)
        written = self._store(item, known, state, content)
        for other in effects.others:
            metadata = item.write.system_metadata
            self._apply_one(index, prepare(replace(other, system_metadata=metadata)))
        return written

    def _state(self, item: PreparedWrite, known: ExistingEntity | None) -> State:
        if known is None:
            return State()
        row = self._rows.get((known.id, item.write.aspect))
        if row is not None:
            return State(row, row.version, row.modified_ms)
        if item.is_key:
            return State(version=1, modified_ms=known.created_ms)
        default = default_aspect(item.write.urn, item.entity_type, item.write.aspect)
        if default is None or known.is_new:
            return State()
        return State(
            version=DEFAULT_VERSION,
            modified_ms=known.created_ms,
            default=dumps(default).decode(),
        )

    def _patched(
        self, index: int, item: PreparedWrite, patch: Patch, state: State
    ) -> StorableValue | None:
        """Return what a patch makes of what is there; None where it changes nothing."""
        urn, name = item.write.urn, item.write.aspect
        base = loads(state.text) if state.text is not None else None
        start = blank(name, self._actor, self._now_ms) if base is None else base
        try:
            value = apply_patch(patch, start)
        except InvalidProposalError as error:
            raise InvalidProposalError(f"{urn}: {name}: {error}", index=index) from error
        if moment_of(name, value) is not None:
            raise InvalidProposalError(f"{urn}: {name}: events cannot be patched", index=index)
        try:
            # Taking from what is not there must not make it.
            if (base is not None or patch.only_removes) and canonical(value) == canonical(start):
                return None
            return content_of(item.entity_type, name, value)
        except (InvalidProposalError, CodecError) as error:
            raise InvalidProposalError(f"{urn}: {error}", index=index) from error

    def _delete(self, item: PreparedWrite, known: ExistingEntity | None, state: State) -> Written:
        urn, name = item.write.urn, item.write.aspect
        if known is None:
            return Written(urn, name, 0, changed=False)
        if item.is_key:
            self._delete_entity(urn, known)
            return Written(urn, name, 0, changed=True)
        if is_series(name) or name not in ASPECTS:
            self._changes.empty_series((known.id, name))
        if state.row is None:
            return Written(urn, name, state.version, changed=is_series(name))
        default = default_aspect(urn, item.entity_type, name)
        if default is not None:
            return self._store(item, known, state, content_of(item.entity_type, name, default))
        self._drop(urn, known, state.row)
        return Written(urn, name, 0, changed=True)

    def _delete_entity(self, urn: str, known: ExistingEntity) -> None:
        self._changes.forget(known.id)
        self._rows = {key: row for key, row in self._rows.items() if key[0] != known.id}
        del self._entities[urn]
        if not known.is_new:
            self._changes.deleted_entities.append(known.id)

    def _drop(self, urn: str, known: ExistingEntity, row: AspectRow) -> None:
        key = (known.id, row.aspect)
        del self._rows[key]
        self._last_versions[key] = row.version
        self._changes.history.append(row)
        self._changes.rows[key] = None
        self._changes.edges[key] = ()
        if known.name is not None and name_in(row.aspect, loads(row.value)) == known.name:
            self._rename(urn, known, None)

    def _store(
        self,
        item: PreparedWrite,
        known: ExistingEntity | None,
        state: State,
        content: StorableValue,
    ) -> Written:
        write = item.write
        if known is None:
            known = self._create(item, content.name)
        if item.is_key:
            return Written(write.urn, write.aspect, 1, changed=state.version == 0)
        if item.moment is not None:
            self._put_event(known, item, item.moment, content)
            return Written(write.urn, write.aspect, 0, changed=True)
        # Who made sure that nobody wrote a default has written it, even with the same value.
        rewritten = state.row is not None or not (write.conditional or write.change == "CREATE")
        if rewritten and state.text is not None and _same(state.text, content.text):
            return Written(write.urn, write.aspect, state.version, changed=False)
        row = self._put(known, item, state, content)
        if content.name is not None and content.name != known.name:
            self._rename(write.urn, known, content.name)
        return Written(write.urn, write.aspect, row.version, changed=True)

    def _create(self, item: PreparedWrite, name: str | None) -> ExistingEntity:
        urn, entity_type = item.write.urn, item.entity_type
        created = ExistingEntity(self._next_id, name, self._now_ms, is_new=True)
        self._next_id += 1
        self._entities[urn] = created
        self._changes.new_entities[created.id] = EntityRow(
            created.id, urn, entity_type, name, self._now_ms, self._actor
        )
        if ends := key_edges(urn, entity_type):
            self._changes.edges[created.id, key_aspect_name(entity_type)] = ends
        return created

    def _put(
        self, known: ExistingEntity, item: PreparedWrite, state: State, content: StorableValue
    ) -> AspectRow:
        key = (known.id, item.write.aspect)
        before = state.row
        if before is not None:
            self._changes.history.append(before)
        row = AspectRow(
            *key,
            max(state.version, self._last_versions.get(key, 0)) + 1,
            content.text,
            item.system_metadata,
            self._now_ms if before is None else before.created_ms,
            self._actor if before is None else before.created_by,
            self._now_ms,
            self._actor,
            item.run_id,
        )
        self._rows[key] = self._changes.rows[key] = row
        self._changes.values[key] = content.value
        self._changes.edges[key] = content.edges
        return row

    def _put_event(
        self, known: ExistingEntity, item: PreparedWrite, moment: Moment, content: StorableValue
    ) -> None:
        key = (known.id, item.write.aspect)
        self._changes.events[key, moment] = EventRow(
            *key, *moment, content.text, item.system_metadata, self._now_ms, item.run_id
        )

    def _rename(self, urn: str, known: ExistingEntity, name: str | None) -> None:
        self._changes.names[known.id] = name
        self._entities[urn] = known._replace(name=name)
