"""Authentication: permissions of tokens, a limit on wrong ones, and the sessions of browsers."""

import hmac
import ipaddress
import math
import re
import secrets
import socket
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from typing import Final, Literal

from starlette.types import Scope

from mlcat_ingest.catalog.errors import TooManyRequestsError
from mlcat_ingest.catalog.limits import (
    SESSION_SECONDS,
    SESSIONS,
    WRONG_TOKENS,
    WRONG_TOKENS_SECONDS,
)
from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR

SESSION_COOKIE: Final = "mlcat_session"
"""The cookie that holds the id of a session."""


CSRF: Final = "mlcat.csrf"
"""The key of an ASGI scope under which the pages find the token that their forms send along.

A request with a bearer token has none: no page of another site can send one.
"""

SIGNED_IN: Final = "mlcat.signed_in"
"""The key of an ASGI scope under which the pages find whether the request has a session."""

MAY_WRITE: Final = "mlcat.may_write"
"""The key of an ASGI scope under which endpoints find whether the request may write."""

ACTOR: Final = "mlcat.actor"
"""The key of an ASGI scope under which the pages find the URN of the user who signed in."""

_IPV6_PREFIX_BITS: Final = 64


_ADDRESSES: Final = 1_000


@dataclass(frozen=True, slots=True)
class _Session:
    expiry_s: float
    may_write: bool
    actor: str


@dataclass(slots=True)
class _Window:
    end_s: float
    tokens: set[bytes] = field(default_factory=set)


class Authenticator:
    """Checks tokens, and refuses the guesses of an address after too many different wrong ones.

    A right token is no guess: nobody else at the address can lock it out. The same wrong token once
    more is a client with a wrong setting and no guess, too: it counts once. Of wrong tokens only
    keyed hashes are kept, and only those of the addresses that came last.
    """

    def __init__(
        self, token: str, read_token: str | None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Allow everything with `token`, and reading only with `read_token` if there is one."""
        self._token = token.encode()
        self._read_token = read_token.encode() if read_token else None
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._windows: OrderedDict[str, _Window] = OrderedDict()

    def permission(self, given: bytes, address: str) -> Literal["write", "read"] | None:
        """Return what the token `given` allows; None for a wrong one.

        Raises:
            TooManyRequestsError: the token is wrong, and `address` tried too many such.
        """
        # Both are compared, whichever is right, so that the time reveals nothing.
        may_write = hmac.compare_digest(given, self._token)
        may_read = self._read_token is not None and hmac.compare_digest(given, self._read_token)
        if may_write or may_read:
            return "write" if may_write else "read"
        self._count(given, address)
        return None

    def _count(self, wrong: bytes, address: str) -> None:
        now_s, window = self._clock(), self._windows.get(address)
        if window is None or window.end_s <= now_s:
            window = _Window(now_s + WRONG_TOKENS_SECONDS)
        elif len(window.tokens) >= WRONG_TOKENS:
            left_s = math.ceil(window.end_s - now_s)
            raise TooManyRequestsError(
                f"Too many wrong tokens; try again in {left_s} s.", retry_after_s=left_s
            )
        if wrong:
            if not window.tokens:
                self._windows.pop(address, None)
            self._windows[address] = window
            window.tokens.add(blake2b(wrong, key=self._key, digest_size=8).digest())
            while len(self._windows) > _ADDRESSES:
                self._windows.popitem(last=False)


def client_address(scope: Scope) -> str:
    """Return the address of a client, of IPv6 the network: whoever has one address has them all.

    Behind a proxy it is that of the proxy. Headers do not count, as anybody can send them.
    """
    host: str = (scope.get("client") or ("",))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return str(ipaddress.ip_network((address, _IPV6_PREFIX_BITS), strict=False))


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address, reaches only this machine itself."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in addresses)


_HOST: Final = re.compile(r"(?:\[(?P<ipv6>[^\]]+)\]|(?P<name>[^:]+))(?::\d*)?")


def is_own_host(given: str, host: str) -> bool:
    """Return whether the `Host` of a request is `host`, localhost or a loopback address."""
    match = _HOST.fullmatch(given)
    if match is None:
        return False
    name = _plain_name(match["ipv6"] or match["name"])
    if name in {"localhost", _plain_name(host)}:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _plain_name(name: str) -> str:
    return name.removesuffix(".").lower()


class Sessions:
    """The open sessions, in the memory of this process: a restart ends all of them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._key = secrets.token_bytes(32)
        # All live equally long, so the oldest is the first to expire.
        self._started: OrderedDict[str, _Session] = OrderedDict()

    def start(self, *, may_write: bool = False, actor: str = UNKNOWN_ACTOR) -> str:
        """Return the id of a new session of `actor`; beyond `SESSIONS` the oldest ends."""
        session = secrets.token_urlsafe(32)
        self._started[session] = _Session(self._clock() + SESSION_SECONDS, may_write, actor)
        while len(self._started) > SESSIONS:
            self._started.popitem(last=False)
        return session

    def find(self, session: str) -> _Session | None:
        """Return the session of this id that was started, and neither ended nor expired."""
        started = self._started.get(session)
        return started if started is not None and self._clock() < started.expiry_s else None

    def end(self, session: str) -> None:
        """End a session; an unknown id is none."""
        self._started.pop(session, None)

    def form_token(self, cookie: str) -> str:
        """Return the CSRF token of the forms that a browser with `cookie` sends.

        It follows from a cookie that pages of other sites cannot read, so they cannot send it.
        """
        return hmac.new(self._key, cookie.encode(), sha256).hexdigest()

    def is_form_of(self, cookie: str, given: str) -> bool:
        """Return whether a form with the token `given` was made for a browser with `cookie`."""
        return bool(cookie) and hmac.compare_digest(
            given.encode(), self.form_token(cookie).encode()
        )
