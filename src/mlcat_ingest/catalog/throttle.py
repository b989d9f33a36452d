"""How many requests are answered at once."""

from collections.abc import Collection

from starlette.types import ASGIApp, Receive, Scope, Send

from mlcat_ingest.catalog.errors import TooManyRequestsError


class Throttle:
    """ASGI middleware that turns requests away while too many are in hand.

    Each request holds its body in memory, so their number bounds the memory of the service.
    """

    def __init__(self, app: ASGIApp, at_once: int, open_paths: Collection[str]) -> None:
        """Pass `at_once` requests to `app` at most; those to `open_paths` are not counted."""
        self._app = app
        self._at_once = at_once
        self._open_paths = frozenset(open_paths)
        self._in_hand = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on.

        Raises:
            TooManyRequestsError: as many requests as allowed are in hand.
        """
        if scope["type"] != "http" or scope["path"] in self._open_paths:
            await self._app(scope, receive, send)
            return
        if self._in_hand >= self._at_once:
            raise TooManyRequestsError(f"{self._at_once} requests are being answered; try again")
        self._in_hand += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._in_hand -= 1
