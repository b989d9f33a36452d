"""Soft delete of what one source does not have any more: all or none, within limits."""

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import Any, Final, Self

from mlcat_ingest.client.base import CANNOT_ANSWER
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import CodecError, LimitError, StateUnavailableError
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.labels import label_of, with_label
from mlcat_ingest.metadata.proposal import Entity, custom_properties
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.applied import NOTHING
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.provenance import is_removed, stored_properties
from mlcat_ingest.pipeline.merge.retract import whole_entity
from mlcat_ingest.pipeline.merge.rules import BORROWED, properties_aspect
from mlcat_ingest.pipeline.read.feature_tables import PrimaryKeys
from mlcat_ingest.pipeline.removal.rename import GroupCopier
from mlcat_ingest.pipeline.removal.unlisted import UnlistedEntities
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.pipeline.write.conflicts import PermittedReads
from mlcat_ingest.pipeline.write.searchable import in_chunks
from mlcat_ingest.recipe.model import LimitsSpec
from mlcat_ingest.sources.base import Capability, Missing, NamedGroup, Source, Unlisted

log = logging.getLogger(__name__)

FLOOR: Final = 10
"""So many entities may always be removed, however few there are."""

_AT_ONCE: Final = 500
"""Entities whose records are deleted together."""


_IN_MEMORY_BYTES: Final = 4 * 1024 * 1024


class DeferredRemovals:
    """Removals that wait until their number is known; safe to use from several threads.

    They are on disk once there are many. An entity whose content changes later is yielded twice.
    """

    def __init__(self) -> None:
        """Start with none, and defer the removals that come."""
        self._lock = threading.Lock()
        self._file = SpooledTemporaryFile[bytes](_IN_MEMORY_BYTES)
        self.urns: dict[str, int] = {}
        """The deferred entities, released or not, and a hash of what they are."""
        self._unserializable: list[Entity] = []
        self._open = False
        self.new_groups = False
        """True once a group was merged that the catalog does not show yet."""

    def partition(self, merged: Sequence[MergedEntity]) -> tuple[list[MergedEntity], list[str]]:
        """Return the entities to write now, and the URNs of those whose removal is deferred."""
        passing: list[MergedEntity] = []
        deferred: list[str] = []
        for entity in merged:
            if entity.entity_type == "mlModelGroup" and not entity.is_removed:
                self.new_groups |= entity.change == "created" or is_removed(entity.stored)
            # Of one that others have, too, only ours goes; or all, if theirs is gone by the write.
            is_removal = entity.is_removed and entity.change in {"removed", "updated"}
            if not is_removal or is_removed(entity.stored) or self._open:
                passing.append(entity)
            else:
                self._keep(entity.entity)
                deferred.append(entity.urn)
        return passing, deferred

    def _keep(self, entity: Entity) -> None:
        try:
            line = dumps([entity.urn, entity.aspects, sorted(entity.adds_only)])
        except CodecError:
            line = b""
        content = hash(line)
        with self._lock:
            if self.urns.get(entity.urn) == content:
                return
            self.urns[entity.urn] = content
            if line:
                self._file.write(line + b"\n")
            else:
                self._unserializable.append(entity)  # the catalog will refuse it, in its own words

    def release(self) -> Iterator[Entity]:
        """Yield the deferred entities, and defer no more until `restart`."""
        self._open = True
        self._file.seek(0)
        for line in self._file:
            urn, aspects, adds_only = loads(line)
            yield Entity(urn, aspects, adds_only=frozenset(adds_only))
        yield from self._unserializable

    def restart(self) -> None:
        """Delete the deferred entities, and defer those that come from now on."""
        with self._lock:
            self._open = self.new_groups = False
            self.urns, self._unserializable = {}, []
            self._file.close()
            self._file = SpooledTemporaryFile[bytes](_IN_MEMORY_BYTES)

    def close(self) -> None:
        """Delete the file; safe to call twice."""
        self._file.close()


@dataclass(frozen=True, slots=True)
class _MissingEntity:
    source: str
    part: PartitionPass | None
    missing: Missing
    label: str | None
    removed: bool
    changed_ms: int

    @classmethod
    def of(
        cls, source: str, missing: Missing, entity: Unlisted, part: PartitionPass | None = None
    ) -> Self:
        stamp = entity.properties.get("lastModified") or NOTHING
        label = label_of(entity.urn, entity.properties)
        return cls(source, part, missing, label, entity.removed, stamp.get("time") or 0)


