"""From merged entities to batches: packed until they fill a request, delivered, evaluated."""

import threading
from collections.abc import Iterable, Sequence

from mlcat_ingest.pipeline.delivery import BATCH_SIZE, Delivers
from mlcat_ingest.pipeline.evaluate import Evaluator
from mlcat_ingest.pipeline.merge import MergedEntity
from mlcat_ingest.pipeline.queues import InFlight
from mlcat_ingest.pipeline.state.tracker import Tracker
from mlcat_ingest.pipeline.tally import Tally
from mlcat_ingest.pipeline.weight import HEAVIEST, weight_of


class Writer:
    """Packs whole entities into batches of at most 200 proposals; whoever fills one writes it.

    A batch ends sooner before an entity that would make it weigh more than `HEAVIEST`.
    """

    def __init__(
        self,
        delivery: Delivers,
        in_flight: InFlight,
        evaluator: Evaluator,
        tracker: Tracker,
        tally: Tally,
    ) -> None:
        """Deliver batches, release what is written, and hand it to `evaluator`."""
        self._delivery = delivery
        self._in_flight = in_flight
        self._evaluator = evaluator
        self._tracker = tracker
        self._tally = tally
        self._lock = threading.Lock()
        self._pool: list[MergedEntity] = []
        self._pooled_proposals = self._pooled_weight = 0

    def add(self, changed: Iterable[MergedEntity]) -> None:
        """Take changed entities, and write each batch that they fill."""
        full = []
        with self._lock:
            for one in changed:
                weight = weight_of(one.entity)
                if self._pool and (
                    self._pooled_proposals + len(one.proposals) > BATCH_SIZE
                    or self._pooled_weight + weight > HEAVIEST
                ):
                    full.append(self._cut())
                self._pool.append(one)
                self._pooled_proposals += len(one.proposals)
                self._pooled_weight += weight
                if self._pooled_proposals >= BATCH_SIZE:
                    full.append(self._cut())
            self._in_flight.park([one.urn for one in self._pool])
        for batch in full:
            self._write(batch)

    def flush(self) -> None:
        """Write what still waits for its batch to fill."""
        with self._lock:
            batch = self._cut()
        if batch:
            self._write(batch)

    def _cut(self) -> list[MergedEntity]:
        batch, self._pool = self._pool, []
        self._pooled_proposals = self._pooled_weight = 0
        self._in_flight.unpark([one.urn for one in batch])
        return batch

    def _write(self, batch: Sequence[MergedEntity]) -> None:
        results = self._tracker.results
        results.changing([one.urn for one in batch if one.outcome != "created"])
        delivered = self._delivery.deliver(batch)
        self._tally.entities_written(delivered)
        refused = {one.merged.urn: str(one.refusals[0]) for one in delivered if one.refusals}
        urns = [one.urn for one in batch]
        self._tracker.settled(urns, refused)
        self._in_flight.release(urns)
        removed = {one.urn for one in batch if one.is_removed and one.urn not in refused}
        results.removed(removed)
        self._evaluator.add(urn for urn in urns if urn not in refused and urn not in removed)
