"""The interface of a catalog: it reads and writes; some are searched and evaluate tests.

A recipe calls it a `sink`. An implementation derives from `Catalog` and has five methods: `open`,
`read_many`, `write`, `check` and `close`. Each further member has a default, which declares that
the catalog cannot do it.
"""

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeVar

from mlcat_ingest.core.findings import Finding, NoRequests, RequestSide
from mlcat_ingest.errors import (
    AspectRejectedError,
    CatalogRequestError,
    NotAuthorizedError,
    ProtocolMismatchError,
)
from mlcat_ingest.metadata.proposal import Aspect, Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import by_entity_type

CANNOT_ANSWER: Final = (CatalogRequestError, NotAuthorizedError, ProtocolMismatchError)
"""Errors of a catalog that is up and does not answer a question: it lacks the call, or the token
may not ask."""


@dataclass(frozen=True, slots=True)
class StoredAspect:
    """An aspect as the catalog holds it; `version` counts its changes, None where unknown.

    `stamp` tells it from every other value that the aspect ever had; see `stamp_of`.
    """

    value: Aspect
    version: str | None = None
    stamp: str | None = None


def stamp_of(version: str | None, system_metadata: Mapping[str, Any] | None) -> str | None:
    """Return the stamp of an aspect by its system metadata, None where that does not tell.

    A version alone comes again with another value where a catalog is restored from a backup. A run
    writes it only once; another writer names no run, or the same in each write, but not the same
    time. Both are sent with a write, so that its stamp is known once it is acknowledged.
    """
    metadata = system_metadata or {}
    run, observed = metadata.get("runId"), metadata.get("lastObserved")
    if version is None:
        return None
    if run is not None and observed is not None:
        return f"{version} {observed} {run}"
    modified = metadata.get("aspectModified")
    time = modified.get("time") if isinstance(modified, Mapping) else None
    return None if time is None else f"{version} {time}"


def numbers_in(stamp: str | None) -> tuple[int, int]:
    """Return the version in a stamp and its epoch milliseconds, zeros where it has none."""
    words = (stamp or "").split()
    is_known = len(words) > 1 and words[0].isdecimal() and words[1].isdecimal()
    return (int(words[0]), int(words[1])) if is_known else (0, 0)


StoredT = TypeVar("StoredT")

StoredEntity = Mapping[str, StoredAspect]
"""Aspect name to stored aspect; empty for an entity that the catalog does not have."""


@dataclass(frozen=True, slots=True)
class SourceEntities:
    """The entities of one type that a source wrote: how many, and their URNs in pages."""

    total: int
    pages: Iterator[list[str]]


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """The metadata tests of one entity: URNs of the tests that passed and that failed."""

    __test__ = False  # for pytest, this is no test class

    passing: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()


EvaluatedBy = Literal["service", "client"]
"""The side that evaluates metadata tests: the service, or the client in its place."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result of an evaluation: outcomes by entity URN, or why nothing was evaluated.

    `unevaluated` holds tests that could not be evaluated on some entity, which then has no outcome,
    or on any; by the test's URN it says why. `not_stored` says by entity URN why outcomes that were
    to be pushed were not. A service `lacks_call` that has no endpoint for it, whoever asks.
    """

    outcomes: Mapping[str, TestOutcome] = field(default_factory=dict)
    not_evaluated: str | None = None
    unevaluated: Mapping[str, str] = field(default_factory=dict)
    not_stored: Mapping[str, str] = field(default_factory=dict)
    where: EvaluatedBy = "service"
    lacks_call: bool = False


class Reads(Protocol):
    """Reads stored aspects."""

    @abstractmethod
    def read_many(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, StoredEntity]:
        """Return the stored `aspects` of each of `urns`; URNs that have none are left out.

        Each entity that is there has its key aspect.

        Cost: one request for a batch of URNs of one entity type; none where there are no URNs.
        """


def each_type(
    read: Callable[[list[str], list[str]], Mapping[str, StoredT]],
    urns: Iterable[str],
    aspects_of: Callable[[str], Iterable[str]],
) -> dict[str, StoredT]:
    """Return what `read` gives of entities: those aspects that `aspects_of` names for their type.

    Raises and costs as `read`, which is called once an entity type.
    """
    found: dict[str, StoredT] = {}
    for entity_type, members in by_entity_type(urns).items():
        if aspects := sorted(aspects_of(entity_type)):
            found.update(read(members, aspects))
    return found


