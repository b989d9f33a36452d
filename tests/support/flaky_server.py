"""A small HTTP server on the loopback interface that answers as a script says, faults included."""

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
class Answer:
    """One reply. `cut` breaks the body off, `stall` keeps the rest of it back until the end.

    In its place `hang_up` closes the connection, `reset` breaks it, `silent` never answers.
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
class Request:
    """One request as it came in."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Script = Sequence[Answer] | Callable[[Request], Answer]


@dataclass(slots=True)
class FlakyServer:
    """The server: where it is, and every request it got, in order."""

    url: str
    requests: list[Request] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])


@contextmanager
def flaky(
    script: Script, *, certificate: Path | None = None, client_authority: Path | None = None
) -> Iterator[FlakyServer]:
    """Serve `script`: its answers in turn, the last one again and again; or what it returns.

    With `client_authority`, only clients whose certificate it signed are let in.
    """
    over = threading.Event()
    lock = threading.Lock()
    flaky_server = FlakyServer("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            request = Request(
                self.command, self.path, dict(self.headers.items()), self.rfile.read(length)
            )
            with lock:
                number = len(flaky_server.requests)
                flaky_server.requests.append(request)
            if callable(script):
                self.send(script(request))
            else:
                self.send(script[min(number, len(script) - 1)])

        do_GET = do_POST = do_PUT = do_DELETE = do_CONNECT = handle_any  # noqa: N815

        def send(self, answer: Answer) -> None:
            if answer.silent:
                over.wait()
            if answer.reset:
                # Closed with no time to linger, a socket says RST in place of goodbye.
                linger = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            if answer.hang_up or answer.reset or answer.silent:
                self.close_connection = True
                return
            # A script that tells the time tells it alone.
            tells_time = "Date" in answer.headers
            (self.send_response_only if tells_time else self.send_response)(answer.status)
            headers = {"Content-Type": "application/json", **answer.headers}
            headers.setdefault("Content-Length", str(len(answer.body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            kept = answer.cut if answer.cut is not None else len(answer.body)
            self.wfile.write(answer.body[:kept])
            self.wfile.flush()
            if answer.stall:
                over.wait()
            if answer.cut is not None:
                self.close_connection = True

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            # A client that was killed, or has given up, is no fault of the server.
            if not isinstance(sys.exc_info()[1], ConnectionError):
                super().handle_error(request, client_address)  # type: ignore[arg-type]

    server = Server(("127.0.0.1", 0), Handler)
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
    flaky_server.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield flaky_server
    finally:
        over.set()
        server.shutdown()
        thread.join()
        server.server_close()


def page(text: str = "<!doctype html><title>Sign in</title>", status: int = 200) -> Answer:
    """Return a web page, such as that of a login form."""
    return Answer(status, text.encode(), {"Content-Type": "text/html; charset=utf-8"})
