"""Evaluating metadata tests in the client, for a catalog that does not do it itself.

The tests are those of the catalog, and those that the caller brings. An aspect that cannot be read
makes no outcome: neither of a test nor of an entity. It is None in place of its value; see
`FetchAspects`.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from mlcat_ingest.client.base import (
    CANNOT_ANSWER,
    Catalog,
    Evaluates,
    Evaluation,
    Reads,
    TestOutcome,
)
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.errors import (
    AspectChangedError,
    CatalogRequestError,
    CatalogUnavailableError,
    DefinitionError,
    InvalidUrnError,
    MissingExtraError,
)
from mlcat_ingest.metadata.aspects import TEST_INFO, TEST_RESULTS
from mlcat_ingest.metadata.codec import content_hash
from mlcat_ingest.metadata.proposal import IF_VERSION_MATCH, NOT_STORED, Aspect, Proposal
from mlcat_ingest.metadata.registry import ASPECTS, allows, key_aspect_name
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.net.session import TIMEOUTS

if TYPE_CHECKING:
    from mlcat_ingest.metadata_tests.evaluate import MetadataTest, TestResults

log = logging.getLogger(__name__)

CACHED_ASPECTS: Final = 2_000
"""Aspects of neighbours that are kept, those that were not found among them."""
WRITTEN_ENTRIES: Final = 20_000
"""Entries of entities that are kept until these are evaluated: those of two batches of writes."""
_ACTOR: Final = "urn:li:corpuser:unknown"
_ATTEMPTS: Final = 5
"""How often results are merged anew with what another writer stored meanwhile."""
_UNREADABLE: Final = "an aspect that the test refers to cannot be read"
_CONTENDED: Final = f"another writer changed them {_ATTEMPTS} times"


@dataclass(frozen=True, slots=True)
class _ReadAspect:
    """An aspect that was read, and its version; when it was stored is not known."""

    value: Aspect
    version: str | None = None
    created_ms: int = 0
    modified_ms: int = 0
    system_metadata: Mapping[str, Any] = field(default_factory=dict)


Aspects = dict[str, dict[str, _ReadAspect | None]]
"""Aspects by URN and name; None for one that cannot be read."""


class _NeighbourCache:
    """Reads aspects of neighbours and keeps the last ones. Safe to use from several threads."""

    def __init__(self, catalog: Reads, size: int = CACHED_ASPECTS) -> None:
        self._catalog = catalog
        self._size = size
        self._lock = threading.Lock()
        # An aspect that the entity does not have is kept as an empty mapping.
        self._kept: OrderedDict[tuple[str, str], Mapping[str, _ReadAspect | None]] = OrderedDict()

    def read(self, urns: Collection[str], names: Collection[str]) -> Aspects:
        """Return the aspects `names` of `urns`; one that an entity does not have is left out.

        Cost: one request for 200 entities of a type that lack one in the cache.
        """
        aspects: Aspects = {urn: {} for urn in urns}
        lacking: dict[str, None] = {}
        with self._lock:
            for urn in urns:
                for name in names:
                    kept = self._kept.get((urn, name))
                    if kept is None:
                        lacking[urn] = None
                    else:
                        aspects[urn].update(kept)
                        self._kept.move_to_end((urn, name))
        if lacking:
            fresh = _read_aspects(self._catalog, lacking, names)
            with self._lock:
                for urn in lacking:
                    aspects[urn] = found = fresh.get(urn, {})
                    for name in names:
                        self._kept[urn, name] = {name: found[name]} if name in found else {}
                while len(self._kept) > self._size:
                    self._kept.popitem(last=False)
        return aspects

    def forget(self, urns: Collection[str]) -> None:
        """Forget entities, which were written a moment ago."""
        gone = frozenset(urns)
        with self._lock:
            for key in [key for key in self._kept if key[0] in gone]:
                del self._kept[key]


WrittenEntity = Mapping[str, Aspect | None]
"""The aspects of an entity that are known from its last write; None for one that it lacks."""


class _WrittenEntities:
    """Keeps entities from their write to their evaluation. Safe to use from several threads.

    Those beyond `WRITTEN_ENTRIES` entries in lists and maps are not kept, and so are read.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[str, WrittenEntity] = {}
        self._entries = 0

    def put(self, urn: str, aspects: WrittenEntity) -> None:
        """Keep an entity as it was written last, if there is room."""
        entries = _entries_of(aspects)
        self.take([urn])
        with self._lock:
            if self._entries + entries <= WRITTEN_ENTRIES:
                self._entries += entries
                self._kept[urn] = aspects

    def take(self, urns: Iterable[str]) -> dict[str, WrittenEntity]:
        """Return those of `urns` that are kept, and keep them no longer."""
        with self._lock:
            taken = {urn: self._kept.pop(urn) for urn in set(urns) & self._kept.keys()}
            self._entries -= sum(map(_entries_of, taken.values()))
        return taken


def _entries_of(aspects: WrittenEntity) -> int:
    values = [value for aspect in aspects.values() if aspect for value in aspect.values()]
    return len(values) + sum(len(value) for value in values if isinstance(value, list | dict))


