"""The tracker of records: which changed, and which of them the catalog has acknowledged."""

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, compress
from typing import Any, Final

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.metadata.codec import dumps, record_hash
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import applied_key, decode, encode, writer_id_of
from mlcat_ingest.pipeline.merge.provenance import CUSTOM, custom_properties
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.state import records
from mlcat_ingest.pipeline.state.database import RunDatabase
from mlcat_ingest.pipeline.state.entities import KnownEntities
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.pipeline.state.records import KnownRecord, RecordRow
from mlcat_ingest.pipeline.state.results import EvaluationResults
from mlcat_ingest.pipeline.state.stamps import ReadStamps, Stamps, is_before, matching
from mlcat_ingest.sources.base import Page, RecordVersion
from mlcat_ingest.sql.database import Engine

log = logging.getLogger(__name__)

ROWS: Final = 500
"""Rows that are written in one transaction."""

_EXISTS: Final[Stamps] = {}
"""The stamps of an entity that is only referred to."""

REASON_CHARS: Final = 300
"""Length of the reason that is kept of a dirty record."""

UNFINISHED: Final = "its write has not ended"
"""The reason that is kept of a record from before its entities are written until they are."""


@dataclass(slots=True)
class TrackedRecord:
    """A record that is remembered, from its page until all of its entities have arrived.

    `known` is what the stored row says of it, until it says nothing any more. `stamps` are those of
    the entities that have arrived, and of what they refer to.
    """

    part: PartitionPass
    version: RecordVersion
    known: KnownRecord | None = None
    digest: str = ""
    urns: tuple[str, ...] = ()
    left: set[str] = field(default_factory=set)
    reason: str = ""
    stamps: dict[str, Stamps] = field(default_factory=dict)
    is_compared: bool = True
    """False if a full pass has to compare values: not all of the entities have stamps."""

    @property
    def known_urns(self) -> Sequence[str]:
        """The entities of the record that the catalog has, as far as the state knows."""
        return () if self.known is None else self.known.urns

    @property
    def is_held(self) -> bool:
        """True if further records are read because of this one: they may not arrive."""
        return self.version.leads

    def take(self, urn: str, stamps: Stamps | None) -> None:
        """Take note that an entity has arrived, with the stamps that it has now."""
        self.left.discard(urn)
        if stamps:
            self.stamps[urn] = stamps
        else:
            self.is_compared = False

    def row(self) -> RecordRow:
        """Return the row that is stored once its entities have arrived, or some were refused."""
        return RecordRow(
            part_id=self.part.part_id,
            kind=self.version.kind,
            id=self.version.id,
            # Refused, it equals nothing, and so is merged again by whichever pass lists it.
            digest="" if self.reason else self.digest,
            urns="\n".join(self.urns),
            fingerprint=self.version.fingerprint,
            joined_fingerprint=self.version.joined_fingerprint,
            reason=self.reason[:REASON_CHARS],
            seen_in_pass=self.part.number,
            aspect_stamps=self._stamps_text(),
        )

    def unfinished(self) -> Iterator[RecordRow]:
        """Yield the row that equals nothing, once and only if the stored one says something else.

        It has the entities of before, too. Of a record that leads to others it has no fingerprint,
        so that these are read again.
        """
        known, self.known = self.known, None
        if known is not None and not known.equals(self.version, self.digest):
            row = self.row()
            yield row._replace(
                digest="",
                urns="\n".join(dict.fromkeys((*known.urns, *self.urns))),
                fingerprint="" if self.is_held else row.fingerprint,
                reason=UNFINISHED,
                seen_in_pass=0,
                aspect_stamps="",
            )

    def _stamps_text(self) -> str:
        # A pass over changes may see only some of the records that an entity is made of.
        is_whole = self.is_compared and self.part.full is not None and not self.reason
        return dumps(self.stamps).decode() if is_whole and self.stamps else ""


