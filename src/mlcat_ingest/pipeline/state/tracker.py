"""The tracker of records: which of them changed, and which wait for their entities to arrive."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, Final

from mlcat_ingest.metadata.codec import dumps, record_hash
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.outcome import Outcome, Stamps
from mlcat_ingest.pipeline.state import records
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.pipeline.state.records import RecordRow
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.pipeline.state.stamps import ReadStamps, without_old_stamps
from mlcat_ingest.sources.base import Page, RecordVersion

_EXISTS: Final[Stamps] = {}
"""The stamps of an entity that is only referred to."""

REASON_CHARS: Final = 300
"""Length of the reason that is kept of a dirty record."""


@dataclass(slots=True)
class TrackedRecord:
    """A record that is remembered, from its page until all of its entities have arrived.

    `known` is its stored row, until that says nothing any more. `stamps` are those of
    the entities that have arrived, and of what they refer to.
    """

    part: PartitionPass
    version: RecordVersion
    known: RecordRow | None = None
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
        return () if self.known is None else self.known.entities

    def take(self, outcome: Outcome, stamps: Stamps | None, reason: str) -> None:
        """Take what became of an entity, its `stamps`, and the reason if it was refused."""
        self.left.discard(outcome.urn)
        if outcome.kind == "left_out":  # the catalog does not have it, so it is no record's
            self.urns = tuple(urn for urn in self.urns if urn != outcome.urn)
            self.is_compared = False
        elif stamps:
            self.stamps[outcome.urn] = stamps
        else:
            self.is_compared = False
        self.reason = reason or self.reason

    def row(self) -> RecordRow:
        """Return the row that is stored once its entities have arrived, or some were refused."""
        # A pass over changes may see only some of the records that an entity is made of.
        is_whole = self.is_compared and self.part.full is not None and not self.reason
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
            aspect_stamps=dumps(self.stamps).decode() if is_whole and self.stamps else "",
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
                urns="\n".join(dict.fromkeys((*known.entities, *self.urns))),
                fingerprint="" if self.version.leads else row.fingerprint,
                reason=records.UNFINISHED,
                seen_in_pass=0,
                aspect_stamps="",
            )


class Tracker:
    """Compares records with what was acknowledged, and has them wait for it; for any thread.

    The row of a record is made only once the catalog has taken, or refused, its entities: a run
    that is killed in between merges them again. The row of a record that leads to others waits
    until these are settled, too: a pass that ends early would forget them. A row of before equals
    nothing from the first write on: the source may return to what it was then.

    `refused_without_record` is True once an entity was refused that is of no record.
    """

    def __init__(self, state: StateSession, clean: Callable[[str], str] = str) -> None:
        """Compare with `state` while it is open; `clean` hides secrets in reasons."""
        self._state = state
        self._clean = clean
        self._lock = threading.Lock()
        self._waiting: dict[str, list[list[TrackedRecord]]] = {}
        self.rows: list[RecordRow] = []
        """The rows that wait to be saved."""
        self._held: list[RecordRow] = []
        self._written: set[int] = set()
        self._same: dict[str, list[str]] = {}
        self.refused_without_record = False

    def changes(
        self, page: Page[Any], read_stamps: ReadStamps
    ) -> tuple[list[tuple[Any, TrackedRecord | None]], list[str]]:
        """Return the records of `page` that have to be mapped, and the entities of the others.

        These are the records that changed since they were acknowledged, in a full pass also those
        of what the catalog does not hold any more as it was; one that is not remembered has no
        `TrackedRecord`.

        Cost: a statement for each 500 records; in a full pass one request for a batch of entities
        of a type.
        """
        part = page.partition
        if not self._state.remembers or not isinstance(part, PartitionPass):
            return [(record, None) for record in page.records], []
        versions = [record.record_version for record in page.records]
        ids: dict[str, list[str]] = {}
        for version in filter(None, versions):
            ids.setdefault(version.kind, []).append(version.id)
        read = partial(self._state.database.select, RecordRow, records.KNOWN, part.part_id)
        known = {
            (kind, row.id): row
            for kind, kind_ids in ids.items()
            for row in read(kind, among=kind_ids)
        }
        rows = [version and known.get((version.kind, version.id)) for version in versions]
        if part.full is not None:
            rows = without_old_stamps(rows, read_stamps)
        same = self._same_rows(part, versions, rows)
        changed: list[tuple[Any, TrackedRecord | None]] = []
        urns: list[str] = []
        for record, version, row, equal in zip(page.records, versions, rows, same, strict=True):
            if version is not None and equal is not None:
                self._same.setdefault(version.kind, []).append(version.id)
                urns.extend(equal.entities)
            else:
                changed.append((record, version and TrackedRecord(part, version, row)))
        return changed, urns

    def _same_rows(
        self,
        part: PartitionPass,
        versions: Sequence[RecordVersion | None],
        rows: Sequence[RecordRow | None],
    ) -> list[RecordRow | None]:
        """Return the row of each record of a page about which nothing has to be done, else None."""
        same = [
            row
            if version and row and self._is_unchanged(part, version, row, version.digest)
            else None
            for version, row in zip(versions, rows, strict=True)
        ]
        # Another record of an entity that changes, or the same one as it is listed again.
        changing = {
            urn
            for row, equal in zip(rows, same, strict=True)
            if row is not None and equal is None
            for urn in row.entities
        }
        return [row if row and changing.isdisjoint(row.entities) else None for row in same]

    def track(
        self, record: TrackedRecord | None, entities: Sequence[Entity], *, looked_up: bool = False
    ) -> bool:
        """Take note of what became of a record; return whether its entities have to be merged.

        If something was `looked_up` in the catalog for them, the digest is theirs, not the
        record's.
        """
        if not self._state.remembers or record is None:
            return True
        part, version, known = record.part, record.version, record.known
        # What has no JSON form has no hash: it is refused when it is written.
        record.digest = (not looked_up and version.digest) or (
            record_hash([*map(_content, entities)]) or ""
        )
        if known and self._is_unchanged(part, version, known, record.digest):
            self._same.setdefault(version.kind, []).append(version.id)
            return False
        self._name(record, [entity.urn for entity in entities if not entity.only_if_absent])
        record.left.update(record.urns)
        record.stamps.update({one.urn: _EXISTS for one in entities if one.only_if_absent})
        if part.number > 1:
            self._written.update(map(hash, record.urns))
        with self._lock:
            if version.leads:
                self.rows += record.unfinished()  # before the rows of what it leads to
            for urn in record.urns:
                self._waiting.setdefault(urn, []).append([record])
            if not record.urns:
                self._add_row(record)
        return True

    def _name(self, record: TrackedRecord, urns: Iterable[str]) -> None:
        """Take note of the entities that a record is, and of former ones that it is no more."""
        record.urns = tuple(dict.fromkeys(urns))
        record.part.renamed += [urn for urn in record.known_urns if urn not in record.urns]

    def fold(self, urn: str) -> None:
        """Take note that the last two records of an entity are written as one."""
        with self._lock:
            waiting = self._waiting.get(urn, [])
            waiting[-2:] = [[record for group in waiting[-2:] for record in group]]

    def keep(
        self, record: TrackedRecord | None, urns: Iterable[str], reason: str | None = None
    ) -> None:
        """Keep that a record is listed, of which there is nothing to write.

        With a `reason` it could not be mapped: the next pass asks for it again.
        """
        if self._state.remembers and record is not None:
            self._name(record, urns)
            if reason is not None:
                record.reason = self._clean(reason) or "not usable"
            with self._lock:
                self._add_row(record)

    def unfinished(self, urns: Iterable[str]) -> list[RecordRow]:
        """Take the rows to save before `urns` are written: those of before equal nothing then."""
        with self._lock:
            writing = [one for urn in urns for one in self._waiting.get(urn, [[]])[0]]
            rows, self.rows = [*self.rows, *chain(*(one.unfinished() for one in writing))], []
            return rows

    def settle(self, outcomes: Iterable[Outcome]) -> None:
        """Make the rows of the records whose last entity is among `outcomes`."""
        with self._lock:
            for outcome in outcomes:
                refusal = outcome.refusals[0] if outcome.refusals else None
                waiting = self._waiting.get(outcome.urn)
                if not waiting:
                    # It is of no record, for example a tag: only a full pass tries it again.
                    self.refused_without_record |= refusal is not None
                    continue
                # In the order they were read, which is the order in which they are written.
                written = waiting.pop(0)
                if not waiting:
                    del self._waiting[outcome.urn]
                # An entity of several records is what they are together.
                stamps = outcome.stamps if len(written) == 1 else None
                reason = "" if refusal is None else self._clean(str(refusal)) or "refused"
                for record in written:
                    record.take(outcome, stamps, reason)
                    if not record.left:
                        self._add_row(record)

    def take_rows(self) -> list[RecordRow]:
        """Take the rows that wait to be saved."""
        with self._lock:
            rows, self.rows = self.rows, []
            return rows

    def release_held(self) -> None:
        """Have all rows wait to be saved, once all that was read is settled."""
        with self._lock:
            self.rows, self._held = [*self.rows, *self._held], []

    def forget(self) -> None:
        """Have no record wait any more."""
        with self._lock:
            self._waiting.clear()

    def _add_row(self, record: TrackedRecord) -> None:
        # What this one leads to is read because of it, and may not arrive.
        if record.version.leads:
            self.rows += record.unfinished()
        (self._held if record.version.leads else self.rows).append(record.row())

    def _is_unchanged(
        self, part: PartitionPass, version: RecordVersion, known: RecordRow, digest: str | None
    ) -> bool:
        return (
            known.equals(version, digest)
            and (part.full is None or bool(known.aspect_stamps))
            and self._state.entities.earlier.isdisjoint(known.entities)
            # Written for another record of this pass, or for this one as it was listed before.
            and (not self._written or self._written.isdisjoint(map(hash, known.entities)))
        )

    def touch(self, page: Page[Any]) -> None:
        """Save that the source still lists those of `page`, all of it mapped, that did not change.

        Cost: one transaction if there are any.
        """
        part, same, self._same = page.partition, self._same, {}
        if isinstance(part, PartitionPass) and same:
            row = part.part_id, part.number
            self._state.database.change(lambda connection: records.touch(connection, *row, same))


def _content(entity: Entity) -> list[object]:
    """Return all of an entity that its merge depends on; aspects count in their order."""
    how = entity.only_if_absent, sorted(entity.adds_only), entity.formerly
    return [entity.urn, *how, *entity.aspects.items()]
