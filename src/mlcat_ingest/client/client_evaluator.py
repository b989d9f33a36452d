"""Evaluating metadata tests in the client, for a catalog that does not do it itself.

The tests are those of the catalog, and those that the caller brings. An aspect that cannot be read
makes no outcome: neither of a test nor of an entity.
"""

import logging
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog, Evaluates, Evaluation, TestOutcome
from mlcat_ingest.client.neighbours import (
    EntityReader,
    NeighbourCache,
    WrittenEntities,
    WrittenEntity,
)
from mlcat_ingest.client.reader import chunks
from mlcat_ingest.errors import AspectChangedError, DefinitionError, MissingExtraError
from mlcat_ingest.metadata.aspects.assets import TEST_INFO, TEST_RESULTS, TestResults
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NOT_STORED, Aspect, Proposal
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata_tests.evaluate import MetadataTest, evaluate, merge_results, read_test
from mlcat_ingest.metadata_tests.properties import reads_times

log = logging.getLogger(__name__)

_ACTOR: Final = "urn:li:corpuser:unknown"
_ATTEMPTS: Final = 5
"""How often results are merged anew with what another writer stored meanwhile."""
_UNREADABLE: Final = "an aspect that the test refers to cannot be read"
_CONTENDED: Final = f"another writer changed them {_ATTEMPTS} times"


@dataclass(frozen=True)
class TestSet:
    """The metadata tests of a catalog that can be evaluated, and those that cannot, with reasons.

    `problem` says why they are not known at all.
    """

    __test__ = False  # for pytest, this is no test class

    tests: Sequence[MetadataTest] = ()
    unevaluated: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None

    @cached_property
    def digest(self) -> str:
        """A digest of the tests: another one where a test came, went or changed."""
        return content_hash(sorted([test.urn, test.md5] for test in self.tests))


