"""A small real service on loopback: a test says what it answers, and reads what it was asked."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Asked:
    """A request as it arrived: `path` is what the client sent, query included."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """A reply to send; a `body` that is not bytes is sent as JSON."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()

    def content_type(self) -> str:
        return "text/plain" if isinstance(self.body, bytes) else "application/json"


Answering = Answer | Callable[[Asked], Answer]


class FakeService:
    """Routes by method and the path's beginning, longest first; all else is a 404."""

    def __init__(self, server: str) -> None:
        self.server = server
        self.asked: list[Asked] = []
        self._lock = threading.Lock()
        self._routes: dict[tuple[str, str], Answering] = {}
        self.on("GET", "/config", Answer(body={"noCode": "true"}))

    def on(self, method: str, path: str, answer: Answering) -> None:
        self._routes[method, path] = answer

    def answer(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
        fitting = [
            path
            for method, path in self._routes
            if method == asked.method and asked.path.startswith(path)
        ]
        if not fitting:
            return Answer(404, {"message": "No root resource defined for path", "status": 404})
        found = self._routes[asked.method, max(fitting, key=len)]
        return found(asked) if callable(found) else found

    def to(self, path: str) -> list[Asked]:
        """The requests so far whose path begins with `path`, in the order they arrived."""
        return [asked for asked in self.asked if asked.path.startswith(path)]


@contextmanager
def fake_service() -> Iterator[FakeService]:
    """Run a fake service on a free loopback port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def handle_any(self) -> None:
            length = int(self.headers.get("Content-Length", "0"))
            body = self.rfile.read(length)
            asked = Asked(self.command, self.path, dict(self.headers.items()), body)
            answer = service.answer(asked)
            content = answer.content()
            self.send_response(answer.status)
            headers = {"Content-Type": answer.content_type(), **answer.headers}
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_DELETE = handle_any  # noqa: N815 - the names that the base class calls

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        service = FakeService(f"http://127.0.0.1:{listener.server_port}")
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield service
        finally:
            listener.shutdown()
            thread.join()
