"""A plugin of pytest: where every service has to be there, a skipped test is a failed one."""

import os
from collections.abc import Generator
from typing import Final

import pytest

ALLOWED: Final = {
    "SQLite has no users and no server": "the case does not exist for this database",
    "only PostgreSQL locks a table against readers": "the case does not exist for this database",
    "MLCAT_LIVE_TOKEN_LIMITED is no token with fewer rights": (
        "test_live_tests.py runs these tests on servers of its own"
    ),
    "MLCAT_LIVE_GMS names no server": "test_live_tests.py runs these tests on servers of its own",
    "no run is an evaluation run before MLflow 3.11": "the case does not exist for this release",
    "the demo's store is one of the newest MLflow": "another release makes tables of its own",
    "this machine has no IPv6": "containers often have none; nothing else depends on it",
    "the installed MLflow opens no database of a later one": (
        "its own client reads those of its release"
    ),
}
"""Reasons of skips that are no gap in what was tested, and why."""


def is_gap(reason: str) -> bool:
    """Return whether a test that is skipped for `reason` should have run here."""
    required = os.environ.get("MLCAT_REQUIRE_SERVICES") == "1"
    return required and not any(one in reason for one in ALLOWED)


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):
        return
    place = report.longrepr
    reason = str(place[2] if isinstance(place, tuple) else place)
    if is_gap(reason):
        report.outcome = "failed"
        report.longrepr = f"no test may be skipped here: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _fail(report)
    return report
