"""A catalog that has never heard of primary keys, around the one that has."""

import json
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

WORDS = "Failed to find entity with name mlPrimaryKey in EntityRegistry"
_NAMES = (b"mlprimarykey", b"mlprimary_key")


@dataclass
class WithoutPrimaryKeys:
    """Answers `status` to every request that names a primary key, until it `is_upgraded`.

    Where it `reads_them`, only to those that write one.
    """

    app: ASGIApp
    status: int = 400
    reads_them: bool = False
    is_upgraded: bool = False
    refused: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self.is_upgraded:
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        asked = (scope["path"].encode() + body).lower()
        is_write = b"action=ingest" in scope["query_string"]
        if any(name in asked for name in _NAMES) and (is_write or not self.reads_them):
            self.refused.append(scope["path"])
            await _answer(send, self.status)
            return
        given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Message:
            return given.pop() if given else await receive()

        await self.app(scope, again, send)


async def _answer(send: Send, status: int) -> None:
    content: dict[str, Any] = {"message": WORDS, "status": status}
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(content).encode()})
