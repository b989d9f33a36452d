"""The receiver of webhooks on a socket, and how little a client can make it hold."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import ThreadingHTTPServer

import pytest
import requests

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.hooks import webhooks as webhooks_module
from mlcat_ingest.hooks.webhooks import Webhooks, serve_webhooks
from support.webhooks import ALIAS, NOW_S, Heard, signed


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Heard]]:
    heard, ready = Heard(), threading.Event()
    addresses: list[str] = []
    servers: list[ThreadingHTTPServer] = []
    serve_forever = ThreadingHTTPServer.serve_forever

    def serve(server: ThreadingHTTPServer, poll_interval: float = 0.01) -> None:
        servers.append(server)
        ready.set()
        serve_forever(server, poll_interval)

    monkeypatch.setattr(ThreadingHTTPServer, "serve_forever", serve)
    monkeypatch.setattr("mlcat_ingest.hooks.webhooks.time.time", lambda: NOW_S)
    monkeypatch.setattr(webhooks_module, "MAX_CONNECTIONS", 1)
    arguments = (Webhooks(lambda: "s", heard), "127.0.0.1", 0, addresses.append)
    thread = threading.Thread(target=serve_webhooks, args=arguments)
    thread.start()
    assert ready.wait(30)
    yield addresses[0], heard
    servers[0].shutdown()
    thread.join(30)


def test_a_delivery_arrives_by_http(served: tuple[str, Heard]) -> None:
    address, heard = served
    body = json.dumps(ALIAS).encode()
    reply = requests.post(address, body, headers=dict(signed(body)), timeout=30)
    assert (reply.status_code, reply.text) == (200, "taken\n")
    assert len(heard.events) == 1
    assert requests.get(address, timeout=30).status_code == 501


def test_deliveries_at_once_wait_for_their_turn(served: tuple[str, Heard]) -> None:
    address, heard = served
    host, port = address.removeprefix("http://").split(":")
    with ExitStack() as stack:
        place = (host, int(port))
        clients = [stack.enter_context(socket.create_connection(place, 30)) for _ in range(200)]
        for i, client in enumerate(clients):
            body = json.dumps({**ALIAS, "action": f"{i}"}).encode()
            lines = [f"{name}: {value}" for name, value in signed(body, f"d{i}").items()]
            head = "\r\n".join(["POST / HTTP/1.1", f"Content-Length: {len(body)}", *lines])
            client.sendall(head.encode() + b"\r\n\r\n" + body)
        assert {client.recv(100).split()[1] for client in clients} == {b"200"}
    assert len(heard.events) == 200


def test_a_large_body_is_not_read(served: tuple[str, Heard]) -> None:
    address, _ = served
    host, port = address.removeprefix("http://").split(":")
    for length, status in (
        (f"Content-Length: {2 << 20}", b"413"),
        (f"Content-Length: {'9' * 5000}", b"413"),
        ("Content-Length: -1", b"411"),
        ("X: y", b"411"),
    ):
        with socket.create_connection((host, int(port)), 30) as client:
            client.sendall(f"POST / HTTP/1.1\r\nHost: h\r\n{length}\r\n\r\n".encode())
            assert client.recv(100).split()[1] == status


def test_a_client_that_sends_too_slowly_is_cut_off(
    served: tuple[str, Heard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks_module, "MAX_S", 0.05)
    address, heard = served
    host, port = address.removeprefix("http://").split(":")
    for start in (b"", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc"):
        with socket.create_connection((host, int(port)), 30) as client:
            client.sendall(start)
            assert client.recv(100) == b""
    assert heard.events == []


def test_an_address_that_is_taken_is_an_error_with_its_cure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(RecipeError, match=r"cannot listen on 127\.0\.0\.1.*--port"):
            serve_webhooks(Webhooks(lambda: "s", Heard()), "127.0.0.1", port, print)
