"""The quality gate: metadata tests that must not fail, and their results as JUnit XML.

The gate judges by the last results of all entities of the recipe: those of this run, and for what
did not change, those of the run that evaluated it. An entity without a result never passes.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Final

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.text import plural, printable
from mlcat_ingest.errors import MlcatError, StateUnavailableError
from mlcat_ingest.metadata.aspects.assets import TEST_INFO
from mlcat_ingest.metadata.labels import label_of
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.pipeline.report.report import FailedTest, TestVerdict, Verdict
from mlcat_ingest.pipeline.state.entities import EntityResult, KnownEntities

log = logging.getLogger(__name__)

EXAMPLES: Final = 20
"""How many failures a verdict names."""

TESTS: Final = 100
"""How many metadata tests a verdict names, those that fail first."""


@dataclass(frozen=True, slots=True)
class QualityGateResult:
    """A verdict, and a way to all the results behind it, entity by entity."""

    verdict: Verdict
    tests: tuple[TestVerdict, ...] = ()
    """All tests that the pattern matches, by URN; those of the verdict may be the first few."""
    results: KnownEntities | None = None

    def entities(self, test: str) -> Iterator[tuple[str, EntityResult]]:
        """Yield the entities with a result of `test`, in the order of their URNs.

        Cost: one pass over the last results, streamed.
        """
        if self.results is not None:
            yield from self.results.with_result(
                lambda outcome: test in outcome.failing or test in outcome.passing
            )

    def entities_without_result(self) -> Iterator[str]:
        """Yield the entities that have no result."""
        if self.results is not None:
            yield from self.results.without_result()


@dataclass(frozen=True, slots=True)
class QualityGateOptions:
    """The metadata tests that must not fail: those with `pattern` in their URN or name.

    `keep` is given the results while they can be read.
    """

    pattern: re.Pattern[str]
    keep: Callable[[QualityGateResult], None] | None = field(default=None, compare=False)


class QualityGate:
    """Judges the results that a run has, and those of earlier runs."""

    def __init__(
        self, options: QualityGateOptions, sink: Catalog, test_urns: Sequence[str]
    ) -> None:
        """Look at the tests that `options` name; `test_urns` are those that a recipe insists on."""
        self._search = options.pattern.search
        self._pattern = printable(options.pattern.pattern)
        self._keep = options.keep
        self._sink = sink
        self._test_urns = test_urns

    def judge(
        self,
        results: KnownEntities,
        not_evaluated: str | None,
        unevaluated_tests: Mapping[str, str],
        *,
        ask_names: bool,
    ) -> Verdict:
        """Return the verdict.

        `not_evaluated` is the reason why evaluation stopped, and `unevaluated_tests` has the
        reasons of single tests. With `ask_names` the names of the tests are read from the service.

        Cost: one request for the names of a batch of tests; one pass over the last results.
        """
        try:
            return self._give(
                self._result(results, not_evaluated, unevaluated_tests, ask_names=ask_names)
            )
        except StateUnavailableError:
            log.debug("reading results failed", exc_info=True)
            reason = not_evaluated or "the results cannot be read from the state database"
            return self._give(QualityGateResult(Verdict(self._pattern, not_evaluated=(reason,))))

    def _give(self, result: QualityGateResult) -> Verdict:
        if self._keep is not None:
            self._keep(result)
        return result.verdict

    def _result(
        self,
        results: KnownEntities,
        not_evaluated: str | None,
        unevaluated_tests: Mapping[str, str],
        *,
        ask_names: bool,
    ) -> QualityGateResult:
        groups = results.results()
        evaluated: set[str] = set()
        for group, _ in groups:
            evaluated.update(group.outcome.passing, group.outcome.failing)
        urns = sorted(evaluated.union(self._test_urns, unevaluated_tests))
        names = self._names(urns) if ask_names else {}
        matching = [
            urn for urn in urns if self._search(urn) or (urn in names and self._search(names[urn]))
        ]
        tests = tuple(_verdict(urn, names.get(urn), groups) for urn in matching)
        unevaluated = results.count_without_result()
        examples = list(_examples(results, frozenset(matching)))
        known = evaluated | unevaluated_tests.keys()
        verdict = Verdict(
            pattern=self._pattern,
            tests=tuple(
                sorted(tests, key=lambda one: (-one.newly_failing, -one.failing, one.urn))[:TESTS]
            ),
            unevaluated=unevaluated,
            not_evaluated=(
                *self._gaps(tests, known, unevaluated, not_evaluated),
                *_reasons(tests, unevaluated_tests),
            ),
            examples=self._with_names(examples) if ask_names else tuple(examples),
        )
        return QualityGateResult(verdict, tests, results)

    def _gaps(
        self,
        tests: Sequence[TestVerdict],
        evaluated: Collection[str],
        unevaluated: int,
        not_evaluated: str | None,
    ) -> Iterator[str]:
        """Yield why results are not known."""
        if not_evaluated is not None:
            yield not_evaluated
            return
        if unevaluated:
            yield f"no result for {plural(unevaluated, 'entity', 'entities')}"
        silent = [test.label for test in tests if test.urn not in evaluated]
        if silent:
            more = f" and {len(silent) - 3:,} more" if len(silent) > 3 else ""
            yield f"no result of {', '.join(silent[:3])}{more}"
        if not tests:
            what = "no evaluated metadata test" if evaluated else "nothing was evaluated: no test"
            yield f"{what} matches {self._pattern!r}"

    def _with_names(self, examples: Sequence[FailedTest]) -> tuple[FailedTest, ...]:
        """Return `examples` with the names of their entities; one request an entity type."""
        by_type: dict[str, set[str]] = {}
        for example in examples:
            by_type.setdefault(entity_type_of(example.entity), set()).add(example.entity)
        labels: dict[str, str | None] = {}
        try:
            for entity_type, urns in by_type.items():
                aspect = properties_aspect(entity_type)
                stored = self._sink.read_many(sorted(urns), [aspect]) if aspect else {}
                for urn, aspects in stored.items():
                    properties = aspects.get(aspect)
                    label = None if properties is None else label_of(urn, properties.value)
                    labels[urn] = label and printable(label)
        except MlcatError as error:
            log.warning("the names of entities cannot be read: %s", error)
        return tuple(replace(example, name=labels.get(example.entity)) for example in examples)

    def _names(self, urns: Sequence[str]) -> dict[str, str]:
        names: dict[str, str] = {}
        try:
            for start in range(0, len(urns), MAX_REQUEST_ITEMS):
                stored = self._sink.read_many(urns[start : start + MAX_REQUEST_ITEMS], [TEST_INFO])
                for urn, aspects in stored.items():
                    name = aspects[TEST_INFO].value.get("name") if TEST_INFO in aspects else None
                    if isinstance(name, str) and name:
                        names[urn] = printable(name)
        except MlcatError as error:
            log.warning("the names of metadata tests cannot be read: %s", error)
        return names


def _verdict(urn: str, name: str | None, groups: Sequence[tuple[EntityResult, int]]) -> TestVerdict:
    counts = Counter[str]()
    for result, entities in groups:
        counts["passing"] += entities * (urn in result.outcome.passing)
        counts["failing"] += entities * (urn in result.outcome.failing)
        counts["newly_failing"] += entities * (urn in result.newly_failing)
    return TestVerdict(urn, name, counts["passing"], counts["failing"], counts["newly_failing"])


def _reasons(tests: Iterable[TestVerdict], unevaluated: Mapping[str, str]) -> Iterator[str]:
    return (f"{test.label}: {unevaluated[test.urn]}" for test in tests if test.urn in unevaluated)


def _examples(results: KnownEntities, matching: frozenset[str]) -> Iterator[FailedTest]:
    """Yield the first failures: those that are new, then the others."""
    new = list(islice(_failures(results, matching, newly=True), EXAMPLES))
    yield from new
    yield from islice(_failures(results, matching, newly=False), EXAMPLES - len(new))


def _failures(
    results: KnownEntities, matching: frozenset[str], *, newly: bool
) -> Iterator[FailedTest]:
    entities = results.with_result(lambda outcome: not matching.isdisjoint(outcome.failing))
    for urn, result in entities:
        new = result.newly_failing
        failing = new if newly else frozenset(result.outcome.failing) - new
        for test in sorted(matching & failing):
            yield FailedTest(urn, test, newly)


# Source of the XML: the schemas of Ant's and Jenkins' JUnit reports, both of which it fits.
_NOT_XML: Final = r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"
"""Characters that no XML 1.0 document can have, escaped or not."""


def junit_lines(result: QualityGateResult, name: str, started_at_ms: int) -> Iterator[str]:
    """Yield the lines of the JUnit document about the recipe `name`, each with its line break.

    A metadata test is a test suite, an entity a test case. The document is written piece by piece,
    so that the number of entities does not matter.

    Cost: one pass over the last results for each test, streamed.
    """
    started = datetime.fromtimestamp(started_at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n'
    for number, test in enumerate(result.tests):
        counts = (test.passing + test.failing, test.failing, 0)
        yield _suite(test.label, name, number, started, counts)
        for urn, entity in result.entities(test.urn):
            if test.urn in entity.outcome.failing:
                yield _failure(urn, test, newly=test.urn in entity.newly_failing)
            else:
                yield f"    <testcase{_case(urn, test.label)}/>\n"
        yield _END
    if result.verdict.not_evaluated:
        yield from _skipped_suite(result, name, started)
    yield "</testsuites>\n"


_END: Final = "    <system-out/>\n    <system-err/>\n  </testsuite>\n"


def _suite(
    label: str, package: str, number: int, started: str, counts: tuple[int, int, int]
) -> str:
    tests, failures, skipped = counts
    return (
        f"  <testsuite name={_quote(label)} package={_quote(package)} id={_quote(number)}"
        f' timestamp={_quote(started)} hostname="localhost" tests={_quote(tests)}'
        f' failures={_quote(failures)} errors="0" skipped={_quote(skipped)} time="0">\n'
        "    <properties/>\n"
    )


def _failure(urn: str, test: TestVerdict, *, newly: bool) -> str:
    word = "newly failing" if newly else "still failing"
    return (
        f"    <testcase{_case(urn, test.label)}>"
        f'<failure type="metadata-test" message={_quote(f"{word}: {test.label}")}/>'
        "</testcase>\n"
    )


def _skipped_suite(result: QualityGateResult, package: str, started: str) -> Iterator[str]:
    """Yield a suite of the entities without a result, or of the gate itself."""
    verdict = result.verdict
    label = f"not evaluated: {verdict.pattern}"
    number, count = len(result.tests), verdict.unevaluated or 1
    yield _suite(label, package, number, started, (count, 0, count))
    urns = result.entities_without_result() if verdict.unevaluated else iter([verdict.pattern])
    for urn in urns:
        reason = _quote("; ".join(verdict.not_evaluated))
        yield f"    <testcase{_case(urn, label)}><skipped message={reason}/></testcase>\n"
    yield _END


def _case(urn: str, label: str) -> str:
    return f' name={_quote(urn)} classname={_quote(label)} time="0"'


def _quote(value: object) -> str:
    from xml.sax.saxutils import quoteattr

    return quoteattr(re.sub(_NOT_XML, "\ufffd", str(value)))
