"""A catalog that keeps writes waiting, so that somebody can be killed in the middle of one."""

import asyncio
import threading
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass
class HeldWrites:
    """Lets the first `passing` writes through, and keeps later ones waiting until it is closed.

    It looks only at paths that begin with `under`: who is kept waiting has an address of its own.
    """

    app: ASGIApp
    under: str
    passing: int
    _released: threading.Event = field(default_factory=threading.Event)
    waiting: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._concerns(scope):
            self.passing -= 1
            if self.passing < 0:
                self.waiting += 1
                await asyncio.to_thread(self._released.wait)
        await self.app(scope, receive, send)

    def _concerns(self, scope: Scope) -> bool:
        return (
            scope["type"] == "http"
            and scope["path"].startswith(self.under)
            and b"action=ingestProposal" in scope["query_string"]
        )

    def close(self) -> None:
        """Let everything through."""
        self._released.set()
