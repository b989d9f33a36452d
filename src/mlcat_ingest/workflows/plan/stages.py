"""The two ends of a run that writes nothing: what it reads from, and what its entities end in."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from mlcat_ingest.client.base import Catalog, Searches, StoredEntity
from mlcat_ingest.core.awaiting import Awaited
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import AspectRejectedError, CodecError
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.pipeline.merge import MergedEntity
from mlcat_ingest.pipeline.report.delivered import Delivered, Refusal
from mlcat_ingest.workflows.plan.spool import PlanSpool


class PlannedDelivery:
    """Takes note of merged entities in place of writing them."""

    def __init__(self, spool: PlanSpool) -> None:
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


class PlannedCatalog(Catalog):
    """A catalog that is only read, and reads as if what is planned were written.

    It evaluates nothing, since nothing is written.
    """

    def __init__(self, catalog: Catalog, spool: PlanSpool) -> None:
        """Read from `catalog`; what is planned is in `spool`."""
        self._catalog = catalog
        self._spool = spool

    @property
    def keeps(self) -> bool:
        """Whether there is anything to compare with."""
        return self._catalog.keeps

    @property
    def address(self) -> str:
        """The address of the catalog."""
        return self._catalog.address

    @property
    def batch_size(self) -> int:
        """Proposals in one write request at most."""
        return self._catalog.batch_size

    @property
    def search(self) -> Searches:
        """What searches the catalog, as it is."""
        return self._catalog.search

    @property
    def requests_made(self) -> int:
        """How many requests were sent so far, retries included."""
        return self._catalog.requests_made

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer; see `Awaits`."""
        return self._catalog.awaited()

    def open(self, *, read_only: bool = True) -> str:
        """Connect to read, which makes nothing."""
        del read_only
        return self._catalog.open(read_only=True)

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return what is stored, and over it what would be."""
        return self._spool.over(self._catalog.read_many(urns, aspects), urns, aspects)

    def get_aspect(self, urn: str, aspect: str, version: int = 0) -> Aspect | None:
        """Return an aspect as it is, or was."""
        return self._catalog.get_aspect(urn, aspect, version)

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        """Write nothing: entities are delivered elsewhere, and all else is none of a plan's."""
        del proposals
        return ()

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield what checking the catalog finds, without writing."""
        del write
        return self._catalog.check()

    def close(self, *, complete: bool = True) -> None:
        """Release connections; nothing is finished, since nothing was begun."""
        del complete
        self._catalog.close(complete=False)
