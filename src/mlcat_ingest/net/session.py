"""The requests session behind `http.py`: its credentials, proxies and retries."""

import ipaddress
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.auth import AuthBase
from urllib3.util.retry import Retry

from mlcat_ingest.net.certificates import Trust

RETRIED_STATUSES: Final = frozenset({429, 502, 503, 504})
MAX_RETRY_AFTER_S: Final = 120
MAX_BACKOFF_S: Final = 30


_LASTING: Final = ("CERTIFICATE_VERIFY_FAILED", "WRONG_VERSION_NUMBER")

LONG_WAIT_S: Final = 5
"""Seconds from which on a wait that a server asks for is said."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HttpOptions:
    """How requests are sent; `connections` bounds those in flight.

    The timeouts bound each attempt, `retries` the attempts after the first.
    """

    auth: AuthBase | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    trust: Trust = field(default_factory=Trust)
    connect_timeout_s: float = 5.0
    read_timeout_s: float = 60.0
    retries: int = 5
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
    """A session that takes credentials from its owner only, on redirects too."""

    def rebuild_auth(
        self, prepared_request: requests.PreparedRequest, response: requests.Response
    ) -> None:
        """Take the credentials off a request that goes to another host."""
        # The base class would then look the new host up in ~/.netrc.
        old, new = response.request.url or "", prepared_request.url or ""
        if self.should_strip_auth(old, new):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)


@dataclass(slots=True)
class PendingRequest:
    """A request of one thread, and how many of its attempts failed so far."""

    url: str
    began_s: float
    failures: int = 0


class CountedRetry(Retry):
    """Retries connects and statuses, and waits no longer than `MAX_RETRY_AFTER_S` when asked to."""

    # Every retry makes a new object, so what a thread's failures were is kept beside them, and of
    # whom it asks.
    failures: ClassVar[threading.local] = threading.local()

    def increment(
        self,
        method: str | None = None,
        url: str | None = None,
        response: Any = None,
        error: Exception | None = None,
        _pool: Any = None,
        _stacktrace: Any = None,
    ) -> Self:
        """Return the budget after one more failure; one that cannot pass ends it at once."""
        self.failures.count = getattr(self.failures, "count", 0) + 1
        self.failures.pending.failures += 1
        if error is not None and any(one in str(error) for one in _LASTING):
            # No later attempt will meet another certificate, or another protocol.
            raise urllib3.exceptions.MaxRetryError(_pool, url or "", error)
        return super().increment(method, url, response, error, _pool, _stacktrace)

    def get_retry_after(self, response: Any) -> float | None:
        """Return the seconds that the server asks for, capped."""
        wait_s = super().get_retry_after(response)
        return None if wait_s is None else min(wait_s, MAX_RETRY_AFTER_S)

    def sleep_for_retry(self, response: Any) -> bool:
        """Wait as long as the server asks for, and say so where that is long."""
        wait_s = self.get_retry_after(response) or 0
        if wait_s >= LONG_WAIT_S:
            sentence = "%s answers %d and asks for a pause of %d s"
            log.warning(sentence, self.failures.peer, response.status, wait_s)
        return super().sleep_for_retry(response)


class BudgetedAdapter(HTTPAdapter):
    """An adapter whose retries each thread sets before it sends."""

    def __init__(
        self, peer: str, connections: int, backoff_s: float, retried: frozenset[int]
    ) -> None:
        """Keep who is asked, the first pause between attempts, and the statuses to retry.

        A pool of `connections` blocks when used up.
        """
        self._peer = peer
        self._retried = retried
        self._budget = threading.local()
        self._backoff_s = backoff_s
        super().__init__(pool_connections=2, pool_maxsize=connections, pool_block=True)

    def allow(self, attempts: int, pending: PendingRequest) -> None:
        """Let this thread's next request be tried again `attempts` times; count in `pending`."""
        self._budget.attempts = attempts
        CountedRetry.failures.count = 0
        CountedRetry.failures.peer = self._peer
        CountedRetry.failures.pending = pending

    def failures(self) -> int:
        """Return how many attempts of this thread failed since `allow`."""
        return int(getattr(CountedRetry.failures, "count", 0))

    @property
    def max_retries(self) -> Retry:
        """The retries left in this thread's budget."""
        return CountedRetry(
            total=getattr(self._budget, "attempts", 0),
            status_forcelist=self._retried,
            allowed_methods=None,
            raise_on_status=False,
            redirect=False,
            backoff_factor=self._backoff_s,
            backoff_jitter=self._backoff_s,
            backoff_max=MAX_BACKOFF_S,
            respect_retry_after_header=True,
        )

    @max_retries.setter
    def max_retries(self, value: object) -> None:
        """Ignore what the base class sets: the budget is per thread."""


def attempts_of(response: requests.Response) -> int:
    """Return how many requests were sent for one response."""
    retries = response.raw.retries
    return 1 + (len(retries.history) if retries is not None else 0)


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
