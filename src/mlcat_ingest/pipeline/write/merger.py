"""The merge stage: read the stored entities, merge, and pass on those that changed."""

import threading
from collections.abc import Callable, Mapping, Sequence

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import LimitError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.evaluate.evaluator import Evaluator
from mlcat_ingest.pipeline.flow.queues import InFlight
from mlcat_ingest.pipeline.merge.entity import Merge, MergedEntity, bases_of
from mlcat_ingest.pipeline.report.dead_letters import DeliveryOutcome
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.state.tracker import Tracker
from mlcat_ingest.pipeline.write.batches import BatchWriter
from mlcat_ingest.pipeline.write.conflicts import PermittedReads, write_again
from mlcat_ingest.pipeline.write.delivery import DeliveryTarget
from mlcat_ingest.pipeline.write.version_sets import LatestVersions
from mlcat_ingest.recipe.model import LimitsSpec


class NewEntityLimit:
    """The limit on entities that a run creates in the catalog."""

    def __init__(self, limits: LimitsSpec) -> None:
        """Let as many through as `limits` allows."""
        self._limit = limits.max_new_entities
        self._admitted = 0
        self._lock = threading.Lock()

    def admit(self, count: int) -> None:
        """Return if `count` more may be created.

        Raises:
            LimitError: they would pass the limit; none of them counts as admitted.
        """
        with self._lock:
            if self._admitted + count > self._limit:
                raise LimitError(
                    f"more than {plural(self._limit, 'new entity', 'new entities')} would be "
                    "created; the run stopped at this limit",
                    hint="raise limits.max_new_entities, or narrow the source",
                )
            self._admitted += count


class Merger:
    """Reads what the catalog holds of a chunk, merges, and passes on what changed."""

    def __init__(
        self,
        sink: Catalog,
        writer: BatchWriter,
        in_flight: InFlight,
        evaluator: Evaluator,
        tracker: Tracker,
        limit: NewEntityLimit,
        tally: Tally,
        merge: Merge,
        defer: Callable[[Sequence[MergedEntity]], tuple[Sequence[MergedEntity], Sequence[str]]],
        deliver: Callable[[Merge], DeliveryTarget],
    ) -> None:
        """Read from `sink`, merge by `merge`, and hand changed entities to `writer`.

        `defer` parts merged entities into those to write, and the URNs of deferred removals;
        `deliver` returns what moves the latest versions among the former.
        """
        self._reads = PermittedReads(sink)
        self._writer = writer
        self._evaluator = evaluator
        self._tracker = tracker
        self._in_flight = in_flight
        self._limit = limit
        self._tally = tally
        self._merge_one = merge
        self._defer = defer
        self.latest = LatestVersions(sink, deliver, tally)

    def merge(self, entity_type: str, entities: Mapping[str, Entity]) -> None:
        """Merge `entities` of one type, by URN, with what is stored.

        Raises:
            LimitError: too many of them are new to the catalog.

        Cost: one read request, and the write and evaluation requests that it fills.
        """
        stored, denied = self._reads.read([*entities.values()])
        if denied:
            self._refuse(entity_type, denied)
        refused = {one.merged.urn for one in denied}
        every = [
            self._merge_one(one, stored.get(urn))
            for urn, one in entities.items()
            if urn not in refused
        ]
        earlier = self._tracker.writes.earlier
        if earlier:
            every = [write_again(one) if one.urn in earlier else one for one in every]
        merged, deferred = self._defer(every)
        self._in_flight.release(deferred)
        self.latest.watch(merged)
        changed = [one for one in merged if one.proposals]
        self._limit.admit(sum(one.outcome == "created" for one in changed))
        self._tally.entities_merged(entity_type, merged)
        unchanged = [one.urn for one in merged if not one.proposals]
        if self._tracker.bases.is_new:
            self._tracker.bases.save(bases_of(one for one in merged if not one.proposals))
        # Before they are acknowledged: the end of a pass evaluates those that have no result yet.
        self._evaluator.add_unchanged(
            [one.urn for one in merged if not one.proposals and not one.is_removed]
        )
        self._tracker.acknowledge(unchanged, {})
        self._in_flight.release(unchanged)
        self._writer.add(changed)

    def _refuse(self, entity_type: str, denied: Sequence[DeliveryOutcome]) -> None:
        """Count entities as refused that the token may not read: a merge needs what is stored."""
        reasons = {one.merged.urn: str(one.refusals[0]) for one in denied}
        self._tally.entities_merged(entity_type, [one.merged for one in denied])
        self._tally.entities_written(denied)
        self._tracker.acknowledge(reasons, reasons)
        self._in_flight.release(list(reasons))
