"""Limits on the requests answered at once, and on the wrong tokens from one address."""

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from mlcat_ingest.catalog.errors import TooManyRequestsError
from mlcat_ingest.catalog.limits import WRONG_TOKENS, WRONG_TOKENS_SECONDS

_ADDRESSES: Final = 1_000


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


@dataclass(slots=True)
class _Window:
    end_s: float
    tokens: set[bytes] = field(default_factory=set)


class WrongTokens:
    """Refuses an address that tried too many different wrong tokens.

    The same wrong token once more is a client with a wrong setting and no guess: it counts once.
    Of tokens only keyed hashes are kept, and only those of the addresses that came last.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without a wrong token."""
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def check(self, address: str) -> None:
        """Return if `address` may try a token.

        Raises:
            TooManyRequestsError: it tried too many wrong ones.
        """
        window = self._windows.get(address)
        if window is None or len(window.tokens) < WRONG_TOKENS:
            return
        left_s = math.ceil(window.end_s - self._clock())
        if left_s > 0:
            raise TooManyRequestsError(
                f"Too many wrong tokens; try again in {left_s} s.", retry_after_s=left_s
            )

    def add(self, address: str, token: bytes) -> None:
        """Count a wrong token of `address`."""
        window = self._windows.get(address)
        if window is None or window.end_s <= self._clock():
            self._windows.pop(address, None)
            window = self._windows[address] = _Window(self._clock() + WRONG_TOKENS_SECONDS)
            while len(self._windows) > _ADDRESSES:
                self._windows.popitem(last=False)
        window.tokens.add(blake2b(token, key=self._key, digest_size=8).digest())
