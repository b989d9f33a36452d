"""A plugin of pytest: its last lines say which tests `-m` left out, and how to run them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

_KINDS = ("integration", "compat", "e2e")
_COUNTS = pytest.StashKey[dict[str, int]]()


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        counts = item.config.stash.setdefault(_COUNTS, Counter())
        kinds = [one for one in _KINDS if item.get_closest_marker(one)]
        counts[" ".join(kinds) or "other"] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    counts: dict[str, int] = session.config.stash.get(_COUNTS, {})
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left_out"] = dict(counts)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take the counts of a worker of xdist: each worker collects, and leaves out, the same."""
    node.config.stash[_COUNTS] = getattr(node, "workeroutput", {}).get("left_out", {})


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    counts = config.stash.get(_COUNTS, {})
    expression = config.getoption("markexpr")
    if not counts or not expression or config.getoption("keyword"):
        return
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
    terminalreporter.section("left out")
    terminalreporter.write_line(
        f"{sum(counts.values())} tests ({kinds}): they may need services, a browser, and"
        " environments that are made on first use"
    )
    terminalreporter.write_line(f'run them: pytest -n 3 --dist loadfile -m "not ({expression})"')
    terminalreporter.write_line("run everything that has to hold: .ci/run")