class Searches(Protocol):
    """Lists entities by what they hold.

    A catalog that is not searched, or not by us, raises one of `CANNOT_ANSWER`. Where nothing else
    is said, a listing costs one request for each 1,000.
    """

    @abstractmethod
    def entities_of_source(
        self, entity_type: str, source: str | None, *, removed: bool = False
    ) -> SourceEntities:
        """Return the live entities of a type whose `mlcat.source` names `source`; None: any.

        With `removed` they are those that are soft-deleted.

        Cost: one request for each 1,000; the total comes with the first.
        """

    @abstractmethod
    def members(self, group: str) -> Iterator[list[str]]:
        """Yield the URNs of the models in a group, removed ones too, in pages."""

    def consumers(self, features: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield each of `features` with the URNs of a page of what uses it, removed models too.

        Cost: one request for 20 features, and for one that more than 100 models use, one for each
        1,000.
        """
        del features
        raise ProtocolMismatchError("the catalog cannot list the models that use a feature")

    @abstractmethod
    def datasets_like(self, texts: Sequence[str]) -> Sequence[Sequence[str]]:
        """Return for each text the URNs of a few datasets that a search for it finds.

        Cost: one request.
        """

    def named(
        self, names: Sequence[str], models: Sequence[str], version: str
    ) -> Iterator[list[str]]:
        """Yield the URNs of live models and groups that may be what is meant, in pages.

        They have one of `names`, or the id of a run that it is, or are that `version` of one of the
        registered `models`, by number or alias. Others may be among them.
        """
        del names, models, version
        raise ProtocolMismatchError("the catalog does not find entities by name")

    def metadata_tests(self) -> Iterator[list[str]]:
        """Yield the URNs of the live metadata tests, in pages."""
        raise ProtocolMismatchError("the catalog does not list its metadata tests")

    def with_incidents(self) -> Collection[str]:
        """Return the entity types of whose incidents the catalog keeps a summary, as pages show it.

        Cost: one request.
        """
        return ()


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


class NoEvaluation(Evaluates):
    """Evaluates nothing, and says why."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        """Return why nothing was evaluated."""
        del urns, should_push, test_urns
        return Evaluation(not_evaluated=self._reason)


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """The facts by which a run decides how to use a catalog.

    Attributes:
        keeps: a later run can read what was written, and build on it.
        exists: there is a catalog before `open` makes one.
        batch_size: proposals in one write request at most.
        connections: requests that it takes at the same time.
        enforces_conditions: it refuses a write that names another version than is stored; None
            where that is not known.
        may_drop: it may acknowledge parts of an aspect that it does not store.
        lacking_types: entity types that it is known to lack.
        index: its search finds what was written once that is acknowledged, or may be behind; None
            where it is not known, or stored entities are not looked for.
        group_page: address of a group's page, with `{urn}` for its percent-encoded URN; empty where
            that is not known.
    """

    keeps: bool = True
    exists: bool = True
    batch_size: int = MAX_REQUEST_ITEMS
    connections: int = 4
    enforces_conditions: bool | None = None
    may_drop: bool = False
    lacking_types: frozenset[str] = frozenset()
    index: Literal["current", "behind"] | None = None
    group_page: str = ""

    @property
    def first_batch_size(self) -> int:
        """Proposals in the first write requests of a run at most."""
        return min(MAX_REQUEST_ITEMS, self.batch_size)


class Catalog(Reads, Protocol):
    """A catalog. Nothing is contacted before `open`; safe to use from several threads after it.

    Attributes:
        system_metadata: sent with each proposal, where the catalog keeps such; says which run wrote
            it.
    """

    system_metadata: Mapping[str, Any] | None = None

    @property
    def facts(self) -> CatalogFacts:
        """What the catalog is, as far as it is known. Nothing is contacted."""
        return CatalogFacts()

    @property
    def address(self) -> str:
        """The identity of this catalog, under which state is kept. Nothing is contacted."""
        return ""

    @property
    def search(self) -> Searches:
        """The search of the catalog.

        Raises:
            ProtocolMismatchError: it has none.
        """
        raise ProtocolMismatchError("the catalog cannot be searched")

    @property
    def evaluator(self) -> Evaluates:
        """The evaluator of the catalog's metadata tests."""
        return NoEvaluation("the catalog does not evaluate metadata tests")

    @property
    def traffic(self) -> RequestSide:
        """The requests to the catalog."""
        return NoRequests()

    @abstractmethod
    def open(self, *, read_only: bool = False) -> str:
        """Connect, and return one line for the user: where it writes.

        With `read_only` nothing is made: where there is no catalog yet, it reads as an empty one.

        Raises:
            CatalogUnavailableError, AuthenticationError, NotAuthorizedError,
            ProtocolMismatchError: as their names say.
        """

    def read_stamps(
        self, urns: Sequence[str], aspects: Collection[str]
    ) -> Mapping[str, Mapping[str, str | None]]:
        """Return the stamp of each stored one of `aspects`, None for an unknown one, by URN.

        Raises and costs as `read_many`, if the catalog cannot leave out the values.
        """
        stored = self.read_many(urns, aspects)
        return {
            urn: {name: aspect.stamp for name, aspect in entity.items()}
            for urn, entity in stored.items()
        }

    def get_aspect(self, urn: str, aspect: str, version: int = 0) -> Aspect | None:
        """Return an aspect, 0 for its latest `version`; None where the catalog does not keep it.

        Cost: one request.
        """
        del urn, aspect, version
        return None

    @abstractmethod
    def write(self, proposals: Sequence[Proposal]) -> Sequence[AspectRejectedError]:
        """Write `proposals` durably and return those refused; the others are acknowledged.

        Neighbours of one URN are written together or refused together, with an
        `AspectChangedError` each where one names another version than is stored.

        Cost: one request for up to `CatalogFacts.batch_size` proposals and 15 MiB; more where some
        are refused.
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
