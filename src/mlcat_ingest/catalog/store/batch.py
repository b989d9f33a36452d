"""A batch of writes: conditional writes (optimistic locking), conflicts, patches and versions.

It is computed on the stored state inside one transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import starmap
from typing import Any, Final, NamedTuple

from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.errors import (
    ComputedFieldError,
    InvalidProposalError,
    VersionConflictError,
)
from mlcat_ingest.catalog.schema.values import Write, WriteResult, is_series, moment_of
from mlcat_ingest.catalog.schema.virtual import DEFAULT_VERSION, default_aspect, key_edges
from mlcat_ingest.catalog.search.document import IndexedEntity
from mlcat_ingest.catalog.search.fields import is_indexed
from mlcat_ingest.catalog.search.index import refresh, remove, select_in
from mlcat_ingest.catalog.store.incidents import summaries
from mlcat_ingest.catalog.store.patch import Patch, apply_patch, blank
from mlcat_ingest.catalog.store.prepare import PreparedWrite, StorableValue, content_of, prepare
from mlcat_ingest.catalog.store.rows import (
    AspectRow,
    EntityRow,
    EventRow,
    Key,
    RowChanges,
    distinct_chunks,
    write_changes,
)
from mlcat_ingest.catalog.store.version_sets import VERSION_ASPECTS, VersionSets, needed_by
from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.aspects import DOMAINS, INCIDENT_INFO
from mlcat_ingest.metadata.codec import canonical, dumps, loads
from mlcat_ingest.metadata.proposal import NOT_STORED
from mlcat_ingest.metadata.registry import ASPECTS, key_aspect_name

_NEVER_MS: Final = -(2**63)
"""The time of the last change of an aspect that is not stored."""


class _ExistingEntity(NamedTuple):
    """An entity that exists; one that `is_new` was made by the same batch."""

    id: int
    created_ms: int
    is_new: bool = False


class _State(NamedTuple):
    """The state that a write meets: version 0 and no time of change where there is nothing.

    A `default` is there without being stored.
    """

    entity: _ExistingEntity | None = None
    row: AspectRow | None = None
    version: int = 0
    modified_ms: int | None = None
    default: str | None = None

    @property
    def text(self) -> str | None:
        """The value that reads show, as JSON text; None where there is none."""
        return self.row.value if self.row is not None else self.default


def _refusal_of(write: Write, state: _State) -> str | None:
    """Return why `write` may not go on from `state`; None if it may."""
    if (refusal := _unmet_condition(write, state)) is not None:
        return refusal
    if write.change == "CREATE" and state.version:
        return "Cannot perform CREATE since the aspect already exists."
    if write.change == "CREATE_ENTITY" and state.entity is not None:
        return "Cannot perform CREATE_ENTITY if not exists since the entity key already exists."
    return None


def _unmet_condition(write: Write, state: _State) -> str | None:
    """Return which condition of `write` does not hold, if one does not."""
    expected, actual = write.expected_version, str(state.version or NOT_STORED)
    if expected not in {None, actual}:
        return f"Expected version {expected}, actual version {actual}"
    since, until = write.if_modified_since_ms, write.if_unmodified_since_ms
    modified_ms = _NEVER_MS if state.modified_ms is None else state.modified_ms
    if since is not None and modified_ms <= since:
        return f"Item last modified {modified_ms} <= {since} (epoch ms)"
    if until is not None and modified_ms > until:
        return f"Item last modified {modified_ms} > {until} (epoch ms)"
    return None


def _is_same(stored: str, text: str) -> bool:
    if stored == text or len(stored) != len(text):
        return stored == text
    # Equal values may still differ in the order of their keys.
    return canonical(loads(stored)) == canonical(loads(text))


def _with_associations(
    urn: str, value: Mapping[str, Any], before: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return domains whose two lists agree: the list that was changed decides.

    Source: seen on a DataHub server 1.7.

    Raises:
        ComputedFieldError: both lists were changed.
    """
    domains, sent = value["domains"], value.get("domainAssociations")
    stored = before.get("domainAssociations")
    if sent is None or sent == stored:
        known = {association["domain"]: association for association in stored or ()}
        made = [known.get(domain, {"domain": domain}) for domain in domains]
        return {**value, "domainAssociations": made}
    if domains and domains != before.get("domains"):
        sentence = "domains and domainAssociations cannot be changed together"
        raise ComputedFieldError(urn, DOMAINS, sentence)
    return {**value, "domains": [association["domain"] for association in sent]}


