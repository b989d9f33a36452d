"""A plugin of pytest: a test without a marker of the slow ones starts no process and no socket."""

import functools
import os
import socket
import subprocess
from collections.abc import Callable, Generator
from typing import Final

import pytest
import urllib3.util.connection  # noqa: F401 - to see whether there is IPv6, it binds a socket

SLOW: Final = ("process", "integration", "compat", "e2e")
"""The markers of tests that the fast loop leaves out."""

FORBIDDEN: Final = (
    (os, "fork"),
    (os, "forkpty"),
    (os, "posix_spawn"),
    (os, "posix_spawnp"),
    (os, "system"),
    (socket.socket, "bind"),
    (socket.socket, "connect"),
    (socket.socket, "connect_ex"),
    (subprocess.Popen, "__init__"),
)
"""The calls that end a test of the fast loop."""

_guarded: list[str] = []


def _guard(owner: object, name: str) -> None:
    """Replace a function by one that fails while a test of the fast loop runs.

    An audit hook would see more. But on Python 3.11 `sys.settrace` calls it between two steps
    that another thread must not come between, and coverage traces each thread.
    """
    original: Callable[..., object] = getattr(owner, name)

    @functools.wraps(original)
    def guarded(*arguments: object, **options: object) -> object:
        if _guarded:
            # No subclass of `Exception`: nothing a test tries out takes it for its own failure.
            raise pytest.fail.Exception(
                f"{_guarded[0]} has none of the markers {', '.join(SLOW)}, "
                f"and calls {original.__qualname__}",
                pytrace=True,
            )
        return original(*arguments, **options)

    setattr(owner, name, guarded)


for _owner, _name in FORBIDDEN:
    _guard(_owner, _name)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    if not any(mark.name in SLOW for mark in item.iter_markers()):
        _guarded.append(item.nodeid)
    try:
        return (yield)
    finally:
        _guarded.clear()
