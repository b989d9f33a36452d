"""The requests session behind `http.py`: its credentials, proxies and retries."""

import io
import ipaddress
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http.client import HTTPResponse
from math import inf
from random import SystemRandom
from time import monotonic
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.util.retry import Retry

from mlcat_ingest.core.redaction import redact_url

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LATE: Final = 408
"""The status of an answer that did not come in time, from a proxy or from nobody."""

TIMEOUTS: Final = frozenset({LATE, 504})
"""The statuses after which a server may still work on a request; 504 is a proxy's."""

UNAVAILABLE: Final = TIMEOUTS | {429, 502, 503}
MAX_RETRY_AFTER_S: Final = 120.0

MAX_PAUSE_S: Final = 10.0
"""The longest pause between two attempts, unless the server asks for another one."""

ENCODINGS: Final = ("gzip", "deflate")
"""The encodings of an answer: a part of one grows to a thousand times its size at most."""

HEADERS: Final = {"Accept": "application/json", "Accept-Encoding": ", ".join(ENCODINGS)}
"""The headers of a request to any address."""

MAX_ANSWER_BYTES: Final = 256 * 1024 * 1024
"""The longest answer, as it is sent and as it is decoded; a large page of a listing has 50 MB."""

MAX_ANSWER_S: Final = 300.0
"""The longest time from the first byte of an answer to its last."""

MAX_REFUSED_S: Final = 60.0
"""The longest time for which credentials are tried again that a service accepted before."""

FIRST_CONTACT_S: Final = 5.0
"""The longest time for which a server is tried again that has not answered: its address may be
wrong."""

LONG_WAIT_S: Final = 3.0
"""Seconds from which on a wait for further attempts is reported."""

_Origin = tuple[str, str, int]
"""Scheme, host and port."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_TWO_MINUTES_S: Final = 120
_RANDOM: Final = SystemRandom()  # the state of `random` belongs to the user's program

REACHED: Final[set[str]] = set()
"""The addresses that have answered in this process."""

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
    first. `renew` returns what signs in now: a token's file may have another one than at first.
    `variables` are those of the environment that hold the user name and the password, if any do.
    """

    auth: AuthBase | None = field(default=None, repr=False)
    renew: Callable[[], AuthBase | None] | None = field(default=None, repr=False)
    variables: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trust: Trust = field(default_factory=Trust)
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 60.0
    retry_for_s: float = 10.0
    retries: int | None = None
    connections: int = 8


@dataclass(frozen=True)
class BearerAuth(AuthBase):
    """Puts ``Authorization: Bearer <token>`` on each request and shows the token nowhere."""

    _token: str = field(repr=False)

    def __call__(self, r: requests.PreparedRequest) -> requests.PreparedRequest:
        """Return the request with its header."""
        r.headers["Authorization"] = f"Bearer {self._token}"
        return r


