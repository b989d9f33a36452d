"""The quality gate: metadata tests that must not fail, and their results as JUnit XML.

The gate judges by the last results of all entities of the recipe: those of this run, and for what
did not change, those of the run that evaluated it. An entity without a result never passes.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Final

from mlcat_ingest.client.base import Catalog, TestOutcome, each_type
from mlcat_ingest.core.text import plural, printable
from mlcat_ingest.errors import MlcatError, StateUnavailableError
from mlcat_ingest.metadata.labels import label_of
from mlcat_ingest.metadata.registry import implied_aspect
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.report.report import EvaluationSummary, FailedTest, TestVerdict, Verdict
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
    """None without `tests`."""


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
        self, results: KnownEntities, evaluation: EvaluationSummary, *, ask_names: bool
    ) -> Verdict:
        """Return the verdict; `evaluation` has the reasons of tests that were not evaluated.

        With `ask_names` the names of tests and entities are read from the service.

        Cost: one request for the names of a batch of a type; one pass over the last results.
        """
        try:
            result = self._result(results, evaluation, ask_names=ask_names)
        except StateUnavailableError:
            log.debug("reading results failed", exc_info=True)
            why = evaluation.not_evaluated or "the results cannot be read from the state database"
            result = QualityGateResult(Verdict(self._pattern, not_evaluated=(why,)))
        if self._keep is not None:
            self._keep(result)
        return result.verdict

    def _result(
        self, results: KnownEntities, evaluation: EvaluationSummary, *, ask_names: bool
    ) -> QualityGateResult:
        groups, unevaluated = results.results(), evaluation.unevaluated_tests
        known = set(unevaluated)
        for group, _ in groups:
            known.update(group.outcome.passing, group.outcome.failing)
        urns = known.union(self._test_urns)
        names = self._names(urns) if ask_names else {}
        matching = [
            urn
            for urn in sorted(urns)
            if self._search(urn) or (urn in names and self._search(names[urn]))
        ]
        tests = tuple(_verdict(urn, names.get(urn), groups) for urn in matching)
        without_result = results.count_without_result()
        examples = list(_examples(results, frozenset(matching)))
        labels = self._names({one.entity for one in examples}) if ask_names else {}
        verdict = Verdict(
            pattern=self._pattern,
            tests=tuple(
                sorted(tests, key=lambda one: (-one.newly_failing, -one.failing, one.urn))[:TESTS]
            ),
            unevaluated=without_result,
            not_evaluated=(
                *self._gaps(tests, known, without_result, evaluation.not_evaluated),
                *(
                    f"{one.label}: {unevaluated[one.urn]}"
                    for one in tests
                    if one.urn in unevaluated
                ),
            ),
            examples=tuple(replace(one, name=labels.get(one.entity)) for one in examples),
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

    def _names(self, urns: Iterable[str]) -> dict[str, str]:
        """Return the names of tests or entities, as far as they have one and can be read."""
        names: dict[str, str] = {}
        try:
            found = each_type(self._sink.read_many, sorted(urns), _with_name)
            for urn, stored in found.items():
                aspect = next(map(stored.get, _with_name(entity_type_of(urn))), None)
                label = None if aspect is None else label_of(urn, aspect.value)
                if label is not None:
                    names[urn] = printable(label)
        except MlcatError as error:
            log.warning("the names of metadata tests and entities cannot be read: %s", error)
        return names


def _with_name(entity_type: str) -> Iterator[str]:
    return filter(None, [implied_aspect(entity_type)])


def _verdict(urn: str, name: str | None, groups: Sequence[tuple[EntityResult, int]]) -> TestVerdict:
    counts = Counter[str]()
    for result, entities in groups:
        counts["passing"] += entities * (urn in result.outcome.passing)
        counts["failing"] += entities * (urn in result.outcome.failing)
        counts["newly_failing"] += entities * (urn in result.newly_failing)
    return TestVerdict(urn, name, counts["passing"], counts["failing"], counts["newly_failing"])


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
        of_test = partial(_has_result, test.urn)
        for urn, entity in result.results.with_result(of_test) if result.results else ():
            content = ""
            if test.urn in entity.outcome.failing:
                word = "newly failing" if test.urn in entity.newly_failing else "still failing"
                message = _quote(f"{word}: {test.label}")
                content = f'<failure type="metadata-test" message={message}/>'
            yield _case(urn, test.label, content)
        yield _END
    if result.verdict.not_evaluated:
        yield from _skipped_suite(result, name, started)
    yield "</testsuites>\n"


def _has_result(test: str, outcome: TestOutcome) -> bool:
    return test in outcome.failing or test in outcome.passing


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


def _skipped_suite(result: QualityGateResult, package: str, started: str) -> Iterator[str]:
    """Yield a suite of the entities without a result, or of the gate itself."""
    verdict = result.verdict
    label = f"not evaluated: {verdict.pattern}"
    number, count = len(result.tests), verdict.unevaluated or 1
    yield _suite(label, package, number, started, (count, 0, count))
    results = result.results if verdict.unevaluated else None
    reason = _quote("; ".join(verdict.not_evaluated))
    for urn in [verdict.pattern] if results is None else results.without_result():
        yield _case(urn, label, f"<skipped message={reason}/>")
    yield _END


def _case(urn: str, label: str, content: str) -> str:
    start = f'    <testcase name={_quote(urn)} classname={_quote(label)} time="0"'
    return f"{start}>{content}</testcase>\n" if content else f"{start}/>\n"


def _quote(value: object) -> str:
    from xml.sax.saxutils import quoteattr

    return quoteattr(re.sub(_NOT_XML, "\ufffd", str(value)))
