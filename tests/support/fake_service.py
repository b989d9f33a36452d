"""A small real service on loopback: a test says what it answers, and reads what it was asked."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mlcat_ingest.testing.service import ServiceAnswer, ServiceRequest, failing_service


class Asked(ServiceRequest):
    """A request as it arrived."""

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Answer:
    """A reply to send; a `body` that is not bytes is sent as JSON."""

    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def sent(self) -> ServiceAnswer:
        if isinstance(self.body, bytes):
            headers = {"Content-Type": "text/plain", **self.headers}
            return ServiceAnswer(self.status, self.body, headers)
        return ServiceAnswer(self.status, json.dumps(self.body).encode(), self.headers)


Answering = Answer | Callable[[Asked], Answer]


@dataclass
class FakeService:
    """Routes by method and the path's beginning, longest first; all else is a 404."""

    server: str = ""
    asked: list[Asked] = field(default_factory=list)
    _routes: dict[tuple[str, str], Answering] = field(default_factory=dict)

    def on(self, method: str, path: str, answer: Answering) -> None:
        self._routes[method, path] = answer

    def __call__(self, request: ServiceRequest) -> ServiceAnswer:
        asked = Asked(request.method, request.path, request.headers, request.body)
        self.asked.append(asked)
        paths = (path for method, path in self._routes if method == asked.method)
        fitting = [path for path in paths if asked.path.startswith(path)]
        if not fitting:
            missing = {"message": "No root resource defined for path", "status": 404}
            return Answer(404, missing).sent()
        found = self._routes[asked.method, max(fitting, key=len)]
        return (found(asked) if callable(found) else found).sent()

    def to(self, path: str) -> list[Asked]:
        """The requests so far whose path begins with `path`, in the order they arrived."""
        return [asked for asked in self.asked if asked.path.startswith(path)]


@contextmanager
def fake_service() -> Iterator[FakeService]:
    """Run a fake service on a free loopback port."""
    service = FakeService()
    service.on("GET", "/config", Answer(body={"noCode": "true"}))
    with failing_service(service) as running:
        service.server = running.url
        yield service


def web_page(
    text: str = "<!doctype html><title>Sign in</title>", status: int = 200
) -> ServiceAnswer:
    """Return a web page, such as that of a login form."""
    return ServiceAnswer(status, text.encode(), {"Content-Type": "text/html; charset=utf-8"})