def no_auth(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return a request as it is; that there is something to sign it keeps ~/.netrc unread."""
    return request


class OwnSession(requests.Session):
    """A session for one service: no other address gets its credentials by a redirect.

    They are whatever its owner or its service put on a request: `auth`, headers, cookies, and the
    client certificate. `sent` counts its requests, redirects included.
    """

    _home: _Origin = ("", "", 0)
    sent = 0

    def __init__(self, connections: int) -> None:
        """Keep so many connections; who needs a further one waits."""
        super().__init__()
        self._counting = threading.Lock()
        adapter = _LimitingAdapter(pool_connections=2, pool_maxsize=connections, pool_block=True)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

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
            request.headers.update(HEADERS)
            if proxy:
                request.headers["Proxy-Authorization"] = proxy
        with self._counting:
            self.sent += 1
        return super().send(request, **kwargs)

    def is_home(self, url: str | None) -> bool:
        """Return whether `url` has the scheme, host and port of the service."""
        return _origin(url) == self._home

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return where an answer redirects to; its body has nothing for us, and is not read."""
        target = super().get_redirect_target(resp)
        if target is not None:
            resp.close()
        return target

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
    what: str = ""
    failures: int = 0
    failure: str = ""
    failing_since_s: float = 0.0


@dataclass(eq=False)
class RetryPolicy:
    """The pauses between attempts of requests to one service; safe for several threads.

    A request is tried again for `retry_for_s` after its first failure, and `retries` times at most
    where that is given; for `FIRST_CONTACT_S` at most until the service has answered. `peer` names
    the service in the log, `address` is without secrets.
    """

    peer: str
    address: str
    retry_for_s: float
    retries: int | None
    first_pause_s: float
    _is_reported = False

    def __post_init__(self) -> None:
        self._ended = threading.Event()

    @property
    def was_reached(self) -> bool:
        """Tell whether the service has answered any client of this process."""
        return self.address in REACHED

    def note_answer(self) -> None:
        """Remember that the service has answered."""
        REACHED.add(self.address)

    def pause(
        self,
        pending: PendingRequest,
        failure: str,
        asked_s: float | None = None,
        within_s: float = inf,
    ) -> bool:
        """Return True when it is time for the next attempt, False at once where none is left.

        The pause is as long as the service asks, but no longer than `MAX_RETRY_AFTER_S`; else it
        doubles up to `MAX_PAUSE_S`, and at most half of it is left to chance. The last one ends
        with the time for retries, or `within_s`.
        """
        patience_s = inf if self.was_reached else FIRST_CONTACT_S
        retry_for_s = min(self.retry_for_s, within_s, patience_s)
        now_s = monotonic()
        if not pending.failures:
            pending.failing_since_s = now_s
        pending.failures += 1
        pending.failure = failure
        left_s = pending.failing_since_s + retry_for_s - now_s
        is_last = self.retries is not None and pending.failures > self.retries
        if is_last or left_s <= 0 or self._ended.is_set():
            return False
        if asked_s is None:
            doubled_s = self.first_pause_s * 2 ** min(pending.failures - 1, 16)
            asked_s = min(MAX_PAUSE_S, doubled_s) * _RANDOM.uniform(0.5, 1)
        pause_s = min(asked_s, MAX_RETRY_AFTER_S, left_s)
        if now_s - pending.failing_since_s + pause_s >= LONG_WAIT_S and not self._is_reported:
            self._is_reported = True
            place = redact_url(pending.url)
            sentence = "waiting for %s at %s, which %s; it is tried again for up to %s"
            log.warning(sentence, self.peer, place, failure, _duration(retry_for_s))
        return not wait(self._ended, pause_s)

    def reset(self) -> None:
        """Take note of an answer: the next wait is reported again."""
        if self._is_reported:
            self._is_reported = False
            log.info("%s answers again", self.peer)

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


class EndlessAnswerError(Exception):
    """An answer passes a limit; the text says which, behind "the answer"."""

    @classmethod
    def check_size(cls, size: int) -> None:
        """Return if an answer may have so many bytes.

        Raises:
            EndlessAnswerError: it may not.
        """
        if size > MAX_ANSWER_BYTES:
            raise cls(f"has more than {MAX_ANSWER_BYTES // 1024**2} MiB")


class _LimitedFile(io.RawIOBase):
    """The bytes of one answer, its head included, as they come from the connection."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw = raw
        self._size = 0
        self._end_s: float | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int | None:
        # The socket's own timeout bounds the wait for these bytes, the first ones included.
        count = self._raw.readinto(buffer)
        now_s = monotonic()
        if self._end_s is None:
            self._end_s = now_s + MAX_ANSWER_S
        elif now_s > self._end_s:
            raise EndlessAnswerError(f"takes more than {_duration(MAX_ANSWER_S)}")
        self._size += count or 0
        EndlessAnswerError.check_size(self._size)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _LimitedResponse(HTTPResponse):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fp = io.BufferedReader(_LimitedFile(self.fp.detach()))


def _limited(pool: type[HTTPConnectionPool]) -> type[HTTPConnectionPool]:
    connection = type("Connection", (pool.ConnectionCls,), {"response_class": _LimitedResponse})
    return type("Pool", (pool,), {"ConnectionCls": connection})


_POOLS: Final = {"http": _limited(HTTPConnectionPool), "https": _limited(HTTPSConnectionPool)}


class _LimitingAdapter(HTTPAdapter):
    """An adapter that limits the answers to its requests, and retries nothing by itself."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, proxy: str, **kwargs: Any) -> urllib3.ProxyManager:
        manager: urllib3.ProxyManager = super().proxy_manager_for(proxy, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager


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
