"""The results behind a verdict as JUnit XML, which continuous integration shows test by test.

A metadata test is a test suite, an entity a test case. Written piece by piece, so that the number
of entities does not matter. Source: the schemas of Ant's and Jenkins' JUnit reports, both of which
it fits.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final
from xml.sax.saxutils import quoteattr

from mlcat_ingest.pipeline.evaluate.gate import Judged
from mlcat_ingest.pipeline.report.verdict import TestVerdict

_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no XML 1.0 document can have, escaped or not."""


def as_junit(judged: Judged, name: str, started_at_ms: int) -> Iterator[str]:
    """Yield the lines of the document about the recipe `name`, each with its line break.

    Cost: one pass over the last results for each test, streamed.
    """
    started = datetime.fromtimestamp(started_at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n'
    for number, test in enumerate(judged.tests):
        counts = (test.passing + test.failing, test.failing, 0)
        yield _suite(test.label, name, number, started, counts)
        for urn, found in judged.results(test.urn):
            if test.urn in found.outcome.failing:
                yield _failure(urn, test, newly=test.urn in found.newly_failing)
            else:
                yield f"    <testcase{_case(urn, test.label)}/>\n"
        yield _END
    if judged.verdict.not_evaluated:
        yield from _skipped(judged, name, started)
    yield "</testsuites>\n"


_END: Final = "    <system-out/>\n    <system-err/>\n  </testsuite>\n"


def _suite(
    label: str, package: str, number: int, started: str, counts: tuple[int, int, int]
) -> str:
    tests, failures, skipped = counts
    return (
        f"  <testsuite name={_quoted(label)} package={_quoted(package)} id={_quoted(number)}"
        f' timestamp={_quoted(started)} hostname="localhost" tests={_quoted(tests)}'
        f' failures={_quoted(failures)} errors="0" skipped={_quoted(skipped)} time="0">\n'
        "    <properties/>\n"
    )


def _failure(urn: str, test: TestVerdict, *, newly: bool) -> str:
    word = "newly failing" if newly else "still failing"
    return (
        f"    <testcase{_case(urn, test.label)}>"
        f'<failure type="metadata-test" message={_quoted(f"{word}: {test.label}")}/>'
        "</testcase>\n"
    )


def _skipped(judged: Judged, package: str, started: str) -> Iterator[str]:
    """Yield the suite of what is not known: the entities without a result, or the gate itself."""
    verdict = judged.verdict
    label = f"not evaluated: {verdict.pattern}"
    number, count = len(judged.tests), verdict.unevaluated or 1
    yield _suite(label, package, number, started, (count, 0, count))
    urns = judged.unevaluated() if verdict.unevaluated else iter([verdict.pattern])
    for urn in urns:
        reason = _quoted("; ".join(verdict.not_evaluated))
        yield f"    <testcase{_case(urn, label)}><skipped message={reason}/></testcase>\n"
    yield _END


def _case(urn: str, label: str) -> str:
    return f' name={_quoted(urn)} classname={_quoted(label)} time="0"'


def _quoted(value: object) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", str(value)))