_FIND_ENTITIES: Final = "SELECT urn, id, created_ms FROM entity WHERE urn IN ({})"
_FIND_ASPECTS: Final = """SELECT entity_id, aspect, version, value, system_metadata,
        created_ms, created_by, modified_ms, modified_by
    FROM aspect WHERE entity_id IN ({}) AND aspect IN ({})"""
_FIND_LAST_VERSIONS: Final = """SELECT entity_id, aspect, max(version) FROM aspect_history
    WHERE entity_id IN ({}) AND aspect IN ({}) GROUP BY entity_id, aspect"""


class Batch:
    """Works out what a batch changes, in memory, and then writes all of it.

    Conditions are compared with the database, before the batch. Otherwise the order of the items
    counts: a later item sees what an earlier one wrote.
    """

    def __init__(self, connection: Connection, actor: str) -> None:
        self._connection = connection
        self._actor = actor
        self._now_ms = now_ms()
        self._entities: dict[str, _ExistingEntity] = {}
        self._rows: dict[Key, AspectRow] = {}
        # The last version of aspects that are gone: their next value counts on from there.
        self._last_versions: dict[Key, int] = {}
        # Aspects whose stored state was read, as URN and name.
        self._read_pairs: set[tuple[str, str]] = set()
        self._read_urns: set[str] = set()
        self._next_id = 0
        # What the search index needs to know of the entities that this batch made.
        self._new: dict[int, IndexedEntity] = {}
        self._changes = RowChanges()
        self._version_sets = VersionSets(connection, self._value)

    def apply(self, items: Sequence[PreparedWrite]) -> list[WriteResult]:
        """Write `items` and return the outcome of each; to be called once.

        Raises:
            InvalidProposalError: an item is refused; the caller's savepoint takes back what was
                written before.

        Cost: a handful of SQL statements for each thousand items.
        """
        self._load(items)
        skipped = {at: result for at, item in enumerate(items) if (result := self._check(item))}
        written = [skipped.get(at) or self._apply_item(item) for at, item in enumerate(items)]
        self._flush()
        # The cycle of references would keep all texts of the batch until garbage is looked for.
        del self._version_sets
        return written

    def _check(self, item: PreparedWrite) -> WriteResult | None:
        """Compare an item's conditions with the database; return the result of one to skip.

        Raises:
            VersionConflictError: a condition does not hold.
        """
        write, creates = item.write, item.write.change in {"CREATE", "CREATE_ENTITY"}
        # As on a DataHub server, key aspects are not compared.
        if item.is_key or not (write.conditional or creates):
            return None
        state = self._state(item)
        refusal = _refusal_of(write, state)
        if refusal is None:
            return None
        if write.skip_if_exists and creates:
            return WriteResult(write.urn, write.aspect, state.version, changed=False)
        raise VersionConflictError(write.urn, write.aspect, refusal)

    def _flush(self) -> None:
        changes = self._changes
        write_changes(self._connection, changes)
        remove(self._connection, changes.deleted_entities)
        changed = {entity_id for entity_id, name in changes.rows if is_indexed(name)}
        refresh(self._connection, changed - self._new.keys(), self._new)

    def _load(self, items: Sequence[PreparedWrite]) -> None:
        self._read([(item.write.urn, item.write.aspect) for item in items])
        last = self._connection.exec_driver_sql("SELECT max(id) FROM entity").scalar()
        self._next_id = 1 + (last or 0)
        for pairs in needed_by(items, self._value):
            self._read(pairs)

    def _read(self, pairs: Collection[tuple[str, str]]) -> None:
        """Read the stored state of aspects, by URN and name, that this batch did not change."""
        for urns in distinct_chunks(urn for urn, _ in pairs if urn not in self._read_urns):
            for urn, *found in select_in(self._connection, _FIND_ENTITIES, urns):
                self._entities[urn] = _ExistingEntity(*found)
            self._read_urns.update(urns)
        self._read_pairs.update(pairs)
        names = sorted({name for _, name in pairs})
        known = {urn: self._entities[urn].id for urn, _ in pairs if urn in self._entities}
        for ids in distinct_chunks(known.values()):
            current = select_in(self._connection, _FIND_ASPECTS, ids, names)
            for row in starmap(AspectRow, current):
                key = row.entity_id, row.aspect
                if key not in self._changes.rows:
                    self._rows[key] = row
                    self._changes.stored.add(key)
        keys = ((known[urn], name) for urn, name in pairs if urn in known)
        for ids in distinct_chunks(key[0] for key in keys if key not in self._rows):
            last = select_in(self._connection, _FIND_LAST_VERSIONS, ids, names)
            for entity_id, name, version in last:
                self._last_versions.setdefault((entity_id, name), version)

    def _value(self, urn: str, name: str) -> Mapping[str, Any] | None:
        """Return what an aspect is after the items before this one."""
        if (urn, name) not in self._read_pairs:
            self._read([(urn, name)])
        known = self._entities.get(urn)
        row = None if known is None else self._rows.get((known.id, name))
        return None if row is None else loads(row.value)

    def _apply_item(self, item: PreparedWrite) -> WriteResult:
        """Apply an item, and write the summaries that change with one of an incident."""
        if item.entity_type != "incident":
            return self._apply_one(item)
        urn, metadata = item.write.urn, item.write.system_metadata
        before = self._value(urn, INCIDENT_INFO) or {}
        written = self._apply_one(item)
        now = self._value(urn, INCIDENT_INFO) or {}
        for other in summaries(urn, before, now, self._value):
            if other.urn in self._entities:
                self._apply_one(prepare(other._replace(system_metadata=metadata)))
        return written

    def _apply_one(self, item: PreparedWrite) -> WriteResult:
        write, state = item.write, self._state(item)
        if write.change == "DELETE":
            return self._delete(item, state)
        content = item.content if item.patch is None else self._apply_patch(item, item.patch, state)
        if content is None:
            return WriteResult(write.urn, write.aspect, state.version, changed=False)
        if write.aspect in VERSION_ASPECTS and write.change != "RESTATE":
            return self._store_version(item, state, content)
        if write.aspect == DOMAINS:
            before = {} if state.text is None else loads(state.text)
            value = _with_associations(write.urn, content.value, before)
            if value != content.value:
                content = content_of(item.entity_type, DOMAINS, value)
        return self._store(item, state, content)

    def _store_version(
        self, item: PreparedWrite, state: _State, content: StorableValue
    ) -> WriteResult:
        """Store an aspect of a version or a version set, and what the service computes from it."""
        urn, name = item.write.urn, item.write.aspect
        effects = self._version_sets.effects(urn, name, content.value)
        if effects.value is not content.value:
            content = content_of(item.entity_type, name, effects.value)
        written = self._store(item, state, content)
        for other in effects.others:
            metadata = item.write.system_metadata
            self._apply_one(prepare(other._replace(system_metadata=metadata)))
        return written

    def _state(self, item: PreparedWrite) -> _State:
        known = self._entities.get(item.write.urn)
        if known is None:
            return _State()
        row = self._rows.get((known.id, item.write.aspect))
        if row is not None:
            return _State(known, row, row.version, row.modified_ms)
        if item.is_key:
            return _State(known, version=1, modified_ms=known.created_ms)
        if known.is_new:
            return _State(known)
        default = default_aspect(item.write.urn, item.entity_type, item.write.aspect)
        if default is None:
            return _State(known)
        text = dumps(default).decode()
        return _State(known, None, DEFAULT_VERSION, known.created_ms, text)

    def _apply_patch(
        self, item: PreparedWrite, patch: Patch, state: _State
    ) -> StorableValue | None:
        """Return the patched value; None where the patch changes nothing."""
        name = item.write.aspect
        base = loads(state.text) if state.text is not None else None
        start = blank(name, self._now_ms) if base is None else base
        value = apply_patch(patch, start)
        if moment_of(name, value) is not None:
            raise InvalidProposalError(f"{name}: a timeseries aspect cannot be patched")
        try:
            # A removal must not create an absent aspect.
            if (base is not None or patch.only_removes) and canonical(value) == canonical(start):
                return None
        except CodecError as error:
            raise InvalidProposalError(f"{name}: {error}") from error
        return content_of(item.entity_type, name, value)

    def _delete(self, item: PreparedWrite, state: _State) -> WriteResult:
        urn, name, known = item.write.urn, item.write.aspect, state.entity
        if known is None:
            return WriteResult(urn, name, 0, changed=False)
        if item.is_key:
            self._delete_entity(urn, known)
            return WriteResult(urn, name, 0, changed=True)
        if is_series(name) or name not in ASPECTS:
            self._changes.empty_series((known.id, name))
        if state.row is None:
            return WriteResult(urn, name, state.version, changed=is_series(name))
        default = default_aspect(urn, item.entity_type, name)
        if default is not None:
            return self._store(item, state, content_of(item.entity_type, name, default))
        self._drop(known, state.row)
        return WriteResult(urn, name, 0, changed=True)

    def _delete_entity(self, urn: str, known: _ExistingEntity) -> None:
        self._changes.delete_entity(known.id)
        self._new.pop(known.id, None)
        self._rows = {key: row for key, row in self._rows.items() if key[0] != known.id}
        del self._entities[urn]
        if not known.is_new:
            self._changes.deleted_entities.append(known.id)

    def _drop(self, known: _ExistingEntity, row: AspectRow) -> None:
        key = (known.id, row.aspect)
        del self._rows[key]
        if known.is_new:
            self._new[known.id].aspects.pop(row.aspect, None)
        self._last_versions[key] = row.version
        self._changes.history.append(row)
        self._changes.rows[key] = None
        self._changes.edges[key] = ()

    def _store(self, item: PreparedWrite, state: _State, content: StorableValue) -> WriteResult:
        write = item.write
        known = state.entity or self._create(item)
        if item.is_key:
            return WriteResult(write.urn, write.aspect, 1, changed=state.version == 0)
        if item.moment is not None:
            series = (known.id, write.aspect)
            self._changes.events[series, item.moment] = EventRow(
                *series, *item.moment, content.text, item.system_metadata, self._now_ms
            )
            return WriteResult(write.urn, write.aspect, 0, changed=True)
        if state.text is not None and _is_same(state.text, content.text):
            return WriteResult(write.urn, write.aspect, state.version, changed=False)
        row = self._put(known, item, state, content)
        return WriteResult(write.urn, write.aspect, row.version, changed=True)

    def _create(self, item: PreparedWrite) -> _ExistingEntity:
        urn, entity_type = item.write.urn, item.entity_type
        created = _ExistingEntity(self._next_id, self._now_ms, is_new=True)
        self._next_id += 1
        self._entities[urn] = created
        self._changes.new_entities[created.id] = EntityRow(
            created.id, urn, entity_type, self._now_ms, self._actor
        )
        self._new[created.id] = IndexedEntity(urn, entity_type, self._now_ms)
        if edges := key_edges(urn, entity_type):
            self._changes.edges[created.id, key_aspect_name(entity_type)] = edges
        return created

    def _put(
        self, known: _ExistingEntity, item: PreparedWrite, state: _State, content: StorableValue
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
        )
        self._rows[key] = self._changes.rows[key] = row
        if known.is_new:
            self._new[known.id].add(row.aspect, content.value, self._now_ms)
        self._changes.edges[key] = content.edges
        return row