@dataclass(slots=True)
class _EntityReader:
    """Reads the entities of a batch with the first `fetch`, and their neighbours with the others.

    If all of them were just written, only aspects that are not known from that are read.

    Attributes:
        extra: aspects of the entities to read, too.
        written: what is known of the entities from their last write.
        entities: the aspects of the entities; one that the catalog does not have is left out.
    """

    catalog: Reads
    neighbours: _NeighbourCache
    extra: Sequence[str]
    written: Mapping[str, WrittenEntity]
    entities: Aspects | None = None

    def fetch(self, urns: Collection[str], names: Collection[str] | None) -> Aspects:
        """Return the aspects `names` of `urns`; see `FetchAspects`."""
        if self.entities is not None:
            return self.neighbours.read(urns, names or ())
        wanted = {*(names or ()), *self.extra}
        if self.written.keys() >= set(urns):
            self.entities = self._read_unknown(urns, wanted)
            return self.entities
        existing = _read_aspects(self.catalog, urns, wanted, with_key=True)
        self.entities = {
            urn: aspects
            for urn, aspects in existing.items()
            if key_aspect_name(entity_type_of(urn)) in aspects
        }
        return self.entities

    def _read_unknown(self, urns: Collection[str], wanted: Collection[str]) -> Aspects:
        unknown: dict[str, set[str]] = {}
        entities: Aspects = {}
        for urn in urns:
            written = self.written[urn]
            entities[urn] = {
                name: _ReadAspect(value) for name, value in written.items() if value is not None
            }
            unknown.setdefault(entity_type_of(urn), set()).update(wanted - written.keys())
        for entity_type, names in unknown.items():
            members = [urn for urn in urns if entity_type_of(urn) == entity_type]
            for urn, aspects in _read_aspects(self.catalog, members, names).items():
                entities[urn].update(aspects)
        return entities


def _read_aspects(
    catalog: Reads, urns: Iterable[str], names: Collection[str], *, with_key: bool = False
) -> Aspects:
    """Return the aspects `names` of `urns`, by URN; aspects that an entity does not have are not.

    `with_key` reads the aspect that every entity has, too.

    Cost: one request for 200 entities of a type; a second one for aspects of other models than
    DataHub's; more where one is refused.
    """
    by_type: dict[str, list[str]] = {}
    for urn in urns:
        try:
            by_type.setdefault(entity_type_of(urn), []).append(urn)
        except InvalidUrnError:
            continue  # nothing is stored under it
    entities: Aspects = {}
    for entity_type, members in by_type.items():
        known = {name for name in names if allows(entity_type, name)}
        if with_key:
            known.add(key_aspect_name(entity_type))
        custom = {name for name in names if name not in ASPECTS}
        for asked in filter(None, (sorted(known), sorted(custom))):
            for urn, aspects in _read(catalog, members, asked).items():
                entities.setdefault(urn, {}).update(aspects)
    return entities


def _read(catalog: Reads, urns: Sequence[str], names: Sequence[str]) -> Aspects:
    """Read aspects in one call, refused ones in smaller calls, until what is at fault is alone."""
    try:
        stored = catalog.read_many(urns, names)
    except (*CANNOT_ANSWER, CatalogUnavailableError) as error:
        if isinstance(error, CatalogUnavailableError) and any(name in ASPECTS for name in names):
            raise
        calls: list[tuple[Sequence[str], Sequence[str]]]
        if len(names) > 1:
            calls = [(urns, [name]) for name in names]
        elif len(urns) > 1 and isinstance(error, CatalogRequestError):
            middle = len(urns) // 2
            calls = [(urns[:middle], names), (urns[middle:], names)]
        else:
            return {urn: dict.fromkeys(names) for urn in urns}
        entities: Aspects = {}
        for part, few_names in calls:
            for urn, aspects in _read(catalog, part, few_names).items():
                entities.setdefault(urn, {}).update(aspects)
        return entities
    return {
        urn: {name: _ReadAspect(aspect.value, aspect.version) for name, aspect in aspects.items()}
        for urn, aspects in stored.items()
    }