class Removal:
    """Finds what to remove after a source was read; used by one thread.

    `next_pass` lists the entities that are removed if the next complete pass lacks them, too.
    `named` takes the groups of `Finished`, of which that source is asked.
    """

    def __init__(
        self,
        context: RunContext,
        deferred: DeferredRemovals,
        copier: GroupCopier,
        keys: PrimaryKeys,
        limits: LimitsSpec,
    ) -> None:
        """Remove `deferred` entities and those that passes did not list."""
        self._context = context
        self._note = context.ledger.note
        self._deferred = deferred
        self._copier = copier
        self._max_ratio = limits.max_removed_ratio
        self._moved: list[_MissingEntity] = []
        self.next_pass: list[str] = []
        self.named: list[NamedGroup] = []
        self._unlisted = UnlistedEntities(context, keys)
        self.unfound = self._unlisted.unfound

    def after(self, source: Source[Any], passes: Sequence[PartitionPass]) -> Iterator[Entity]:
        """Yield the entities to remove, now that `passes` read all of `source`.

        Raises:
            LimitError: they would be too many; nothing was yielded.
            MlcatError: as `Source.read`.

        Cost: see `UnlistedEntities`; of the source what `Source.missing` asks, and one request for
        each that is missing, until more are gone than may be removed.
        """
        waiting = [*self._deferred.urns]
        try:
            missing = self._confirm(list(self._missing(source, passes, waiting)), passes)
        except StateUnavailableError:
            missing = []
            self._note_without_state(source)
        self._moved = [entity for entity in missing if entity.missing.moved_to is not None]
        missing = [entity for entity in missing if not entity.removed]
        gone = self._gone(missing, passes, len(waiting))
        if gone is None:
            return
        yield from self._deferred.release()
        for part in passes:
            # A feature store has no trash: what it lists is live.
            if part.full is None and Capability.FEATURES in source.capabilities:
                yield from self._taken_by_others(part)
        for batch in chunks(gone, _AT_ONCE):
            yield from self._soft_delete(batch)

    def _taken_by_others(self, part: PartitionPass) -> Iterator[Entity]:
        """Yield, to be live again, what a pass over a whole store lists and others removed.

        What they deleted for good equals nothing any more, so that the next pass writes it. What
        the token may not read is left out.

        Cost: one read for each batch that a search does not find.
        """
        reads = PermittedReads(self._context.sink, self._context.state)
        for urns in in_chunks(sorted(self.unfound(part), key=entity_type_of)):
            stored, denied = reads.read([Entity(urn, {STATUS: NOTHING}) for urn in urns])
            unread = {outcome.urn for outcome in denied}
            deleted = [urn for urn in urns if not stored.get(urn) and urn not in unread]
            self._context.ledger.deleted(part, deleted)
            for urn in deleted:
                self._note("removed_by_others", f"{urn}: deleted, the next pass writes it again")
            for urn in urns:
                if is_removed(stored.get(urn, NOTHING)):
                    self._note(
                        "removed_by_others", f"{urn}: soft-deleted, and restored by this run"
                    )
                    yield Entity(urn, {STATUS: {"removed": False}})

    def _gone(
        self, missing: Sequence[_MissingEntity], passes: Sequence[PartitionPass], waiting: int
    ) -> Sequence[_MissingEntity] | None:
        """Return those of `missing` that the source reports as gone; the others are kept and noted.

        An entity that is kept counts for no limit, nor does one that is switched off. None: there
        may be too many, and the number of all entities is unknown.

        Raises:
            LimitError: with the `waiting` ones they are too many.
        """
        gone = [entity for entity in missing if entity.missing.switched_off]
        limited = [entity for entity in missing if not entity.missing.switched_off]
        count, removed = waiting + len(limited), waiting
        total = count if count <= FLOOR else self._total(passes, limited)
        if count and not total:
            what = f"{plural(count, 'entity', 'entities')} not removed"
            self._note("removal_without_state", f"{what}: the number of all entities is unknown")
            return None
        total = max(total, count)  # the catalog may find what no state lists
        most = max(FLOOR, self._max_ratio * total)
        for entity in limited:
            if removed > most:
                break
            if entity.missing.is_gone():
                gone.append(entity)
                removed += 1
            else:
                count -= 1
                about = with_label(entity.missing.urn, entity.label)
                self._note("unlisted_kept", f"{about}: not listed, and not reported as deleted")
        if removed <= most:
            return gone
        if not passes:
            what = f"{plural(count, 'entity', 'entities')} not removed"
            self._note("unlisted_kept", f"{what}: more than limits.max_removed_ratio allows")
            return None
        raise LimitError(
            f"{count:,} of {plural(total, 'entity', 'entities')} of "
            f"{', '.join(part.key.source for part in passes)} would be removed, more than "
            f"limits.max_removed_ratio ({self._max_ratio:g}) allows; none was removed",
            hint="list them with `mlcat-ingest plan`; if the removal is right, raise the limit "
            "for one run",
        )

    def _total(self, passes: Sequence[PartitionPass], missing: Sequence[_MissingEntity]) -> int:
        if passes:
            return sum(map(self._unlisted.total, passes))
        sources, types = {entity.source for entity in missing}, ("mlModel", "mlModelGroup")
        return sum(self._unlisted.count(source, types) for source in sources)

    def copy_moved(self) -> None:
        """Copy what people put on groups that have another name, now that these are removed.

        Nobody edits a group that is hidden. Where some were removed before, the newest is first.

        Cost: see `GroupCopier.copy`, for each group that was not copied before.
        """
        self._moved.sort(key=lambda entity: (entity.removed, -entity.changed_ms))
        for entity in self._moved:
            self._copier.copy(entity.missing.urn, entity.missing.moved_to or "")

    def _soft_delete(self, entities: Sequence[_MissingEntity]) -> Iterator[Entity]:
        removed: dict[PartitionPass | None, list[str]] = {}
        for entity in entities:
            if not self._is_used(entity):
                removed.setdefault(entity.part, []).append(entity.missing.urn)
        for part, urns in removed.items():
            if part is not None:
                self._context.ledger.deleted(part, urns)
            for urn in urns:
                # Of one that others may have, too, all that is ours is looked for.
                is_shared = urn in self._unlisted.shared or entity_type_of(urn) in BORROWED
                named = whole_entity(urn).aspects if is_shared else NOTHING
                yield Entity(urn, {**named, STATUS: {"removed": True}})

    def _missing(
        self, source: Source[Any], passes: Sequence[PartitionPass], waiting: Sequence[str]
    ) -> Iterator[_MissingEntity]:
        if Capability.MISSING not in source.capabilities:
            return
        groups, self.named = self.named, []
        unlisted = [(group.source, self._unlisted.of_group(group)) for group in groups]
        if self._context.state.remembers:
            after = partial(self._unlisted.after, new_groups=self._deferred.new_groups)
            ended = [part for part in passes if part.finished is not None]
            unlisted += [(part.key.source, after(part, waiting)) for part in ended]
        else:
            self._note_without_state(source)
        by_source = {part.key.source: part for part in passes}
        for key, batches in unlisted:
            for batch in filter(None, batches):
                entities = {entity.urn: entity for entity in batch}
                for missing in source.missing(key, batch):
                    yield _MissingEntity.of(key, missing, entities[missing.urn], by_source.get(key))

    def _note_without_state(self, source: Source[Any]) -> None:
        if Capability.FEATURES in source.capabilities and self._context.sink.facts.keeps:
            self._note("removal_without_state", "no removals without the state database")

    def _confirm(
        self, missing: Sequence[_MissingEntity], passes: Sequence[PartitionPass]
    ) -> list[_MissingEntity]:
        """Return `missing` without the entities that only this pass lacks; state remembers those.

        They are saved before limits are looked at: an entity that is listed again starts anew.
        """
        confirmed = [entity for entity in missing if not entity.missing.second_pass]
        for part in passes:
            if not part.is_complete:
                continue
            absent = [
                entity for entity in missing if entity.part is part and entity.missing.second_pass
            ]
            before = self._context.state.entities.absent_urns(part)
            self._context.ledger.absent(part, [entity.missing.urn for entity in absent])
            for entity in absent:
                if entity.missing.urn in before:
                    confirmed.append(entity)
                else:
                    self.next_pass.append(entity.missing.urn)
                    about = with_label(entity.missing.urn, entity.label)
                    self._note("absent_once", f"{about}: removal due in the next pass")
        return confirmed

    def _is_used(self, gone: _MissingEntity) -> bool:
        """Return whether a group has to stay: for others' models, or as the name of its object."""
        missing = gone.missing
        # Of one that another recipe has, too, only ours goes: the other one may know a newer name.
        moved_to = None if missing.urn in self._unlisted.shared else missing.moved_to
        if moved_to is not None and self._copier.leads_to(moved_to, missing.urn):
            return True
        if entity_type_of(missing.urn) != "mlModelGroup":
            return False
        try:
            used = any(
                self._has_foreign(page, gone.source, missing.urn)
                for page in self._context.sink.search.members(missing.urn)
            )
        except CANNOT_ANSWER as error:
            self._note("groups_kept", f"{missing.urn}: its members cannot be listed: {error}")
            return True
        if used:
            log.info("%s is kept: it contains models of others", missing.urn)
        return used

    def _has_foreign(self, models: Sequence[str], source: str, group: str) -> bool:
        aspects = [properties_aspect("mlModel"), STATUS]
        for urn, stored in self._context.sink.read_many(models, aspects).items():
            properties = stored_properties(urn, stored)
            if properties is None or is_removed(stored):
                continue
            sources = custom_properties(properties).get(SOURCE_KEY)
            if sources is None and urn in self._deferred.urns:
                continue  # somebody's upsert dropped the key, and this pass read it of the source
            if source not in str(sources).split(",") and group in (properties.get("groups") or ()):
                return True
        return False
