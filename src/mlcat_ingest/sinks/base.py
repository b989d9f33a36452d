"""What a sink is: it reads stored aspects in bulk, writes proposals, evaluates metadata tests."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, Protocol, runtime_checkable

from mlcat_ingest.client.results import Evaluation, StoredAspect, StoredEntity, TestOutcome
from mlcat_ingest.client.search import Owned
from mlcat_ingest.errors import (
    AspectRejectedError,
    CatalogRequestError,
    NotAuthorizedError,
    ProtocolMismatchError,
)
from mlcat_ingest.findings import Finding
from mlcat_ingest.metadata.proposal import Aspect, Proposal

__all__ = [
    "CANNOT_SEARCH",
    "Evaluation",
    "Owned",
    "Sink",
    "StoredAspect",
    "StoredEntity",
    "TestOutcome",
]

CANNOT_SEARCH: Final = (CatalogRequestError, NotAuthorizedError, ProtocolMismatchError)
"""What `Sink.owned`, `members` and `datasets_like` raise where a catalog is not searched, or not by
us; not while it is down."""


@runtime_checkable
class MadeOnOpen(Protocol):
    """A sink whose `open` makes the catalog where there is none."""

    def exists(self) -> bool:
        """Return whether there is a catalog already; nothing is contacted."""
        ...


class Sink(Protocol):
    """Where proposals go. Built by `sink_class(config)`; nothing is contacted before `open`."""

    @property
    def batch_size(self) -> int:
        """Proposals in one write request at most."""
        ...

    def address(self) -> str | None:
        """Return what tells this catalog from others; None for a sink that holds nothing.

        What is remembered between runs is kept under it. Nothing is contacted.
        """
        ...

    def open(self) -> str:
        """Connect, and return one line for the user: where it writes.

        Raises:
            CatalogUnavailableError, AuthenticationError, NotAuthorizedError,
            ProtocolMismatchError: as their names say.
        """
        ...

    def open_to_read(self) -> str:
        """Connect as `open` does, but make nothing; return the same line for the user.

        Where there is no catalog yet, none is made: it reads as an empty one.

        Raises:
            CatalogUnavailableError, AuthenticationError, NotAuthorizedError,
            ProtocolMismatchError: as their names say.
        """
        ...

    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return the stored `aspects` of each of `urns`; URNs the catalog lacks are left out.

        Cost: one request for up to 200 URNs of one entity type.
        """
        ...

    def read_version(self, urn: str, aspect: str, version: int) -> Aspect | None:
        """Return an earlier version of an aspect, None where the catalog keeps none.

        Cost: one request.
        """
        ...

    def owned(self, entity_type: str, source: str) -> Owned:
        """Return the live entities of a type whose `mlcat.source` names `source`.

        Raises:
            CatalogRequestError, ProtocolMismatchError, NotAuthorizedError: the catalog cannot be
                searched, or not by us.

        Cost: one request for each 1,000; the total comes with the first.
        """
        ...

    def members(self, group: str) -> Iterator[list[str]]:
        """Yield the URNs of the models in a group, removed ones too, in pages; raises as `owned`.

        Cost: one request for each 1,000.
        """
        ...

    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return for each text the URNs of a few datasets that a search for it finds.

        Raises: as `owned`.

        Cost: one request.
        """
        ...

    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        """Write `proposals` durably and return those refused; the others are acknowledged.

        Neighbours of one URN are written together or refused together, with an
        `AspectChangedError` each where one names another version than is stored.

        Cost: one request for up to `batch_size` proposals and 15 MiB; more where some are refused.
        """
        ...

    def evaluate(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        """Evaluate the metadata tests of `urns`, and push the results if `should_push`.

        Cost: one request for up to 200 URNs, or one a URN where the service has no batch call.
        """
        ...

    def requests_made(self) -> int:
        """Return how many requests were sent to the catalog so far."""
        ...

    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing.

        With `write` an entity of the doctor's own is written and deleted again.
        """
        ...

    def close(self, *, complete: bool = True) -> None:
        """Release connections and child processes; safe to call twice.

        A sink that shows its work only whole keeps back what is not `complete`.
        """
        ...
