"""A plugin of pytest: a test without a marker of the slow ones starts no process and no socket."""

import sys
from collections.abc import Generator
from typing import Any, Final

import pytest

SLOW: Final = ("process", "integration", "compat", "e2e")
"""The markers of tests that the fast loop leaves out."""

FORBIDDEN: Final = frozenset(
    {
        "os.exec",
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "os.spawn",
        "os.system",
        "socket.bind",
        "socket.connect",
        "subprocess.Popen",
    }
)
"""The events of `sys.audit` that end a test of the fast loop."""

_guarded: list[str] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _guarded and event in FORBIDDEN:
        # No subclass of `Exception`: nothing that a test tries out takes it for its own failure.
        raise pytest.fail.Exception(
            f"{_guarded[0]} has none of the markers {', '.join(SLOW)}, "
            f"and calls {event} with {arguments}",
            pytrace=True,
        )


sys.addaudithook(_audit)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if not any(mark.name in SLOW for mark in item.iter_markers()):
        _guarded.append(item.nodeid)
    try:
        return (yield)
    finally:
        _guarded.clear()
