"""Evaluation of metadata tests: which tests an entity passes and which it fails."""

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from mlcat_ingest.errors import DefinitionError
from mlcat_ingest.metadata.aspects.assets import TestResult, TestResults
from mlcat_ingest.metadata.aspects.common import AuditStamp
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.metadata_tests.definition import (
    All,
    AnyOf,
    Comparison,
    Definition,
    Not,
    Predicate,
    is_empty,
    paths_of,
    read_definition,
)
from mlcat_ingest.metadata_tests.operators import OPERATORS, regex_match
from mlcat_ingest.metadata_tests.properties import (
    FetchAspects,
    PropertyReader,
    UnreadableAspectError,
)

_SIDES: Final[tuple[Literal["passing", "failing"], ...]] = ("passing", "failing")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MetadataTest:
    """A metadata test that can be evaluated; `md5` is that of the definition's text."""

    urn: str
    md5: str
    definition: Definition


def read_tests(infos: Mapping[str, Mapping[str, Any]]) -> list[MetadataTest]:
    """Return the tests of `testInfo` aspects, which are given by the URNs of their tests.

    Definitions that say nothing yet are left out; those that are rejected are logged, too.
    """
    tests: list[MetadataTest] = []
    for urn, info in infos.items():
        try:
            test = read_test(urn, info)
        except DefinitionError as error:
            sentence = error.problems[0]
            _log.warning("skipped metadata test %s: its definition %s", urn, sentence)
            continue
        if test is not None:
            tests.append(test)
    return tests


def read_test(urn: str, info: Mapping[str, Any]) -> MetadataTest | None:
    """Return the test of one `testInfo` aspect; None for a definition without content.

    Raises:
        DefinitionError: the definition is rejected.
        MissingExtraError: it holds a regular expression, and RE2 is not installed.
    """
    text = (info.get("definition") or {}).get("json")
    text = text if isinstance(text, str) else ""
    if is_empty(text):
        return None
    definition = read_definition(text)
    md5 = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
    return MetadataTest(urn, md5, definition)


def evaluate(
    fetch: FetchAspects,
    urns: Iterable[str],
    tests: Sequence[MetadataTest],
    actor: str,
    on_unreadable: Callable[[str, str], object] | None = None,
) -> dict[str, TestResults]:
    """Return the outcome of `tests` for each of `urns`, computed now and in the name of `actor`.

    An entity that does not exist, or that has no test about it, gives two empty lists. A test's
    actions are not carried out. A test that needs an aspect which cannot be read is in neither
    list; `on_unreadable` is called with the URNs of the entity and the test.

    Cost: one `fetch` for the entities, one for each further URN on a property path (three at most).
    """
    results = {urn: TestResults(passing=[], failing=[]) for urn in urns}
    paths = {path for test in tests for path in test.definition.paths()}
    reader = PropertyReader(fetch, results.keys(), paths)
    existing = [urn for urn in results if reader.exists(urn)]
    stamp = AuditStamp(time=time.time_ns() // 1_000_000, actor=actor)
    values = _values(reader, existing, tests)
    for urn in existing:
        for test in _about(tests, urn):
            match _outcome(test.definition, values, urn):
                case "passing" | "failing" as outcome:
                    results[urn][outcome].append(_result(test, outcome, stamp))
                case "unreadable" if on_unreadable is not None:
                    on_unreadable(urn, test.urn)
    return results


def merge_results(
    stored: Mapping[str, Any], fresh: TestResults, evaluated: frozenset[str] | None
) -> dict[str, list[Any]] | None:
    """Return the `testResults` aspect with `fresh` outcomes, None if no outcome changed.

    Stored outcomes of tests that are not among `evaluated` (None: all tests) stay. An outcome that
    did not change makes no new aspect, so `lastComputed` is the time when it was first found.
    """
    merged: dict[str, list[Any]] = {
        side: [
            *(
                entry
                for entry in stored.get(side) or []
                if evaluated is not None and entry.get("test") not in evaluated
            ),
            *fresh[side],
        ]
        for side in _SIDES
    }
    return merged if _outcomes(merged) != _outcomes(stored) else None


def _about(tests: Iterable[MetadataTest], urn: str) -> Iterable[MetadataTest]:
    entity_type = entity_type_of(urn)
    return (test for test in tests if test.definition.covers(entity_type))


@dataclass(frozen=True, slots=True)
class _PathValues:
    """The values at property paths, by URN and path, and the paths that cannot be read."""

    read: dict[tuple[str, str], Sequence[Any]] = field(default_factory=dict)
    unreadable: set[tuple[str, str]] = field(default_factory=set)

    def has(self, urn: str, predicate: Predicate) -> bool:
        """Return whether every path in `predicate` was read."""
        return not self.unreadable or all((urn, path) in self.read for path in paths_of(predicate))


def _values(
    reader: PropertyReader, urns: Sequence[str], tests: Sequence[MetadataTest]
) -> _PathValues:
    """Return the values at every path that a test about an entity reads."""
    pending = {
        (urn, path)
        for urn in urns
        for test in _about(tests, urn)
        for path in test.definition.paths()
    }
    values = _PathValues()
    while pending:
        for urn, path in pending:
            try:
                loaded = reader.values(urn, path)
            except UnreadableAspectError:
                values.unreadable.add((urn, path))
            else:
                if loaded is not None:
                    values.read[urn, path] = loaded
        pending -= values.read.keys()
        pending -= values.unreadable
        reader.load()
    return values


def _outcome(
    definition: Definition, values: _PathValues, urn: str
) -> Literal["passing", "failing", "unreadable"] | None:
    """Return the outcome of a test for an entity, None where the test is not about it."""
    if not values.has(urn, definition.conditions):
        return "unreadable"
    if not _holds(definition.conditions, values.read, urn):
        return None
    if not values.has(urn, definition.rules):
        return "unreadable"
    return "passing" if _holds(definition.rules, values.read, urn) else "failing"


def _result(
    test: MetadataTest, outcome: Literal["passing", "failing"], stamp: AuditStamp
) -> TestResult:
    return TestResult(
        test=test.urn,
        type="SUCCESS" if outcome == "passing" else "FAILURE",
        testDefinitionMd5=test.md5,
        lastComputed=stamp,
    )


def _holds(predicate: Predicate, values: Mapping[tuple[str, str], Sequence[Any]], urn: str) -> bool:
    match predicate:
        case Comparison(path, "regex_match", patterns=patterns):
            return regex_match(values[urn, path], patterns)
        case Comparison(path, operator, wanted):
            return OPERATORS[operator](values[urn, path], wanted)
        case Not(part):
            return not _holds(part, values, urn)
        case All(parts):
            return all(_holds(part, values, urn) for part in parts)
        case AnyOf(parts):
            return any(_holds(part, values, urn) for part in parts)


def _outcomes(results: Mapping[str, Any]) -> dict[str, set[tuple[Any, Any]]]:
    return {
        side: {
            (entry.get("test"), entry.get("testDefinitionMd5")) for entry in results.get(side) or []
        }
        for side in _SIDES
    }
