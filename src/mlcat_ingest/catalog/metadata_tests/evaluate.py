"""Evaluation of metadata tests: which tests an entity passes and which it fails."""

import hashlib
import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.metadata_tests.definition import (
    All,
    AnyOf,
    Check,
    Definition,
    Not,
    Predicate,
    is_empty,
    read_definition,
)
from mlcat_ingest.catalog.metadata_tests.operators import OPERATORS, regex_match
from mlcat_ingest.catalog.metadata_tests.properties import PropertyReader
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.metadata.aspects.assets import (
    TEST_INFO,
    TEST_RESULTS,
    TestResult,
    TestResults,
)
from mlcat_ingest.metadata.aspects.common import AuditStamp
from mlcat_ingest.metadata.urn import entity_type_of

_log = logging.getLogger(__name__)

_TEST_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Test:
    urn: str
    md5: str
    definition: Definition


def evaluate(
    store: Store,
    urns: Sequence[str],
    test_urns: Collection[str] | None,
    push: bool,  # noqa: FBT001 - named by the service's interface
    actor: str,
) -> dict[str, TestResults]:
    """Return the outcome of the tests `test_urns`, or of all tests, for each of `urns`.

    An entity that the catalog does not have, or that has no test about it, gives two empty lists.
    Stored definitions that cannot be read are left out and logged. With `push` the outcomes are
    written as the `testResults` aspect in the name of `actor`: outcomes of tests that were not
    asked for stay, and outcomes that did not change are not written again, so that `lastComputed`
    in the catalog is the time when the present outcome was first found. A test's actions are not
    carried out.

    Raises:
        BadRequestError: one of `test_urns` is not a test in the catalog.

    Cost: one statement for the tests, one for the entities, one for each further URN on a
    property path (three at most), one transaction for all that is pushed.
    """
    tests = _tests(store, test_urns)
    unique = list(dict.fromkeys(urns))
    paths = {path for test in tests for path in test.definition.paths()}
    reader = PropertyReader(store, unique, {*paths, TEST_RESULTS} if push else paths)
    known = [urn for urn in unique if reader.exists(urn)]
    stamp = AuditStamp(time=time.time_ns() // 1_000_000, actor=actor)
    results = {urn: TestResults(passing=[], failing=[]) for urn in unique}
    values = _values(reader, known, tests)
    for urn in known:
        for test in _about(tests, urn):
            _judge(test, values, urn, results[urn], stamp)
    if push:
        evaluated = None if not test_urns else frozenset(test_urns)
        _push(store, {urn: results[urn] for urn in known}, reader, evaluated, actor)
    return results


def _tests(store: Store, test_urns: Collection[str] | None) -> list[_Test]:
    wanted = list(dict.fromkeys(test_urns)) if test_urns else list(_all_tests(store))
    stored = store.get_many(wanted, {TEST_INFO})
    if test_urns and (strangers := [urn for urn in wanted if TEST_INFO not in stored.get(urn, {})]):
        raise BadRequestError(f"{strangers[0]!r} is not a metadata test in this catalog")
    tests: list[_Test] = []
    for urn in wanted:
        aspects = stored.get(urn, {})
        if TEST_INFO not in aspects:
            continue
        text = _definition_text(aspects[TEST_INFO].value)
        if is_empty(text):
            continue
        definition, problems = read_definition(text)
        if definition is None:
            _log.warning("metadata test %s is left out: its definition %s", urn, problems[0])
            continue
        md5 = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        tests.append(_Test(urn, md5, definition))
    return tests


def _all_tests(store: Store) -> Iterable[str]:
    start, total = 0, 1
    while start < total:
        page = store.list_urns("test", start, _TEST_PAGE)
        yield from page.urns
        start, total = start + _TEST_PAGE, page.total


def _definition_text(info: Mapping[str, Any]) -> str:
    text = (info.get("definition") or {}).get("json")
    return text if isinstance(text, str) else ""


def _about(tests: Iterable[_Test], urn: str) -> Iterable[_Test]:
    entity_type = entity_type_of(urn)
    return (test for test in tests if test.definition.covers(entity_type))


_Values = Mapping[tuple[str, str], Sequence[Any]]


def _values(reader: PropertyReader, urns: Sequence[str], tests: Sequence[_Test]) -> _Values:
    """Return the values at every path that a test about an entity reads, by URN and path."""
    pending = {
        (urn, path)
        for urn in urns
        for test in _about(tests, urn)
        for path in test.definition.paths()
    }
    values: dict[tuple[str, str], Sequence[Any]] = {}
    while pending:
        for urn, path in pending:
            if (found := reader.values(urn, path)) is not None:
                values[urn, path] = found
        pending -= values.keys()
        reader.load()
    return values


def _judge(test: _Test, values: _Values, urn: str, results: TestResults, stamp: AuditStamp) -> None:
    if not _holds(test.definition.conditions, values, urn):
        return
    passed = _holds(test.definition.rules, values, urn)
    results["passing" if passed else "failing"].append(
        TestResult(
            test=test.urn,
            type="SUCCESS" if passed else "FAILURE",
            testDefinitionMd5=test.md5,
            lastComputed=stamp,
        )
    )


def _holds(predicate: Predicate, values: _Values, urn: str) -> bool:
    match predicate:
        case Check(path, "regex_match", patterns=patterns):
            return regex_match(values[urn, path], patterns)
        case Check(path, operator, wanted):
            return OPERATORS[operator](values[urn, path], wanted)
        case Not(part):
            return not _holds(part, values, urn)
        case All(parts):
            return all(_holds(part, values, urn) for part in parts)
        case AnyOf(parts):
            return any(_holds(part, values, urn) for part in parts)


def _push(
    store: Store,
    results: Mapping[str, TestResults],
    reader: PropertyReader,
    evaluated: frozenset[str] | None,
    actor: str,
) -> None:
    writes: list[Write] = []
    for urn, fresh in results.items():
        stored = reader.aspect(urn, TEST_RESULTS)
        before: Mapping[str, Any] = {} if stored is None else stored.value
        after = {
            side: [*_kept(before.get(side), evaluated), *fresh[side]]
            for side in ("passing", "failing")
        }
        if _outcomes(after) != _outcomes(before):
            writes.append(Write(urn, TEST_RESULTS, after))
    if writes:
        store.write(writes, actor)


def _kept(entries: Any, evaluated: frozenset[str] | None) -> list[Any]:
    """Return the stored outcomes of tests that this evaluation was not asked for."""
    if evaluated is None:
        return []
    return [entry for entry in entries or [] if entry.get("test") not in evaluated]


def _outcomes(results: Mapping[str, Any]) -> dict[str, set[tuple[Any, Any]]]:
    return {
        side: {
            (entry.get("test"), entry.get("testDefinitionMd5")) for entry in results.get(side) or []
        }
        for side in ("passing", "failing")
    }