class Tracker:
    """Compares records with what was acknowledged, and keeps what is; safe to call from any thread.

    A row is written only after the catalog has acknowledged, or refused, the entities of its
    record: a run that is killed in between merges them again. The row of a record that leads to
    others waits until these are acknowledged, too: a pass that ends early would forget them. A row
    of before equals nothing from the first write on: the source may return to what it was then.
    """

    def __init__(self, mask: Callable[[str], str] = str) -> None:
        """Remember nothing before `start`; `mask` hides secrets."""
        self.writer = Writer("")
        """Who writes the bases of the run."""
        self.database = RunDatabase(mask)
        self.results = EvaluationResults(self.database)
        self._mask = mask
        self._lock = threading.Lock()
        self._saving = threading.Lock()
        self._pending: dict[str, list[list[TrackedRecord]]] = {}
        self._rows: list[RecordRow] = []
        self._held: list[RecordRow] = []
        self._refused_without_record = False
        self._written: set[int] = set()
        self.entities = KnownEntities(self.database, self._flush_held)

    def start(self, engine: Engine, recipe: str, sink: str, *, lasting: bool = True) -> None:
        """Remember in `engine`, for `recipe` and the catalog at `sink`.

        State that is not `lasting` is deleted with the run.
        """
        self.database.start(engine, recipe, sink, lasting=lasting)
        self.entities.start()

    def stop(self) -> None:
        """Write what is left; remember nothing from now on."""
        self.begin_writes(())
        self.database.stop()

    def changes(
        self, page: Page[Any], read_stamps: ReadStamps
    ) -> tuple[list[tuple[Any, TrackedRecord | None]], list[str]]:
        """Return the records of `page` that have to be mapped, and the entities of the others.

        These are the records that changed since they were acknowledged, in a full pass also those
        of what the catalog does not hold any more as it was; one that is not remembered has no
        `TrackedRecord`.

        Cost: two statements for each 500 records; in a full pass one request for a batch of
        entities of a type.
        """
        part = page.partition
        if not self.remembers or not isinstance(part, PartitionPass):
            return [(record, None) for record in page.records], []
        versions = [record.record_version for record in page.records]
        ids: dict[str, list[str]] = {}
        for version in filter(None, versions):
            ids.setdefault(version.kind, []).append(version.id)
        known = {kind: self._read_records(part, kind, kind_ids) for kind, kind_ids in ids.items()}
        rows = [version and known[version.kind].get(version.id) for version in versions]
        equal = self._equal(part, versions, rows, read_stamps)
        changed: list[tuple[Any, TrackedRecord | None]] = []
        same: dict[str, list[str]] = {}
        urns: list[str] = []
        for record, version, row, is_equal in zip(page.records, versions, rows, equal, strict=True):
            if version is not None and row is not None and is_equal:
                same.setdefault(version.kind, []).append(version.id)
                urns.extend(row.urns)
            else:
                changed.append((record, version and TrackedRecord(part, version, row)))
        for kind, kind_ids in same.items():
            self._touch(part, kind, kind_ids)
        return changed, urns

    def _equal(
        self,
        part: PartitionPass,
        versions: Sequence[RecordVersion | None],
        rows: Sequence[KnownRecord | None],
        read_stamps: ReadStamps,
    ) -> list[bool]:
        """Return for each record of a page if nothing has to be done about it."""
        equal = [
            version is not None
            and row is not None
            and self._is_unchanged(version, row, version.digest)
            and (part.full is None or bool(row.aspect_stamps))
            for version, row in zip(versions, rows, strict=True)
        ]
        if part.full is not None:
            kept = [row.aspect_stamps for row in compress(rows, equal) if row is not None]
            same = iter(matching(kept, read_stamps))
            equal = [is_equal and next(same) for is_equal in equal]
        # Another record of an entity that changes, or the same one as it is listed again.
        changing = {
            urn
            for row, is_equal in zip(rows, equal, strict=True)
            if row is not None and not is_equal
            for urn in row.urns
        }
        return [
            is_equal and row is not None and changing.isdisjoint(row.urns)
            for row, is_equal in zip(rows, equal, strict=True)
        ]

    def track(
        self, record: TrackedRecord | None, entities: Sequence[Entity], *, looked_up: bool = False
    ) -> bool:
        """Take note of what became of a record; return whether its entities have to be merged.

        If something was `looked_up` in the catalog for them, the digest is theirs, not the
        record's.
        """
        if not self.remembers or record is None:
            return True
        part, version, known = record.part, record.version, record.known
        record.digest = (not looked_up and version.digest) or _digest_of(entities)
        if part.full is None and known and self._is_unchanged(version, known, record.digest):
            self._touch(part, version.kind, [version.id])
            return False
        self._name(record, [entity.urn for entity in entities if not entity.only_if_absent])
        record.left.update(record.urns)
        record.stamps.update({one.urn: _EXISTS for one in entities if one.only_if_absent})
        if part.number > 1:
            self._written.update(map(hash, record.urns))
        with self._lock:
            if record.is_held:
                self._rows += record.unfinished()  # before the rows of what it leads to
            for urn in record.urns:
                self._pending.setdefault(urn, []).append([record])
        if not record.urns:
            self._keep([record])
        return True

    def _name(self, record: TrackedRecord, urns: Iterable[str]) -> None:
        """Take note of the entities that a record is, and of former ones that it is no more."""
        record.urns = tuple(dict.fromkeys(urns))
        gone = [urn for urn in record.known_urns if urn not in record.urns]
        self.entities.add_renamed(record.part, gone)

    def leave_out(self, urns: Iterable[str]) -> None:
        """Take note that the catalog does not have these entities: no record is kept as theirs."""
        with self._lock:
            for urn in urns:
                for record in self._pending.get(urn, [[]])[0]:
                    record.urns = tuple(one for one in record.urns if one != urn)
                    record.is_compared = False

    def entity_folded(self, urn: str) -> None:
        """Take note that the last two records of an entity are written as one."""
        with self._lock:
            waiting = self._pending.get(urn, [])
            waiting[-2:] = [[record for group in waiting[-2:] for record in group]]

    def record_listed(
        self, record: TrackedRecord | None, urns: Iterable[str], reason: str | None = None
    ) -> None:
        """Keep that a record is listed, of which there is nothing to write.

        With a `reason` it could not be mapped: the next pass asks for it again.
        """
        if self.remembers and record is not None:
            self._name(record, urns)
            if reason is not None:
                record.reason = self._mask(reason) or "not usable"
            self._keep([record])

    def with_newest_bases(self, stored: dict[str, StoredEntity]) -> dict[str, StoredEntity]:
        """Return `stored` entities with what the state knows of an older base of the writer.

        A rollback of a run brings the base back that was before, with the properties; entries of
        the newer one, in an aspect that a person has changed since, would count as the person's.
        Of an aspect that went back too, the base that came back is the right one.

        Cost: a statement for each 500 entities that have a base of the writer.
        """
        key = applied_key(self.writer.name)
        held = {
            urn: (name, main)
            for urn, entity in stored.items()
            if (main := entity.get(name := properties_aspect(entity_type_of(urn)) or ""))
            and key in (custom := custom_properties(main.value))
            and self.writer.is_own(writer_id_of(custom[key]))
        }
        known = self.entities.stamped_bases(held) if held and self.remembers else {}
        for urn, (text, stamps) in known.items():
            name, main = held[urn]
            gone_back = {
                one for one, held_ in stored[urn].items() if is_before(held_.stamp, stamps.get(one))
            }
            if name in gone_back:
                custom = custom_properties(main.value)
                before, newer = decode(custom[key]) or {}, decode(text) or {}
                stays = stored[urn].keys() - gone_back
                base = {**before, **{one: newer[one] for one in newer if one in stays}}
                custom = {**custom, key: encode(base, writer_id_of(custom[key]))}
                stored[urn] = {
                    **stored[urn],
                    name: replace(main, value={**main.value, CUSTOM: custom}),
                }
        return stored

    def acknowledge(self, urns: Iterable[str], stamps: Mapping[str, Stamps | None]) -> None:
        """Keep the records whose last entity is among `urns`, which the catalog has as they are.

        `stamps` has those that are known.
        """
        if self.remembers:
            self._keep(self._arrived(urns, {}, stamps))

    def refuse(self, refused: Mapping[str, str]) -> None:
        """Keep the records whose last entity is among those that the catalog `refused`, and why."""
        if self.remembers:
            self._keep(self._arrived(refused, refused, {}))

    def settle(
        self,
        urns: Collection[str],
        refused: Mapping[str, str],
        stamps: Mapping[str, Stamps | None],
        bases: Mapping[str, str],
        removed: Collection[str],
    ) -> None:
        """Keep what became of a batch of entities that was written, and of their records.

        `refused` has the reasons for those that the catalog refused; `stamps` and `bases` have
        those that are known of the others.

        Cost: one transaction.
        """
        if not self.remembers:
            return
        self._add_rows(self._arrived(urns, refused, stamps))
        with self._saving:
            with self._lock:
                rows, self._rows = self._rows, []
            self.entities.settle(urns, bases, stamps, removed, rows)

    def _arrived(
        self, urns: Iterable[str], refused: Mapping[str, str], stamps: Mapping[str, Stamps | None]
    ) -> list[TrackedRecord]:
        """Return the records whose last entity is among `urns`, done with by the catalog."""
        ready = []
        with self._lock:
            for urn in urns:
                waiting = self._pending.get(urn)
                if not waiting:
                    # It is of no record, for example a tag: only a full pass tries it again.
                    self._refused_without_record |= urn in refused
                    continue
                # In the order they were read, which is the order in which they are written.
                written = waiting.pop(0)
                if not waiting:
                    del self._pending[urn]
                # An entity of several records is what they are together.
                known = stamps.get(urn) if len(written) == 1 else None
                for record in written:
                    record.take(urn, known)
                    if urn in refused:
                        record.reason = self._mask(refused[urn]) or "refused"
                ready += [record for record in written if not record.left]
        return ready

    @property
    def remembers(self) -> bool:
        """True while there is a database that has not failed."""
        return self.database.engine is not None

    def begin_writes(self, urns: Collection[str]) -> set[str]:
        """Keep that `urns` are about to be written; from now on the rows of before equal nothing.

        Return those that no earlier write left, whose end is not known.

        Cost: one transaction, which also writes the rows that wait.
        """
        with self._saving:
            with self._lock:
                writing = [one for urn in urns for one in self._pending.get(urn, [[]])[0]]
                rows, self._rows = [*self._rows, *chain(*(one.unfinished() for one in writing))], []
            return self.entities.begin(urns, rows)

    def flush(self) -> bool:
        """Write the rows that wait; return whether the database still takes them."""
        with self._saving:
            with self._lock:
                batch, self._rows = self._rows, []
            if batch:
                self.database.change(lambda connection: records.put(connection, batch))
        return self.remembers

    def _flush_held(self) -> bool:
        """Write all rows, once everything that was read is acknowledged."""
        with self._lock:
            self._rows.extend(self._held)
            self._held = []
        return self.flush()

    def commit(self, passes: Iterable[PartitionPass]) -> None:
        """Save the checkpoints of `passes`: all that they read is acknowledged.

        If something was refused that is of no record, they read everything next time.
        """
        with self._lock:
            self._pending.clear()
        if self._flush_held():
            for part in passes:
                self.database.change(part.reopen if self._refused_without_record else part.commit)

    def invalidate_stamps(self) -> None:
        """Have the next full pass compare every entity by its values."""
        self.flush()
        own = self.database
        own.change(lambda connection: records.delete_stamps(connection, own.recipe, own.sink))

    def reopen(self, passes: Iterable[PartitionPass]) -> None:
        """Have the next run list all that `passes` listed."""
        for part in passes:
            if part.full is None:
                part.finished = None  # its checkpoint stays, so what changed comes again
            else:
                self.database.change(part.reopen)

    def _keep(self, ready: Sequence[TrackedRecord]) -> None:
        if self._add_rows(ready) >= ROWS:
            self.flush()

    def _add_rows(self, ready: Sequence[TrackedRecord]) -> int:
        """Have the rows of records wait for a transaction; return how many do."""
        with self._lock:
            for record in ready:
                if record.is_held:
                    self._rows += record.unfinished()
                (self._held if record.is_held else self._rows).append(record.row())
            return len(self._rows)

    def _read_records(
        self, part: PartitionPass, kind: str, ids: Sequence[str]
    ) -> dict[str, KnownRecord]:
        return self.database.read(
            lambda connection: records.read(connection, part.part_id, kind, ids),
            dict[str, KnownRecord](),
        )

    def _is_unchanged(self, version: RecordVersion, known: KnownRecord, digest: str | None) -> bool:
        return (
            known.equals(version, digest)
            and self.entities.earlier.isdisjoint(known.urns)
            # Written for another record of this pass, or for this one as it was listed before.
            and (not self._written or self._written.isdisjoint(map(hash, known.urns)))
        )

    def _touch(self, part: PartitionPass, kind: str, ids: Sequence[str]) -> None:
        self.database.change(
            lambda connection: records.touch(connection, part.part_id, kind, ids, part.number)
        )


def _digest_of(entities: Sequence[Entity]) -> str:
    # What has no JSON form is refused when it is written.
    return record_hash([[entity.urn, *entity.aspects.items()] for entity in entities]) or ""
