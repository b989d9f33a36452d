"""A test without a marker starts no process and opens no socket: it fails in the attempt."""

import os
import socket
import subprocess
from collections.abc import Callable

import pytest

from support.processes import SLOW


def _bind() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))


def _connect() -> None:
    with socket.socket() as client:
        client.connect(("127.0.0.1", 9))


STARTS = {
    "subprocess.Popen": lambda: subprocess.run(["true"], check=False),
    "os.fork": os.fork,
    "socket.bind": _bind,
    "socket.connect": _connect,
}


@pytest.mark.parametrize("start", STARTS.values(), ids=STARTS)
def test_an_unmarked_test_that_starts_one_fails(start: Callable[[], object]) -> None:
    with pytest.raises(pytest.fail.Exception, match="has none of the markers"):
        start()


def test_the_fast_loop_of_the_contributing_page_names_every_marker(
    pytestconfig: pytest.Config,
) -> None:
    page = (pytestconfig.rootpath / "CONTRIBUTING.md").read_text()
    assert all(f"not {marker}" in page for marker in SLOW)
    declared = {str(line).partition(":")[0] for line in pytestconfig.getini("markers")}
    assert declared >= set(SLOW)


def test_a_pair_of_sockets_is_no_connection() -> None:
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"x")
        assert other.recv(1) == b"x"


@pytest.mark.process
def test_a_marked_test_may() -> None:
    assert subprocess.run(["true"], check=False).returncode == 0
