"""What a catalog is: it reads and writes; where it can, it is searched and evaluates tests.

A recipe calls it a `sink`. An implementation derives from `Catalog` and has five methods: `open`,
`read_many`, `write`, `check` and `close`. Each further member has a default, which declares that
the catalog cannot do it.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from mlcat_ingest.core.awaiting import Awaits
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import (
    AspectRejectedError,
    CatalogRequestError,
    NotAuthorizedError,
    ProtocolMismatchError,
)
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS

CANNOT_ANSWER: Final = (CatalogRequestError, NotAuthorizedError, ProtocolMismatchError)
"""Errors of a catalog that is up and does not answer a question: it lacks the call, or the token
may not ask."""


@dataclass(frozen=True, slots=True)
class StoredAspect:
    """An aspect as the catalog holds it; `version` counts its changes, None where not told."""

    value: Aspect
    version: str | None = None


StoredEntity = Mapping[str, StoredAspect]
"""Aspect name to stored aspect; empty for an entity that the catalog does not have."""


@dataclass(frozen=True, slots=True)
class Owned:
    """The live entities of one type that one source wrote: how many, and their URNs in pages."""

    total: int
    pages: Iterator[list[str]]


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """The metadata tests of one entity: URNs of the tests that passed and that failed."""

    __test__ = False  # for pytest, this is no test class

    passing: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What an evaluation gave: outcomes by entity URN, or why nothing was evaluated."""

    outcomes: Mapping[str, TestOutcome] = field(default_factory=dict)
    not_evaluated: str | None = None


class Reads(Protocol):
    """Reads stored aspects."""

    @abstractmethod
    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return the stored `aspects` of each of `urns`; URNs that have none are left out.

        Cost: one request for a batch of URNs of one entity type.
        """

    def get_aspect(self, urn: str, aspect: str, version: int = 0) -> Aspect | None:
        """Return an aspect, 0 for its latest `version`; None where the catalog does not keep it.

        Cost: one request.
        """
        del urn, aspect, version
        return None


class Writes(Protocol):
    """Writes proposals."""

    @property
    def batch_size(self) -> int:
        """Proposals in one write request at most."""
        return MAX_REQUEST_ITEMS

    @abstractmethod
    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        """Write `proposals` durably and return those refused; the others are acknowledged.

        Neighbours of one URN are written together or refused together, with an
        `AspectChangedError` each where one names another version than is stored.

        Cost: one request for up to `batch_size` proposals and 15 MiB; more where some are refused.
        """


class Searches(Protocol):
    """Lists entities by what they hold.

    A catalog that is not searched, or not by us, raises one of `CANNOT_ANSWER`.
    """

    @abstractmethod
    def owned(self, entity_type: str, source: str) -> Owned:
        """Return the live entities of a type whose `mlcat.source` names `source`.

        Cost: one request for each 1,000; the total comes with the first.
        """

    @abstractmethod
    def members(self, group: str) -> Iterator[list[str]]:
        """Yield the URNs of the models in a group, removed ones too, in pages.

        Cost: one request for each 1,000.
        """

    @abstractmethod
    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return for each text the URNs of a few datasets that a search for it finds.

        Cost: one request.
        """


class Evaluates(Protocol):
    """Evaluates metadata tests."""

    @abstractmethod
    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        """Evaluate the tests of `urns`, and push the results if `should_push`.

        Without `test_urns` every test that applies is evaluated.

        Cost: one request for a batch of URNs, or one a URN where the service has no batch call.
        """


class NoEntities(Searches):
    """Searches a catalog that is empty."""

    def owned(self, entity_type: str, source: str) -> Owned:
        """Return no entities."""
        del entity_type, source
        return Owned(0, iter(()))

    def members(self, group: str) -> Iterator[list[str]]:
        """Yield nothing."""
        del group
        return iter(())

    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return no dataset for any of `texts`."""
        return [() for _ in texts]


class NoEvaluation(Evaluates):
    """Evaluates nothing, and says why."""

    def __init__(self, reason: str) -> None:
        """Keep the reason, as words for the report."""
        self._reason = reason

    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        """Return why nothing was evaluated."""
        del urns, should_push, test_urns
        return Evaluation(not_evaluated=self._reason)


class Catalog(Reads, Writes, Awaits, Protocol):
    """A catalog. Nothing is contacted before `open`; safe to use from several threads after it."""

    @property
    def keeps(self) -> bool:
        """Whether what is written can be read again, so that a later run can build on it."""
        return True

    @property
    def address(self) -> str:
        """What tells this catalog from others; state is kept under it. Nothing is contacted."""
        return ""

    @property
    def search(self) -> Searches:
        """What searches the catalog.

        Raises:
            ProtocolMismatchError: nothing does.
        """
        raise ProtocolMismatchError("the catalog cannot be searched")

    @property
    def evaluator(self) -> Evaluates:
        """What evaluates the catalog's metadata tests."""
        return NoEvaluation("the catalog does not evaluate metadata tests")

    @property
    def requests_made(self) -> int:
        """How many requests were sent so far, retries included."""
        return 0

    def exists(self) -> bool:
        """Return whether there is a catalog before `open` makes one; nothing is contacted."""
        return True

    @abstractmethod
    def open(self, *, read_only: bool = False) -> str:
        """Connect, and return one line for the user: where it writes.

        With `read_only` nothing is made: where there is no catalog yet, it reads as an empty one.

        Raises:
            CatalogUnavailableError, AuthenticationError, NotAuthorizedError,
            ProtocolMismatchError: as their names say.
        """

    @abstractmethod
    def check(self, *, write: bool = False) -> Iterator[Finding]:
        """Yield what `mlcat-ingest check` found, connecting but changing nothing.

        With `write` an entity of the check's own is written and deleted again.
        """

    @abstractmethod
    def close(self, *, complete: bool = True) -> None:
        """Release connections and child processes; safe to call twice.

        A catalog that shows its work only whole keeps back what is not `complete`.
        """
