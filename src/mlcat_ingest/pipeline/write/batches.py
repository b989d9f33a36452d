"""Chunks of entities become batches: read what is stored, merge, pack, deliver, evaluate."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import LimitError
from mlcat_ingest.metadata.aspects import (
    EDITABLE_ML_MODEL_GROUP_PROPERTIES,
    VERSION_PROPERTIES,
)
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.registry import allows
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.evaluate.evaluator import Evaluator
from mlcat_ingest.pipeline.flow import InFlight
from mlcat_ingest.pipeline.merge.applied import applied_key
from mlcat_ingest.pipeline.merge.entity import Merge, MergedEntity
from mlcat_ingest.pipeline.merge.limits import HEAVIEST, weight_of
from mlcat_ingest.pipeline.merge.provenance import custom_of, is_reused
from mlcat_ingest.pipeline.merge.rules import BASE_IN_STATE, version_set_of
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.state.stamps import stamps_of
from mlcat_ingest.pipeline.write.conflicts import (
    COPIED,
    OF_PEOPLE,
    PermittedReads,
    aspects_to_read,
    write_again,
)
from mlcat_ingest.pipeline.write.delivery import DeliveryTarget
from mlcat_ingest.pipeline.write.version_sets import LatestVersions
from mlcat_ingest.recipe.model import Recipe


class BatchWriter:
    """Packs whole entities into batches of proposals; the thread that fills one writes it.

    A batch ends sooner before an entity that would make it weigh more than `HEAVIEST`. When an
    entity whose `versionProperties` change is written, `LatestVersions` decides.
    """

    def __init__(
        self,
        context: RunContext,
        in_flight: InFlight,
        delivery: DeliveryTarget,
        evaluator: Evaluator,
        versions: LatestVersions,
    ) -> None:
        """Deliver batches, release them once written, and have them evaluated."""
        self._context = context
        self._in_flight = in_flight
        self._delivery = delivery
        self._evaluator = evaluator
        self._versions = versions
        self._lock = threading.Lock()
        self._buffer: list[MergedEntity] = []
        self._buffered_proposals = self._buffered_weight = 0

    def add(self, changed: Sequence[MergedEntity]) -> None:
        """Take changed entities, and write each batch that they fill.

        If too many wait for others of their version sets, these are written first.
        """
        versions = [entity for entity in changed if _changes_version(entity)]
        others = [entity for entity in changed if not _changes_version(entity)]
        if versions:
            self._versions.learn(versions)
        with self._lock:
            self._in_flight.mark_buffered([entity.urn for entity in changed])
            self._versions.hold(versions)
            full = [*self._pack(others), *self._pack(self._versions.ready())]
        self._write_all(full)
        self._make_room(lambda: not self._versions.is_crowded)

    def claim(self, urns: Collection[str]) -> None:
        """Claim `urns` for a chunk, once earlier entities of the same URNs are written."""
        self._make_room(lambda: self._in_flight.claim(urns))

    def _make_room(self, is_made: Callable[[], bool]) -> None:
        """Write what waits until there is room; where nothing does, another thread writes it."""
        releases = self._in_flight.releases
        while not is_made():
            if not self.flush():
                self._in_flight.wait_for_release(releases)
            releases = self._in_flight.releases

    def drain(self) -> None:
        """Write all that was claimed, to the last entity."""
        while not self._in_flight.wait_until_idle():
            self.flush()

    def flush(self) -> bool:
        """Write what still waits for its batch to fill; return whether that was anything."""
        with self._lock:
            batches = self._pack(self._versions.ready())
            if self._buffer:
                batches.append(self._cut())
        self._write_all(batches)
        return bool(batches)

    def _write_all(self, batches: list[list[MergedEntity]]) -> None:
        while batches:
            self.settle(self._delivery.deliver(batches.pop(0)))
            with self._lock:
                batches.extend(self._pack(self._versions.ready()))

    def _pack(self, entities: Iterable[MergedEntity]) -> list[list[MergedEntity]]:
        """Put `entities` into the buffer, and return the batches that they fill."""
        full = []
        for merged in entities:
            weight = weight_of(merged.entity)
            if self._buffer and (
                self._buffered_proposals + len(merged.proposals) > self._delivery.batch_size
                or self._buffered_weight + weight > HEAVIEST
            ):
                full.append(self._cut())
            self._buffer.append(merged)
            self._buffered_proposals += len(merged.proposals)
            self._buffered_weight += weight
            if self._buffered_proposals >= self._delivery.batch_size:
                full.append(self._cut())
        return full

    def _cut(self) -> list[MergedEntity]:
        batch, self._buffer = self._buffer, []
        self._buffered_proposals = self._buffered_weight = 0
        self._in_flight.mark_sent([entity.urn for entity in batch])
        return batch

    def settle(self, outcomes: Sequence[Outcome]) -> None:
        """Book what became of claimed entities, have them evaluated, and release them.

        The end of a pass waits for the release, evaluates what is left, and saves a checkpoint.
        """
        if outcomes:
            self._context.ledger.settle(outcomes)
            self._versions.take(outcomes)
            self._evaluator.take(outcomes)
            self._in_flight.release([outcome.urn for outcome in outcomes])


class Merger:
    """Reads what the catalog holds of a chunk, merges, and passes on what changed."""

    def __init__(
        self,
        context: RunContext,
        in_flight: InFlight,
        writer: BatchWriter,
        latest: LatestVersions,
        recipe: Recipe,
        merge: Merge,
        defer: Callable[[Sequence[MergedEntity]], tuple[Sequence[MergedEntity], Sequence[str]]],
    ) -> None:
        """Merge by `merge`, and hand changed entities to `writer`.

        `defer` parts merged entities into those to write, and the URNs of deferred removals.
        """
        self._clears_reused = recipe.reused_names == "clear"
        self._context = context
        self._in_flight = in_flight
        self._writer = writer
        self._latest = latest
        self._most_new = self._new_left = recipe.limits.max_new_entities
        self._lock = threading.Lock()
        self._merge_one = merge
        self._defer = defer
        self._reads = PermittedReads(context.sink, context.state)

    def merge(self, entities: Mapping[str, Entity]) -> None:
        """Merge `entities` of one type, by URN, with what is stored.

        Raises:
            LimitError: too many of them are new to the catalog.

        Cost: one read request, and the write and evaluation requests that it fills.
        """
        stored, denied = self._reads.read([*entities.values()])
        entity_type = next(iter(entities.values())).entity_type
        refused = {outcome.urn for outcome in denied}
        if self._clears_reused:
            entities = self._without_former(entity_type, entities, stored)
        earlier = self._context.state.entities.earlier.intersection(stored)
        if earlier and allows(entity_type, EDITABLE_ML_MODEL_GROUP_PROPERTIES):
            # What was not acknowledged may have been a copy, of aspects that no source has.
            copied = self._context.sink.read_many(sorted(earlier), COPIED)
            stored.update({urn: {**copied.get(urn, {}), **stored[urn]} for urn in earlier})
        every = (
            self._merge_one(entity, stored.get(urn))
            for urn, entity in entities.items()
            if urn not in refused
        )
        results = [
            write_again(one) if one.urn in earlier or _was_of_others(one) else one for one in every
        ]
        merged, deferred = self._defer(results)
        self._in_flight.release(deferred)
        self._latest.watch(merged)
        changed = [entity for entity in merged if entity.proposals]
        unchanged = [
            Outcome(one, stamps=stamps_of(one, aspects_to_read(one.entity)))
            for one in merged
            if not one.proposals
        ]
        self._writer.settle([*denied, *unchanged])
        new = sum(entity.change == "created" for entity in changed)
        with self._lock:
            if new > self._new_left:
                raise LimitError(
                    f"more than {plural(self._most_new, 'new entity', 'new entities')} would be "
                    "created; the run stopped at this limit",
                    hint="raise limits.max_new_entities, or narrow the source",
                )
            self._new_left -= new
        self._writer.add(changed)

    def _without_former(
        self, entity_type: str, entities: Mapping[str, Entity], stored: dict[str, StoredEntity]
    ) -> Mapping[str, Entity]:
        """Return entities that say of each aspect of people that it is empty, if they are reused.

        What is `stored` of these aspects is added.
        """
        of_another = [urn for urn in stored if is_reused(entities[urn], stored[urn])]
        names = [name for name in OF_PEOPLE if allows(entity_type, name)]
        held = self._context.sink.read_many(of_another, names)
        cleared: dict[str, Entity] = {}
        for urn, aspects in held.items():
            stored[urn] = {**aspects, **stored[urn]}
            empty = {name: dict.fromkeys(one.value) for name, one in aspects.items()}
            cleared[urn] = replace(entities[urn], aspects={**empty, **entities[urn].aspects})
        return {**entities, **cleared}


def _was_of_others(merged: MergedEntity) -> bool:
    """Return whether a stored entity gets the first base of its writer.

    Whoever wrote it so far may have ended before the search index learned of it, and not come back.
    """
    if merged.change != "updated" or merged.writer is None:
        return False
    if merged.entity_type in BASE_IN_STATE:
        return merged.without_base
    custom = custom_of(merged.urn, merged.stored)
    return applied_key(merged.writer.name) not in custom


def _changes_version(merged: MergedEntity) -> bool:
    return bool(version_set_of(merged.entity)) and any(
        proposal.aspect_name == VERSION_PROPERTIES for proposal in merged.proposals
    )
