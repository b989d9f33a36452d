"""A plugin of pytest: slow tests have the marker of their folder, and its last lines say what
`-m` left out, and how to run that."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark.expression import Expression

from mlcat_ingest.core.text import plural
from support.processes import SLOW

_FAST: Final = (frozenset[str](), frozenset({"process"}))
MARKERS: Final = {
    **{kind: (frozenset({kind}), frozenset({kind, "smoke"})) for kind in SLOW if kind != "process"},
    **dict.fromkeys(("golden", "mutation", "property", "simulation", "unit"), _FAST),
}
"""The markers that a test in these folders may have; tests in other folders may have any."""
_KNOWN: Final = frozenset({*SLOW, "smoke"})


@dataclass
class LeftOut:
    """Counts of deselected tests by their markers, and folders that were not collected."""

    counts: dict[str, int] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.counts or self.folders)

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self.counts.items()))
        tests = [f"{plural(sum(self.counts.values()), 'test')} ({kinds})"] if kinds else []
        whole = [f"all of {', '.join(sorted(self.folders))}, not counted"] if self.folders else []
        return " and ".join(tests + whole)


_LEFT_OUT = pytest.StashKey[LeftOut]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out a folder of whose tests `-m` chooses none: importing all tests takes a while."""
    tests, chosen = config.rootpath / "tests", str(config.getoption("markexpr"))
    if collection_path.parent != tests or collection_path.name not in MARKERS:
        return None
    names = set(re.findall(r"\w+", chosen)) - {"and", "or", "not"}
    if not names or names - _KNOWN:
        return None
    expression = Expression.compile(chosen)
    if any(_chooses(expression, markers) for markers in MARKERS[collection_path.name]):
        return None
    named = [config.invocation_params.dir / one.partition("::")[0] for one in config.args]
    # The folders beside one that was named are looked at, too.
    if any(collection_path.is_relative_to(one) for one in named):
        _of(config).folders.append(f"{tests.name}/{collection_path.name}")
    return True


def _chooses(expression: Expression, markers: frozenset[str]) -> bool:
    def has(name: str, /, **_: str | int | bool | None) -> bool:
        return name in markers

    return expression.evaluate(has)


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(items: Sequence[pytest.Item], config: pytest.Config) -> None:
    tests = config.rootpath / "tests"
    for item in items:
        if not item.path.is_relative_to(tests):
            continue
        folder = item.path.relative_to(tests).parts[0]
        if folder in SLOW:
            item.add_marker(folder)
        markers = frozenset(one.name for one in item.iter_markers()) & _KNOWN
        if markers not in MARKERS.get(folder, (markers,)):
            raise pytest.UsageError(
                f"{item.nodeid} has the markers {sorted(markers)}, which tests/{folder} does not"
                " have: it would be left out where they are chosen"
            )


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    for item in items:
        kinds = [one for one in SLOW if item.get_closest_marker(one)]
        counts, kind = _of(item.config).counts, " ".join(kinds) or "other"
        counts[kind] = counts.get(kind, 0) + 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left_out"] = asdict(_of(session.config))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over from a worker of xdist: each worker collects, and leaves out, the same."""
    node.config.stash[_LEFT_OUT] = LeftOut(**getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    left_out = _of(config)
    expression = config.getoption("markexpr")
    if not left_out or not expression or config.getoption("keyword"):
        return
    terminalreporter.section("left out")
    terminalreporter.write_line(
        f"{left_out}: they may need services, a browser, and environments that are made on"
        " first use"
    )
    terminalreporter.write_line(f'run them: pytest -n 4 --dist loadfile -m "not ({expression})"')
    terminalreporter.write_line("run everything that has to hold: .ci/run")


def _of(config: pytest.Config) -> LeftOut:
    return config.stash.setdefault(_LEFT_OUT, LeftOut())
