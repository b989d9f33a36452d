"""A report as what Airflow keeps and logs of a task: a summary of a few kilobytes, and links."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import Any, Final
from urllib.parse import quote

from mlcat_ingest.core.text import plural
from mlcat_ingest.pipeline.report.report import COUNTERS, Report

EXAMPLES: Final = 3
TESTS: Final = 50
GROUP_CHARS: Final = 5_000
"""How much of the URNs of changed groups is kept: of usual ones, some sixty."""
LINKS: Final = 10
"""How many changed groups the log of a task names."""

Summary = Mapping[str, Any]


def summary_of(report: Report) -> dict[str, Any]:
    """Return what other tasks and people need to know of a run."""
    evaluation = report.evaluation
    failing = sorted(evaluation.failing_tests.items(), key=lambda value: (-value[1], value[0]))
    return {
        "recipe": report.name,
        "exit_code": report.exit_code,
        "catalog": report.catalog,
        "duration_s": report.duration_s,
        **{
            name: sum(numbers.values())
            for name, shown, numbers in report.counters()
            if shown.get("airflow")
        },
        "entities": {kind: asdict(counts) for kind, counts in report.entities.items()},
        "changed_groups": report.changed_groups,
        "changed_group_urns": _fitting(report.changed_group_urns),
        "rejected": report.rejected,
        "examples": [
            asdict(rejection)
            for rejection in (
                *report.failed_examples[:EXAMPLES],
                *report.rejected_examples[:EXAMPLES],
            )
        ],
        "evaluated": evaluation.evaluated,
        "failing_tests": dict(failing[:TESTS]),
        "more_failing_tests": len(failing[TESTS:]),
        "not_evaluated": evaluation.not_evaluated,
    }


def page_of(report: Report, urn: str) -> str:
    """Return the address of a group's page; its URN where the catalog's pages are not known."""
    return report.group_page.replace("{urn}", quote(urn, safe="")) or urn


def changed_group_lines(report: Report) -> Iterator[str]:
    """Yield the lines of a log about the groups that a run changed: the pages of the first few."""
    if not report.changed_groups:
        return
    yield f"  groups       {report.changed_groups:,} changed"
    shown = report.changed_group_urns[:LINKS]
    for urn in shown:
        yield f"    {page_of(report, urn)}"
    if report.changed_groups > len(shown):
        yield f"    … and {report.changed_groups - len(shown):,} more"


def join_summaries(summaries: Sequence[Summary]) -> dict[str, Any]:
    """Return what several runs of one recipe did together.

    A changed group, or failing test, that several of them did not name is counted once for each.
    """
    entities: dict[str, Counter[str]] = {}
    for summary in summaries:
        for kind, counts in summary["entities"].items():
            entities.setdefault(kind, Counter()).update(counts)
    counted = (name for name, shown in COUNTERS.items() if shown.get("airflow"))
    added = (*counted, "rejected", "evaluated")
    failing: Counter[str] = Counter()
    for summary in summaries:
        failing.update(summary["failing_tests"])
    named = sorted({urn for summary in summaries for urn in summary["changed_group_urns"]})
    unnamed = sum(
        summary["changed_groups"] - len(summary["changed_group_urns"]) for summary in summaries
    )
    reasons = [summary["not_evaluated"] for summary in summaries if summary["not_evaluated"]]
    return {
        "recipe": summaries[-1]["recipe"],
        "catalog": summaries[-1]["catalog"],
        "shards": len(summaries) - 1,
        "entities": {kind: dict(counts) for kind, counts in entities.items()},
        **{name: sum(summary[name] for summary in summaries) for name in added},
        "changed_groups": len(named) + unnamed,
        "changed_group_urns": _fitting(named),
        "failing_tests": dict(failing.most_common(TESTS)),
        "more_failing_tests": len(failing.most_common()[TESTS:])
        + sum(summary["more_failing_tests"] for summary in summaries),
        "not_evaluated": reasons[0] if reasons else None,
    }


def _fitting(urns: Sequence[str]) -> list[str]:
    """Return as many of `urns` as fit beside the rest of a summary."""
    ends = accumulate(len(urn) for urn in urns)
    return [urn for urn, end in zip(urns, ends, strict=True) if end <= GROUP_CHARS]


def refused_by(summary: Summary, pattern: str | None) -> str | None:
    """Return why metadata tests whose URN `pattern` is found in did not pass, None if they did.

    Tests that were not evaluated, or that a summary has no room for, have not passed. Without a
    pattern everything passes.
    """
    if not pattern:
        return None
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        return f"`fail_on_tests` is not a regular expression: {error}"
    if summary["not_evaluated"]:
        return f"metadata tests were not evaluated: {summary['not_evaluated']}"
    failing: Iterable[tuple[str, int]] = summary["failing_tests"].items()
    shown = [f"{urn} ({count})" for urn, count in failing if wanted.search(urn)]
    if shown:
        return f"failing metadata tests: {', '.join(shown)}"
    if more := summary["more_failing_tests"]:
        return (
            f"{plural(more, 'further metadata test')} failed, too many to compare with {pattern!r} "
            "(use `mlcat-ingest --fail-on-tests`)"
        )
    return None
