"""An HTTP server on the loopback interface that answers by script, faults included.

A script is a sequence of answers, of which the last is repeated, or a function of the request::

    busy = ServiceAnswer(503, headers={"Retry-After": "0"})
    with failing_service([busy, ServiceAnswer(body=b"[]")]) as service:
        ...  # read from service.url
        assert len(service.requests) == 2
"""

import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ServiceAnswer:
    """One reply, or a fault in its place.

    Attributes:
        status: the HTTP status.
        body: the bytes of the body.
        headers: more headers, or other values of `Content-Type` and `Content-Length`.
        cut: bytes of the body after which the connection is closed; None sends all.
        stall: whether the connection stays open without the rest of the body.
        hang_up: whether the connection is closed without a reply.
        reset: whether the connection is reset without a reply.
        silent: whether the request is never answered.
    """

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: int | None = None
    stall: bool = False
    hang_up: bool = False
    reset: bool = False
    silent: bool = False


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """One request as it arrived: `path` includes the query."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Script = Sequence[ServiceAnswer] | Callable[[ServiceRequest], ServiceAnswer]


@dataclass(slots=True)
class FailingService:
    """A running service: its address, and every request that it got, in order."""

    url: str
    requests: list[ServiceRequest] = field(default_factory=list)

    @property
    def port(self) -> int:
        """The port of `url`."""
        return int(self.url.rpartition(":")[2])


@contextmanager
def failing_service(
    script: Script, *, certificate: Path | None = None, client_authority: Path | None = None
) -> Iterator[FailingService]:
    """Serve `script` on a free port until the block ends.

    `certificate` is a PEM file with its key, for HTTPS; with `client_authority`, a PEM file,
    clients need a certificate that it signed.
    """
    server = _ScriptedServer(script)
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        if client_authority is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(client_authority)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        scheme = "https"
    server.service.url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.service
    finally:
        server.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _ScriptedServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, script: Script) -> None:
        super().__init__(("127.0.0.1", 0), _ScriptedHandler)
        self.service = FailingService("")
        self.over = threading.Event()
        self._script = script
        self._lock = threading.Lock()

    def answer(self, request: ServiceRequest) -> ServiceAnswer:
        with self._lock:
            number = len(self.service.requests)
            self.service.requests.append(request)
        if callable(self._script):
            return self._script(request)
        return self._script[min(number, len(self._script) - 1)]

    def handle_error(self, request: object, client_address: object) -> None:
        # A client that was killed, or has given up, is no fault of the server.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _ScriptedHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _ScriptedServer

    def handle_any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        request = ServiceRequest(self.command, self.path, dict(self.headers.items()), body)
        answer = self.server.answer(request)
        if answer.silent:
            self.server.over.wait()
        if answer.reset:
            # Closed with no time to linger, a socket says RST in place of goodbye.
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        if answer.hang_up or answer.reset or answer.silent:
            self.close_connection = True
        else:
            self._send(answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_CONNECT = handle_any  # noqa: N815

    def _send(self, answer: ServiceAnswer) -> None:
        # A script that tells the time tells it alone.
        tells_time = "Date" in answer.headers
        (self.send_response_only if tells_time else self.send_response)(answer.status)
        headers = {"Content-Type": "application/json", **answer.headers}
        headers.setdefault("Content-Length", str(len(answer.body)))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body[: answer.cut])
        self.wfile.flush()
        if answer.stall:
            self.server.over.wait()
        if answer.cut is not None:
            self.close_connection = True

    def log_message(self, *args: object) -> None:
        """Log nothing."""