@dataclass(frozen=True)
class _TestSet:
    """The metadata tests of a catalog that can be evaluated, and those that cannot, with reasons.

    `problem` says why they are not known at all.
    """

    __test__ = False  # for pytest, this is no test class

    tests: "Sequence[MetadataTest]" = ()
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
        self._sets: dict[tuple[str, ...], _TestSet] = {}
        self._neighbours = _NeighbourCache(catalog)
        self._written = _WrittenEntities()

    def add_tests(self, infos: Mapping[str, Aspect]) -> None:
        """Evaluate tests of the caller too, given as `testInfo` by URN, before any other call."""
        self._own = dict(infos)

    def keep_written(self, entities: Mapping[str, WrittenEntity]) -> None:
        """Keep entities as the catalog acknowledged them, for their next evaluation."""
        for urn, aspects in entities.items():
            self._written.put(urn, aspects)

    def tests(self, test_urns: Sequence[str]) -> _TestSet:
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

    def _read_tests(self, test_urns: Sequence[str]) -> _TestSet:
        try:
            urns = test_urns or [u for page in self._catalog.search.metadata_tests() for u in page]
            stored = self._catalog.read_many(urns, [TEST_INFO])
            infos = {u: a[TEST_INFO].value for u, a in stored.items() if TEST_INFO in a}
        except CANNOT_ANSWER as error:
            return _TestSet(problem=f"the metadata tests cannot be read: {error.message}")
        own = self._own if not test_urns else {u: self._own[u] for u in urns if u in self._own}
        tests, unevaluated = _readable({**infos, **own})
        absent = {urn: "no such test" for urn in test_urns if urn not in infos | own}
        return _TestSet(tests, unevaluated | absent)

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
        test_set = self.tests(test_urns)
        if test_set.problem is not None:
            return Evaluation(not_evaluated=test_set.problem, where="client")
        if not test_set.tests:
            nothing = dict.fromkeys(urns, TestOutcome())
            return Evaluation(nothing, unevaluated=test_set.unevaluated, where="client")
        outcomes: dict[str, TestOutcome] = {}
        unevaluated = dict(test_set.unevaluated)
        not_stored: dict[str, str] = {}
        for chunk in chunks(list(dict.fromkeys(urns)), MAX_REQUEST_ITEMS):
            batch = self._evaluate(chunk, test_set.tests, should_push=should_push)
            outcomes |= batch.outcomes()
            for tests in batch.unreadable.values():
                unevaluated |= dict.fromkeys(tests, _UNREADABLE)
            if should_push:
                not_stored |= self._push(batch)
        return Evaluation(outcomes, None, unevaluated, not_stored, where="client")

    def _evaluate(
        self, urns: Sequence[str], tests: "Sequence[MetadataTest]", *, should_push: bool
    ) -> "_Batch":
        from mlcat_ingest.metadata_tests.evaluate import evaluate

        self._neighbours.forget(urns)
        reader = _EntityReader(
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
        entities = reader.entities or {}
        existing = {urn: results[urn] for urn in urns if urn in entities}
        return _Batch(existing, frozenset(test.urn for test in tests), unreadable, entities)

    def _push(self, batch: "_Batch") -> dict[str, str]:
        """Write the results that changed; return the entities where that was refused, and why."""
        stored = batch.stored_results()
        not_stored = dict.fromkeys(
            batch.results.keys() - stored, "the stored results cannot be read"
        )
        for _ in range(_ATTEMPTS):
            proposals = [
                proposal for urn in stored if (proposal := batch.proposal(urn, *stored[urn]))
            ]
            if not proposals:
                return not_stored
            try:
                refused = self._catalog.write(proposals)
            except CANNOT_ANSWER as error:
                reason = error.message
                return not_stored | {proposal.entity_urn: reason for proposal in proposals}
            except CatalogUnavailableError as error:
                if error.context.get("status") not in TIMEOUTS:
                    raise
                # Some may be stored by now: what is not is written again.
                changed = [proposal.entity_urn for proposal in proposals]
            else:
                changed = [one.urn for one in refused if isinstance(one, AspectChangedError)]
                not_stored |= {one.urn: str(one) for one in refused if one.urn not in changed}
                if not changed:
                    return not_stored
            now = self._catalog.read_many(changed, [TEST_RESULTS])
            stored = {urn: _stored_results(now.get(urn, {})) for urn in changed}
        return not_stored | dict.fromkeys(stored, _CONTENDED)


@dataclass(frozen=True, slots=True)
class _Batch:
    """The results of some `entities` by `tests`, and the tests that are `unreadable` on them."""

    results: Mapping[str, "TestResults"]
    tests: frozenset[str]
    unreadable: Mapping[str, Collection[str]]
    entities: Aspects

    def outcomes(self) -> dict[str, TestOutcome]:
        """Return the outcomes of the entities on which all tests could be evaluated."""
        return {
            urn: TestOutcome(
                tuple(result["test"] for result in results["passing"]),
                tuple(result["test"] for result in results["failing"]),
            )
            for urn, results in self.results.items()
            if urn not in self.unreadable
        }

    def stored_results(self) -> dict[str, tuple[Aspect, str | None]]:
        """Return `testResults` as they were read with the entities, and their versions."""
        return {
            urn: _stored_results(self.entities[urn])
            for urn in self.results
            if self.entities[urn].get(TEST_RESULTS, _READ) is not None
        }

    def proposal(self, urn: str, stored: Aspect, version: str | None) -> Proposal | None:
        """Return the proposal that stores the results of an entity, None if nothing changed."""
        from mlcat_ingest.metadata_tests.evaluate import merge_results

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


def _readable(infos: Mapping[str, Aspect]) -> "tuple[list[MetadataTest], dict[str, str]]":
    """Return the tests that can be evaluated here, and why the others cannot, by URN."""
    from mlcat_ingest.metadata_tests.evaluate import read_test, reads_times

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
