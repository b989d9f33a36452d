"""A catalog that is only read, and the delivery that stores entities in place of writing them."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from mlcat_ingest.client.base import Catalog, CatalogFacts, Searches, StoredEntity
from mlcat_ingest.core.findings import Finding, RequestSide
from mlcat_ingest.errors import AspectRejectedError, CodecError
from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.outcome import Outcome, Refusal
from mlcat_ingest.workflows.plan_store import PlanStore


class PlannedDelivery:
    """Stores merged entities in place of writing them."""

    batch_size = MAX_REQUEST_ITEMS

    def __init__(self, store: PlanStore, context: RunContext) -> None:
        self._store = store
        self._ledger = context.ledger

    def deliver(self, batch: Sequence[MergedEntity]) -> Sequence[Outcome]:
        """Store `batch`, and return it as arrived but for what cannot be sent."""
        self._ledger.ended(self._ledger.begin(batch))
        outcomes: list[Outcome] = []
        for merged in batch:
            refusals: tuple[Refusal, ...] = ()
            try:
                self._store.add(merged)
            except CodecError as error:
                reason = f"cannot be sent: {error}"
                refusals = tuple(Refusal(proposal, reason, 1) for proposal in merged.proposals)
            outcomes.append(Outcome(merged, refusals))
        return outcomes

    def finish(self) -> None:
        """Do nothing: a plan stores nothing."""


OnRead = Callable[[Mapping[str, StoredEntity]], None]


class PlannedCatalog(Catalog):
    """A catalog that is only read, and reads as if what is planned were written.

    It evaluates no metadata tests itself, since nothing is written: the client may.
    """

    def __init__(self, catalog: Catalog, store: PlanStore, on_read: OnRead | None = None) -> None:
        """Read from `catalog`; what is planned is in `store`. `on_read` gets what is stored."""
        self._catalog = catalog
        self._store = store
        self._on_read = on_read

    @property
    def facts(self) -> CatalogFacts:
        """The facts of the catalog; planning makes none, and repairs no search index."""
        return replace(self._catalog.facts, exists=True, index=None)

    @property
    def address(self) -> str:
        """The address of the catalog."""
        return self._catalog.address

    @property
    def search(self) -> Searches:
        """The search of the catalog, as it is."""
        return self._catalog.search

    @property
    def traffic(self) -> RequestSide:
        """The requests to the catalog."""
        return self._catalog.traffic

    def open(self, *, read_only: bool = True) -> str:
        """Connect to read, which makes nothing."""
        del read_only
        return self._catalog.open(read_only=True)

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return what is stored, and over it what would be."""
        stored = self._catalog.read_many(urns, aspects)
        if self._on_read is not None:
            self._on_read(stored)
        return self._store.over(stored, urns, aspects)

    def read_stamps(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, Mapping[str, str | None]]:
        """Return the stamps of what is stored, as a run would read them."""
        return self._catalog.read_stamps(urns, aspects)

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