class ClientEvaluator(Evaluates):
    """Evaluates metadata tests with what `catalog` stores. Safe to use from several threads.

    The tests are read once. Three URNs on the way of a property path are followed at most, through
    a bounded cache. Tests that ask when something was stored are not evaluated: only a service
    knows.
    """

    def __init__(self, catalog: Catalog) -> None:
        """Read from and write to `catalog`; nothing is asked yet."""
        self._catalog = catalog
        self._lock = threading.Lock()
        self._own: dict[str, Aspect] = {}
        self._sets: dict[tuple[str, ...], TestSet] = {}
        self._neighbours = NeighbourCache(catalog)
        self._written = WrittenEntities()

    def add_tests(self, infos: Mapping[str, Aspect]) -> None:
        """Evaluate tests of the caller too, given as `testInfo` by URN, before any other call."""
        self._own = dict(infos)

    def keep_written(self, entities: Mapping[str, WrittenEntity]) -> None:
        """Keep entities as the catalog acknowledged them, for their next evaluation."""
        for urn, aspects in entities.items():
            self._written.put(urn, aspects)

    def tests(self, test_urns: Sequence[str]) -> TestSet:
        """Return the tests `test_urns`, or all that there are.

        Raises:
            CatalogUnavailableError, AuthenticationError: as named.

        Cost: the first time a search, and one request for a batch of tests.
        """
        key = tuple(test_urns)
        with self._lock:
            if key not in self._sets:
                self._sets[key] = self._read_tests(key)
            return self._sets[key]

    def _read_tests(self, test_urns: Sequence[str]) -> TestSet:
        infos: dict[str, Aspect] = {}
        try:
            urns = test_urns or [u for page in self._catalog.search.metadata_tests() for u in page]
            for some in chunks(urns, MAX_REQUEST_ITEMS):
                stored = self._catalog.read_many(some, [TEST_INFO])
                infos |= {u: a[TEST_INFO].value for u, a in stored.items() if TEST_INFO in a}
        except CANNOT_ANSWER as error:
            return TestSet(problem=f"the metadata tests cannot be read: {error.message}")
        own = self._own if not test_urns else {u: self._own[u] for u in urns if u in self._own}
        tests, unevaluated = _readable({**infos, **own})
        absent = {urn: "no such test" for urn in test_urns if urn not in infos | own}
        return TestSet(tests, unevaluated | absent)

    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        """Evaluate the tests of `urns`, and write what changed as `testResults` if `should_push`.

        Raises:
            CatalogUnavailableError, AuthenticationError: as named.

        Cost: one request for 200 entities of a type, none where all that is needed is known from
        their write; as many for the neighbours of each of three steps, none for those in the cache;
        with `should_push` one write.
        """
        found = self.tests(test_urns)
        if found.problem is not None:
            return Evaluation(not_evaluated=found.problem, where="client")
        if not found.tests:
            nothing = dict.fromkeys(urns, TestOutcome())
            return Evaluation(nothing, unevaluated=found.unevaluated, where="client")
        outcomes: dict[str, TestOutcome] = {}
        unevaluated = dict(found.unevaluated)
        not_stored: dict[str, str] = {}
        for some in chunks(list(dict.fromkeys(urns)), MAX_REQUEST_ITEMS):
            batch = self._evaluate(some, found.tests, should_push=should_push)
            outcomes |= batch.outcomes()
            unevaluated |= dict.fromkeys(batch.unreadable_tests(), _UNREADABLE)
            if should_push:
                not_stored |= self._push(batch)
        return Evaluation(outcomes, None, unevaluated, not_stored, where="client")

    def _evaluate(
        self, urns: Sequence[str], tests: Sequence[MetadataTest], *, should_push: bool
    ) -> "_Batch":
        self._neighbours.forget(urns)
        reader = EntityReader(
            self._catalog,
            self._neighbours,
            [TEST_RESULTS] if should_push else [],
            self._written.take(urns),
        )
        unreadable: dict[str, set[str]] = {}
        results = evaluate(
            reader.fetch,
            urns,
            tests,
            _ACTOR,
            lambda urn, test: unreadable.setdefault(urn, set()).add(test),
        )
        existing = {urn: results[urn] for urn in urns if urn in reader.entities}
        return _Batch(existing, frozenset(test.urn for test in tests), unreadable, reader)

    def _push(self, batch: "_Batch") -> dict[str, str]:
        """Write the results that changed; return the entities where that was refused, and why."""
        stored = batch.stored_results()
        not_stored = dict.fromkeys(
            batch.results.keys() - stored, "the stored results cannot be read"
        )
        for _ in range(_ATTEMPTS):
            proposals = [one for urn in stored if (one := batch.proposal(urn, *stored[urn]))]
            if not proposals:
                return not_stored
            try:
                refused = self._catalog.write(proposals)
            except CANNOT_ANSWER as error:
                reason = error.message
                return not_stored | {one.entity_urn: reason for one in proposals}
            changed = [one.urn for one in refused if isinstance(one, AspectChangedError)]
            not_stored |= {one.urn: str(one) for one in refused if one.urn not in changed}
            if not changed:
                return not_stored
            now = self._catalog.read_many(changed, [TEST_RESULTS])
            stored = {urn: _stored_results(now.get(urn, {})) for urn in changed}
        return not_stored | dict.fromkeys(stored, _CONTENDED)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The results of some entities, under `tests`, and the tests that are `unreadable` on them."""

    results: Mapping[str, TestResults]
    tests: frozenset[str]
    unreadable: Mapping[str, Collection[str]]
    reader: EntityReader

    def outcomes(self) -> dict[str, TestOutcome]:
        """Return the outcomes of the entities on which all tests could be evaluated."""
        return {
            urn: TestOutcome(
                tuple(one["test"] for one in results["passing"]),
                tuple(one["test"] for one in results["failing"]),
            )
            for urn, results in self.results.items()
            if urn not in self.unreadable
        }

    def unreadable_tests(self) -> set[str]:
        return {test for tests in self.unreadable.values() for test in tests}

    def stored_results(self) -> dict[str, tuple[Aspect, str | None]]:
        """Return `testResults` as they were read with the entities, and their versions."""
        entities = self.reader.entities
        return {
            urn: _stored_results(entities[urn])
            for urn in self.results
            if entities[urn].get(TEST_RESULTS, _READ) is not None
        }

    def proposal(self, urn: str, stored: Aspect, version: str | None) -> Proposal | None:
        """Return the proposal that stores the results of an entity, None if nothing changed."""
        evaluated = self.tests.difference(self.unreadable.get(urn, ()))
        merged = merge_results(stored, self.results[urn], evaluated)
        if merged is None:
            return None
        headers = None if version is None else {IF_VERSION_MATCH: version}
        return Proposal(urn, TEST_RESULTS, merged, headers=headers)


_READ: Final = object()


def _stored_results(aspects: Mapping[str, Any]) -> tuple[Aspect, str | None]:
    """Return the `testResults` among `aspects` and the version for a condition, None: not told."""
    stored = aspects.get(TEST_RESULTS)
    return ({}, NOT_STORED) if stored is None else (stored.value, stored.version)


def _readable(infos: Mapping[str, Aspect]) -> tuple[list[MetadataTest], dict[str, str]]:
    """Return the tests that can be evaluated here, and why the others cannot, by URN."""
    tests: list[MetadataTest] = []
    unevaluated: dict[str, str] = {}
    for urn, info in infos.items():
        try:
            test = read_test(urn, info)
        except DefinitionError as error:
            unevaluated[urn] = f"its definition {error.problems[0]}"
        except MissingExtraError as error:
            unevaluated[urn] = str(error)
        else:
            if test is None:
                continue
            if any(map(reads_times, test.definition.paths())):
                unevaluated[urn] = "its definition needs times of storage, which only a service has"
            else:
                tests.append(test)
    return tests, unevaluated


class FallbackEvaluator(Evaluates):
    """Has the service evaluate, and the client from when the service lacks the call."""

    def __init__(self, service: Evaluates, client: Evaluates) -> None:
        """Ask `service` until it says that nobody may ask, then `client`."""
        self._service = service
        self._client = client
        self._lacks_call: str | None = None

    @property
    def uses_client(self) -> bool:
        """True once it is known that the service lacks the call."""
        return self._lacks_call is not None

    def evaluate_batch(
        self, urns: Sequence[str], *, should_push: bool, test_urns: Sequence[str]
    ) -> Evaluation:
        """Evaluate the tests of `urns`; raises and costs as the one that is asked."""
        if self._lacks_call is None:
            evaluation = self._service.evaluate_batch(
                urns, should_push=should_push, test_urns=test_urns
            )
            if not evaluation.lacks_call:
                return evaluation
            if self._lacks_call is None:
                self._lacks_call = str(evaluation.not_evaluated)
                log.info("%s: evaluating them in the client", self._lacks_call)
        evaluation = self._client.evaluate_batch(urns, should_push=should_push, test_urns=test_urns)
        if evaluation.not_evaluated is None:
            return evaluation
        both = f"{self._lacks_call}; in the client: {evaluation.not_evaluated}"
        return Evaluation(not_evaluated=both, where="client")
