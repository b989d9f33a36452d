"""Clients that are slow, or too many: they are closed, and nobody else waits for them."""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path

import pytest
import requests

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS
from mlcat_ingest.catalog.server import serve
from support.catalog_server import RunningCatalog, running_catalog

TOKEN = "t" * 32
FORM = b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"

LIMITED = """
import resource, sys
from mlcat_ingest.catalog.server import serve
from mlcat_ingest.catalog.server.serve import serve
serve.HEAD_SECONDS = 3
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
serve(sys.argv[1], port=0, ready=lambda r: print(r.url, flush=True))
"""


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningCatalog]:
    monkeypatch.setattr(serve, "HEAD_SECONDS", 1)
    monkeypatch.setattr(serve, "BODY_TAIL_SECONDS", 3)
    limits = replace(DEFAULT_LIMITS, requests_at_once=2, body_seconds=20)
    with running_catalog(tmp_path / "c.db", token=TOKEN, limits=limits) as running:
        yield running


def connect(url: str, sent: bytes) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    client = socket.create_connection((host, int(port)), timeout=15)
    client.sendall(sent)
    return client


def wait_for_end(client: socket.socket) -> None:
    with suppress(ConnectionResetError):
        while client.recv(65_536):
            pass


HEALTH = b"GET /health HTTP/1.1\r\nHost: x\r\n"
WITH_BODY = b"Content-Length: 9\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "answer", "then", "least_s"),
    [
        (b"", b"", b"", 1),
        (b"GET / HTTP/1.1\r\nX: ", b"", b"", 1),
        (HEALTH + b"\r\n", b"HTTP/1.1 200", b"GET / HTTP", 1),
        (HEALTH + WITH_BODY, b"HTTP/1.1 200", b"1", 3),
        (b"POST /aspects HTTP/1.1\r\nHost: x\r\n" + WITH_BODY, b"HTTP/1.1 401", b"1", 3),
    ],
)
def test_a_request_that_does_not_come_to_its_end_is_cut_off(
    catalog: RunningCatalog, sent: bytes, answer: bytes, then: bytes, least_s: float
) -> None:
    began_s = time.monotonic()
    with closing(connect(catalog.url, sent)) as client:
        if answer:
            assert client.recv(65_536).startswith(answer)
            client.sendall(then)
        wait_for_end(client)
    assert time.monotonic() - began_s >= least_s


def test_an_idle_connection_stays_open(catalog: RunningCatalog) -> None:
    with closing(HTTPConnection(catalog.url.removeprefix("http://"), timeout=15)) as client:
        client.connect()
        client.auto_open = 0
        for pause_s in (2.5, 0):
            client.request("GET", "/health")
            assert client.getresponse().read() == b'{"status":"ok"}'
            time.sleep(pause_s)


def test_forms_of_the_sign_in_that_arrive_slowly_stop_nobody(catalog: RunningCatalog) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with ExitStack() as stack:
        slow = [stack.enter_context(closing(connect(catalog.url, FORM))) for _ in range(6)]
        for path in ("/openapi.json", "/static/style.css", "/login"):
            answer = requests.get(catalog.url + path, headers=headers, timeout=15)
            assert answer.status_code == 200
        statuses = [client.recv(65_536).split()[1] for client in slow]
    assert sorted(statuses) == [b"408"] * 5 + [b"429"]


def test_a_long_address_is_answered(catalog: RunningCatalog) -> None:
    query = {"q": "ä" * 100_000}
    answer = requests.get(f"{catalog.url}/search", params=query, timeout=15)
    assert answer.status_code == 414


def test_without_a_free_descriptor_the_log_is_short_and_the_catalog_recovers(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-c", LIMITED, str(tmp_path / "c.db")]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        ExitStack() as stack,
    ):
        stack.callback(process.kill)
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().decode().strip()
        for _ in range(120):
            stack.enter_context(closing(connect(url, b"GET / HTTP/1.1\r\nX: ")))
        assert requests.get(f"{url}/health", timeout=30).status_code == 200
        process.terminate()
        log = process.stderr.read().decode()
    assert re.fullmatch("cannot accept connections: Too many open files .*\n", log)
