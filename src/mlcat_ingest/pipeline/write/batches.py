"""Batches of merged entities: packed until they fill a request, delivered, evaluated."""

import threading
from collections.abc import Iterable, Sequence
from typing import Final

from mlcat_ingest.metadata.aspects.common import VERSION_PROPERTIES
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.pipeline.evaluate.evaluator import Evaluator
from mlcat_ingest.pipeline.flow.queues import InFlight
from mlcat_ingest.pipeline.merge.entity import MergedEntity, bases_of
from mlcat_ingest.pipeline.merge.limits import HEAVIEST, weight_of
from mlcat_ingest.pipeline.merge.rules import version_set_of
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.state.tracker import Tracker
from mlcat_ingest.pipeline.write.delivery import DeliveryTarget

MOST_WAITING: Final = MAX_REQUEST_ITEMS
"""Entities that wait for earlier ones of their version sets, before these are written at once."""


class BatchWriter:
    """Packs whole entities into batches of proposals; whoever fills one writes it.

    A batch ends sooner before an entity that would make it weigh more than `HEAVIEST`. An entity
    whose `versionProperties` change waits until all earlier ones of its version set are
    acknowledged: the service compares a new version with the latest that it has stored, so of two
    in one request both would become the latest (VersionPropertiesSideEffect.java).
    """

    def __init__(
        self,
        delivery: DeliveryTarget,
        in_flight: InFlight,
        evaluator: Evaluator,
        tracker: Tracker,
        tally: Tally,
        *,
        batch_size: int,
    ) -> None:
        """Deliver batches of `batch_size`, release them once written, and have them evaluated."""
        self._delivery = delivery
        self._batch_size = batch_size
        self._in_flight = in_flight
        self._evaluator = evaluator
        self._tracker = tracker
        self._tally = tally
        self._lock = threading.Lock()
        self._waiting: dict[str, MergedEntity] = {}
        self._waiting_weight = 0
        self._pool: list[MergedEntity] = []
        self._pooled_proposals = self._pooled_weight = 0

    def add(self, changed: Sequence[MergedEntity]) -> None:
        """Take changed entities, and write each batch that they fill.

        If too many wait for earlier ones of their version sets, these are written first.
        """
        versions = {one.urn: one for one in changed if _changes_version(one)}
        others = [one for one in changed if one.urn not in versions]
        self._in_flight.leave_sets([one.urn for one in others])
        with self._lock:
            self._in_flight.park([one.urn for one in changed])
            self._waiting.update(versions)
            self._waiting_weight += sum(weight_of(one.entity) for one in versions.values())
            full = [*self._pack(others), *self._next_versions()]
        self._write_all(full)
        while True:
            moves = self._in_flight.moves
            if not self._is_crowded():
                return
            if not self.flush():
                self._in_flight.wait_for_move(moves)

    def flush(self) -> bool:
        """Write what still waits for its batch to fill; return whether that was anything."""
        with self._lock:
            batches = self._next_versions()
            if self._pool:
                batches.append(self._cut())
        self._write_all(batches)
        return bool(batches)

    def _is_crowded(self) -> bool:
        with self._lock:
            return len(self._waiting) > MOST_WAITING or self._waiting_weight > HEAVIEST

    def _write_all(self, batches: list[list[MergedEntity]]) -> None:
        while batches:
            self._write(batches.pop(0))
            with self._lock:
                batches.extend(self._next_versions())

    def _next_versions(self) -> list[list[MergedEntity]]:
        """Pack the versions that need not wait any more; return the batches that they fill."""
        if not self._waiting:
            return []
        ready = [urn for urn in self._in_flight.first_of_sets() if urn in self._waiting]
        versions = [self._waiting.pop(urn) for urn in ready]
        self._waiting_weight -= sum(weight_of(one.entity) for one in versions)
        return self._pack(versions)

    def _pack(self, entities: Iterable[MergedEntity]) -> list[list[MergedEntity]]:
        """Put `entities` into the pool, and return the batches that they fill."""
        full = []
        for one in entities:
            weight = weight_of(one.entity)
            if self._pool and (
                self._pooled_proposals + len(one.proposals) > self._batch_size
                or self._pooled_weight + weight > HEAVIEST
            ):
                full.append(self._cut())
            self._pool.append(one)
            self._pooled_proposals += len(one.proposals)
            self._pooled_weight += weight
            if self._pooled_proposals >= self._batch_size:
                full.append(self._cut())
        return full

    def _cut(self) -> list[MergedEntity]:
        batch, self._pool = self._pool, []
        self._pooled_proposals = self._pooled_weight = 0
        self._in_flight.unpark([one.urn for one in batch])
        return batch

    def _write(self, batch: Sequence[MergedEntity]) -> None:
        results, writes = self._tracker.results, self._tracker.writes
        urns = [one.urn for one in batch]
        results.invalidate([one.urn for one in batch if one.outcome != "created"])
        writes.begin(urns)
        delivered = self._delivery.deliver(batch)
        writes.end([one.merged.urn for one in delivered if not one.may_be_stored])
        self._tally.entities_written(delivered)
        refused = {one.merged.urn: str(one.refusals[0]) for one in delivered if one.refusals}
        self._tracker.bases.save(bases_of(one.merged for one in delivered if not one.refusals))
        self._tracker.acknowledge(urns, refused)
        removed = {one.urn for one in batch if one.is_removed and one.urn not in refused}
        results.save({}, removed)
        self._evaluator.add_written(
            one for one in delivered if not one.refusals and one.merged.urn not in removed
        )
        # Whoever waits until nothing is in flight evaluates what is left, and saves a checkpoint.
        self._in_flight.release(urns)


def _changes_version(one: MergedEntity) -> bool:
    return bool(version_set_of(one.entity)) and any(
        proposal.aspect_name == VERSION_PROPERTIES for proposal in one.proposals
    )
