"""The two ends of a run that writes nothing: what it reads from, and what its entities end in."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from mlcat_ingest.awaiting import Awaited, longest_awaited
from mlcat_ingest.errors import AspectRejectedError, CodecError
from mlcat_ingest.findings import Finding
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.pipeline.delivered import Delivered, Refusal
from mlcat_ingest.pipeline.merge import MergedEntity
from mlcat_ingest.pipeline.plan.spool import Spool
from mlcat_ingest.sinks.base import Evaluation, Owned, Sink, StoredEntity


class PlannedDelivery:
    """Takes note of merged entities in place of writing them."""

    def __init__(self, spool: Spool) -> None:
        """Keep them in `spool`."""
        self._spool = spool

    def deliver(self, batch: Sequence[MergedEntity]) -> Sequence[Delivered]:
        """Keep what would be written, and return it as arrived but for what cannot be sent."""
        return [self._kept(one) for one in batch]

    def finish(self) -> None:
        """Do nothing: a plan stores nothing."""

    def _kept(self, one: MergedEntity) -> Delivered:
        try:
            self._spool.add(one)
        except CodecError as error:
            reason = f"it cannot be sent: {error}"
            return Delivered(one, tuple(Refusal(each, reason, 1) for each in one.proposals))
        return Delivered(one)


class PlannedSink:
    """A catalog that is only read, and reads as if what is planned were written."""

    def __init__(self, sink: Sink, spool: Spool) -> None:
        """Read from `sink`; what is planned is in `spool`."""
        self._sink = sink
        self._spool = spool

    @property
    def batch_size(self) -> int:
        """Proposals in one write request at most."""
        return self._sink.batch_size

    def address(self) -> str | None:
        """Return the address of the catalog."""
        return self._sink.address()

    def open(self) -> str:
        """Connect to read, which makes nothing."""
        return self._sink.open_to_read()

    def open_to_read(self) -> str:
        """Do what `open` does."""
        return self.open()

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return what is stored, and over it what would be; see `Sink.read_many`."""
        return self._spool.over(self._sink.read_many(urns, aspects), urns, aspects)

    def read_version(self, urn: str, aspect: str, version: int) -> Aspect | None:
        """Return an earlier version of an aspect; see `Sink.read_version`."""
        return self._sink.read_version(urn, aspect, version)

    def owned(self, entity_type: str, source: str) -> Owned:
        """Return what a source owns, as it is; see `Sink.owned`."""
        return self._sink.owned(entity_type, source)

    def members(self, group: str) -> Iterator[list[str]]:
        """Yield who is in a group, as it is; see `Sink.members`."""
        return self._sink.members(group)

    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return a few datasets that a search for each text finds; see `Sink.datasets_like`."""
        return self._sink.datasets_like(texts)

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        """Write nothing: entities are delivered elsewhere, and all else is none of a plan's."""
        del proposals
        return ()

    def evaluate(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        """Evaluate nothing."""
        del urns, should_push, test_urns
        return Evaluation(not_evaluated="nothing was written")

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer; see `Awaits`."""
        return longest_awaited(self._sink)

    def requests_made(self) -> int:
        """Return how many requests were sent so far."""
        return self._sink.requests_made()

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield what checking the catalog finds, without writing."""
        del write
        return self._sink.check()

    def close(self, *, complete: bool = True) -> None:
        """Release connections; nothing is finished, since nothing was begun."""
        del complete
        self._sink.close(complete=False)
