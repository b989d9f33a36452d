"""Calling an ASGI application in the test's own process, without a socket."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message


@dataclass(frozen=True, slots=True)
class Answer:
    """What the application sent back; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    set_cookies: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


def call(
    app: ASGIApp,
    method: str,
    target: str,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    scheme: str = "http",
    client: str = "127.0.0.1",
    hosts: Sequence[str] = ("127.0.0.1:7001",),
) -> Answer:
    """Send one request; `target` is the path with its query, percent-encoded as on the wire."""
    sent_headers = {"content-type": "application/json", **(headers or {})}
    raw_path, _, query = target.partition("?")
    sent: list[Message] = []

    requests: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        if not requests:
            await asyncio.Event().wait()  # the client stays: no disconnect comes
        return requests.pop()

    async def send(message: Message) -> None:
        sent.append(message)

    pairs = [*(("host", host) for host in hosts), *sent_headers.items()]
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in pairs]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": unquote(raw_path),
        "raw_path": raw_path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": encoded,
        "client": (client, 1),
        "server": ("127.0.0.1", 7001),
    }
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type]
    start = next(message for message in sent if message["type"] == "http.response.start")
    received = [(name.decode().lower(), value.decode()) for name, value in start["headers"]]
    return Answer(
        start["status"],
        dict(received),
        b"".join(message.get("body", b"") for message in sent),
        [value for name, value in received if name == "set-cookie"],
    )
