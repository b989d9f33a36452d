"""The requests session behind `http.py`: its credentials, proxies and retries."""

import ipaddress
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from random import SystemRandom
from time import monotonic
from typing import Any, Final
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.util.retry import Retry

from mlcat_ingest.core.redaction import redact_url

UNAVAILABLE: Final = frozenset({429, 502, 503, 504})
MAX_RETRY_AFTER_S: Final = 120.0

MAX_PAUSE_S: Final = 10.0
"""The longest pause between two attempts, unless the server asks for another one."""

LONG_WAIT_S: Final = 3.0
"""Seconds from which on a wait for further attempts is reported."""

_Origin = tuple[str, str, int]
"""Scheme, host and port."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_TWO_MINUTES_S: Final = 120
_RANDOM: Final = SystemRandom()  # the state of `random` belongs to the user's program

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Trust:
    """The certificates that are accepted, and the one that is shown, as requests takes them."""

    verify: bool | str = True
    cert: str | tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How requests are sent; `connections` bounds those in flight.

    The timeouts bound each attempt; `retry_for_s` and `retries`, if given, the attempts after the
    first.
    """

    auth: AuthBase | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trust: Trust = field(default_factory=Trust)
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 60.0
    retry_for_s: float = 10.0
    retries: int | None = None
    connections: int = 8


class BearerAuth(AuthBase):
    """Puts ``Authorization: Bearer <token>`` on each request and shows the token nowhere."""

    def __init__(self, token: str) -> None:
        """Keep the token."""
        self._token = token

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with its header."""
        r.headers["Authorization"] = f"Bearer {self._token}"
        return r

    def __repr__(self) -> str:
        """Return a text without the token."""
        return "BearerAuth(***)"


class NoAuth(AuthBase):
    """Leaves a request as it is; its presence keeps requests from reading ~/.netrc."""

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request."""
        return r


class OwnSession(requests.Session):
    """A session for one service: no other address gets its credentials by a redirect.

    They are whatever its owner or its service put on a request: `auth`, headers, cookies, and the
    client certificate.
    """

    _home: _Origin = ("", "", 0)

    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        """Return the request as it is sent; redirects are not prepared by this."""
        prepared = super().prepare_request(request)
        self._home = _origin(prepared.url)
        return prepared

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send a request, bare to another address than that of the service."""
        if not self.is_home(request.url):
            kwargs["cert"] = None
            # requests sets this one anew for each proxy.
            proxy = request.headers.get("Proxy-Authorization")
            request.headers = requests.utils.default_headers()
            request.headers.update({"Accept": "application/json"})
            if proxy:
                request.headers["Proxy-Authorization"] = proxy
        return super().send(request, **kwargs)

    def is_home(self, url: str | None) -> bool:
        """Return whether `url` has the scheme, host and port of the service."""
        return _origin(url) == self._home

    def rebuild_auth(
        self, prepared_request: requests.PreparedRequest, response: requests.Response
    ) -> None:
        """Add nothing: the base class looks a new host up in ~/.netrc."""


def _origin(url: str | None) -> _Origin:
    parts = urlsplit(url or "")
    return parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)


@dataclass(slots=True)
class PendingRequest:
    """A request of one thread, how many of its attempts failed so far, and how the last one did."""

    url: str
    began_s: float
    failures: int = 0
    failure: str = ""
    failing_since_s: float = 0.0


class RetryPolicy:
    """The pauses between attempts of requests to one service; safe for several threads.

    A request is tried again for `retry_for_s` after its first failure, and `retries` times at most
    where that is given.
    """

    def __init__(
        self, peer: str, *, retry_for_s: float, retries: int | None, first_pause_s: float
    ) -> None:
        """Keep the bounds; `peer` names the service in the log."""
        self._peer = peer
        self._retry_for_s = retry_for_s
        self._retries = retries
        self._first_pause_s = first_pause_s
        self._ended = threading.Event()
        self._is_reported = False

    def pause(self, pending: PendingRequest, failure: str, asked_s: float | None = None) -> bool:
        """Return True when it is time for the next attempt, False at once where none is left.

        The pause is as long as the service asks, but no longer than `MAX_RETRY_AFTER_S`; else it
        doubles up to `MAX_PAUSE_S`, and at most half of it is left to chance. The last one ends
        with the time for retries.
        """
        now_s = monotonic()
        if not pending.failures:
            pending.failing_since_s = now_s
        pending.failures += 1
        pending.failure = failure
        left_s = pending.failing_since_s + self._retry_for_s - now_s
        is_last = self._retries is not None and pending.failures > self._retries
        if is_last or left_s <= 0 or self._ended.is_set():
            return False
        if asked_s is None:
            doubled_s = self._first_pause_s * 2 ** min(pending.failures - 1, 16)
            asked_s = min(MAX_PAUSE_S, doubled_s) * _RANDOM.uniform(0.5, 1)
        pause_s = min(asked_s, MAX_RETRY_AFTER_S, left_s)
        if now_s - pending.failing_since_s + pause_s >= LONG_WAIT_S and not self._is_reported:
            self._is_reported = True
            place = redact_url(pending.url)
            sentence = "waiting for %s at %s, which %s; it is tried again for up to %s"
            log.warning(sentence, self._peer, place, failure, _duration(self._retry_for_s))
        return not wait(self._ended, pause_s)

    def reset(self) -> None:
        """Take note of an answer: the next wait is reported again."""
        if self._is_reported:
            self._is_reported = False
            log.info("%s answers again", self._peer)

    def end(self) -> None:
        """End every pause at once; no request is tried again from now on."""
        self._ended.set()


def wait(ended: threading.Event, seconds: float) -> bool:
    """Return whether `ended` was set, after `seconds` at most."""
    return ended.wait(seconds)


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= _TWO_MINUTES_S else f"{seconds:.0f} s"


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer asks to wait, None where it asks for none."""
    try:
        return Retry().parse_retry_after(headers["Retry-After"])
    except (KeyError, urllib3.exceptions.InvalidHeader):
        return None


class CountingAdapter(HTTPAdapter):
    """An adapter that counts its requests, and retries nothing by itself."""

    def __init__(self, connections: int, on_request: Callable[[], None]) -> None:
        """Call `on_request` for each request; a pool of `connections` blocks when used up."""
        self._on_request = on_request
        super().__init__(pool_connections=2, pool_maxsize=connections, pool_block=True)

    def send(
        self, request: requests.PreparedRequest, *args: Any, **kwargs: Any
    ) -> requests.Response:
        """Return the response to a request."""
        self._on_request()
        return super().send(request, *args, **kwargs)


def skew_s(date: str, sent_s: float, received_s: float) -> float | None:
    """Return how far ahead of ours a clock is that showed `date` between two moments of ours.

    A date has whole seconds, and its moment lies between the two; a difference that this may
    explain is no skew. None for a text that is no date.
    """
    try:
        server_s = parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
    least, most = server_s - received_s, server_s + 1 - sent_s
    return least if least > 0 else min(most, 0.0)


def loopback_without_proxy(url: str) -> dict[str, str] | None:
    """Return requests' way to say "no proxy" where `url` is on this machine's loopback."""
    try:
        host = (urlsplit(url).hostname or "").lower()
    except ValueError:
        return None
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = host == "localhost" or host.endswith(".localhost")
    return {"no_proxy": host} if loopback else None
