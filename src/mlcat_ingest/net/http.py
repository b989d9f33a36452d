"""The one HTTP seam: a pooled session with retries, TLS, proxies, timeouts and plain errors.

Every request of this package to MLflow or to a catalog service goes through `Http`. There is one
retry loop: urllib3's `Retry` for connects and statuses, and, out of the same budget, bodies that
break off or stall while they are read, which `Retry` does not see. All methods are retried, since
proposals are idempotent upserts and everything else only reads.
"""

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import requests
import urllib3
from requests.auth import AuthBase, HTTPBasicAuth

from mlcat_ingest.core.pending import UnansweredRequest
from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.core.resources import Closing
from mlcat_ingest.errors import (
    AuthenticationError,
    CodecError,
    MlcatError,
    ProtocolMismatchError,
    RateLimitedError,
    RecipeError,
    RetryableError,
)
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.net.reachability import no_answer_of, wants_tls
from mlcat_ingest.net.session import (
    MAX_BACKOFF_S,
    RETRIED_STATUSES,
    BudgetedAdapter,
    HttpOptions,
    NoAuth,
    OwnSession,
    PendingRequest,
    attempts_of,
    loopback_without_proxy,
    skew_s,
)

log = logging.getLogger(__name__)

_BROKEN_BODY: Final = (
    requests.ConnectionError,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)
_UNUSABLE_URL: Final = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
)

Params = Mapping[str, str] | list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply, read to its end; `peer` and `url` (without credentials) are for messages."""

    status: int
    headers: Mapping[str, str]
    content: bytes
    peer: str
    url: str

    @property
    def ok(self) -> bool:
        """Tell whether the status is below 400."""
        return self.status < 400

    @property
    def is_page(self) -> bool:
        """Tell whether the body is a web page: by its header, and by how it begins."""
        kind = self.headers.get("Content-Type", "").lower()
        # MLflow's own /version calls its plain text HTML.
        return kind.startswith("text/html") and self.content.lstrip()[:1] == b"<"

    def json(self) -> Any:
        """Return the body as JSON.

        Raises:
            ProtocolMismatchError: the body is not JSON.
        """
        try:
            return loads(self.content)
        except CodecError as error:
            start = self.content[:60].decode("utf-8", "replace")
            raise ProtocolMismatchError(
                f"{self.peer} answered {self.status} with something that is not JSON at "
                f"{self.url}: {start!r}",
                hint="check that the address is that of the service itself",
            ) from error


class Http(Closing):
    """One service at one base address, over connections that are kept alive.

    `peer` names the service in messages; `unavailable` is raised when it does not answer.
    `backoff_s` is the first pause between attempts and doubles; an answer with a status of
    `retried` is asked for again. A user name and password in the
    address serve where `options` has no `auth`, and are in no message. The proxies of the
    environment are used for all but this machine's loopback addresses. Safe to use from several
    threads.
    """

    def __init__(
        self,
        base_url: str,
        *,
        peer: str,
        unavailable: type[RetryableError],
        options: HttpOptions | None = None,
        backoff_s: float = 0.3,
        retried: frozenset[int] = RETRIED_STATUSES,
    ) -> None:
        """Prepare the session of one service, with its credentials, retries and proxies."""
        options = options or HttpOptions()
        self.base_url, user_auth = _without_user_info(base_url.rstrip("/"))
        self.peer = peer
        self._unavailable = unavailable
        self._timeout = (options.connect_timeout_s, options.read_timeout_s)
        self._retries = options.retries
        self._backoff_s = backoff_s
        self._lock = threading.Lock()
        self._requests_made = 0
        self._pending: dict[int, PendingRequest] = {}
        self._server_date: tuple[str, float, float] | None = None
        self._session = OwnSession()
        self._session.auth = options.auth or user_auth or NoAuth()
        self._session.headers.update({"Accept": "application/json", **options.headers})
        self._verify = options.trust.verify
        self._session.cert = options.trust.cert
        self._proxies = loopback_without_proxy(self.base_url)
        self._adapter = BudgetedAdapter(peer, options.connections, backoff_s, retried)
        self._session.mount("http://", self._adapter)
        self._session.mount("https://", self._adapter)
        if self._verify is False:
            log.warning("the TLS certificate of %s is not verified", peer)
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    @property
    def requests_made(self) -> int:
        """How many requests were sent, retries and redirects included."""
        return self._requests_made

    @property
    def clock_skew_s(self) -> float | None:
        """How many seconds the server's clock is ahead of ours; None before a reply has a date."""
        return None if self._server_date is None else skew_s(*self._server_date)

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Return the reply to one request, after as many attempts as the budget allows.

        `path` is appended to the base address as it is, already percent-encoded. Statuses that
        are not listed below are returned for the caller to judge.

        Raises:
            RetryableError: of the class given as `unavailable`: no answer, or a broken one.
            RateLimitedError: still 429 after the last attempt.
            AuthenticationError: 401, or an HTML page where the service itself would send JSON, or
                a redirect to another page.
            ProtocolMismatchError: a redirect that would change the request.
            RecipeError: the address, or a header, cannot be sent.
        """
        url = self.base_url + path
        pending = PendingRequest(url, time.monotonic())
        with self._lock:
            self._pending[id(pending)] = pending
        try:
            return self._send_with_retries(pending, method, params, body, headers or {})
        finally:
            with self._lock:
                del self._pending[id(pending)]

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request that waits longest for its answer, None where there is none."""
        with self._lock:
            oldest = min(self._pending.values(), key=attrgetter("began_s"), default=None)
        if oldest is None:
            return None
        seconds = time.monotonic() - oldest.began_s
        return UnansweredRequest(redact_url(oldest.url), seconds, is_retried=oldest.failures > 0)

    def _send_with_retries(
        self,
        pending: PendingRequest,
        method: str,
        params: Params | None,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> Reply:
        url = pending.url
        sent = {"Content-Type": "application/json"} if body is not None else {}
        left = self._retries
        while True:
            try:
                self._adapter.allow(left, pending)
                response = self._send(method, url, params, body, {**sent, **headers})
            except _BodyBrokenError as broken:
                pending.failures += 1
                left -= broken.attempts
                if left < 0:
                    raise self._no_answer(url, broken.cause) from broken.cause
                done = self._retries - left
                time.sleep(min(MAX_BACKOFF_S, self._backoff_s * 2 ** (done - 1)))
            except (requests.RequestException, ValueError) as error:
                failure = self._failure(url, error)
                if failure is None:
                    raise
                # The causes of a RecipeError repeat the address or header, secrets included.
                raise failure from None if isinstance(failure, RecipeError) else error
            else:
                status, content = response.status_code, response.content
                reply = Reply(status, response.headers, content, self.peer, redact_url(url))
                self._check(reply)
                return reply

    def _send(
        self,
        method: str,
        url: str,
        params: Params | None,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> requests.Response:
        sent_s = time.time()
        try:
            response = self._session.request(
                method,
                url,
                params=params,
                data=body,
                headers=headers,
                timeout=self._timeout,
                verify=self._verify,
                proxies=self._proxies,
                # requests turns a redirected POST into a GET, which would look like a success.
                allow_redirects=method in {"GET", "HEAD"},
                stream=True,
            )
        except requests.RequestException:
            self._count(self._adapter.failures())
            raise
        if date := response.headers.get("Date"):
            self._server_date = date, sent_s, time.time()
        attempts = sum(map(attempts_of, (response, *response.history)))
        self._count(attempts)
        try:
            _ = response.content
        except _BROKEN_BODY as error:
            response.close()
            raise _BodyBrokenError(attempts, error) from error
        return response

    def _count(self, attempts: int) -> None:
        with self._lock:
            self._requests_made += attempts

    def _check(self, reply: Reply) -> None:
        if reply.status == 401:
            raise AuthenticationError(
                f"{self.peer} at {reply.url} refused the credentials (401)",
                hint="check the token, or the user name and password",
                context={"status": reply.status},
            )
        if wants_tls(reply.status, reply.content):
            raise ProtocolMismatchError(
                f"{self.peer} at {reply.url} does not speak http",
                hint="use https:// in the address, or another port",
            )
        if reply.is_page and reply.status in {200, 403}:
            raise AuthenticationError(
                f"{self.peer} at {reply.url} answered with a web page instead of JSON",
                hint="a login page may protect the service; configure credentials that it accepts",
                context={"status": reply.status},
            )
        if reply.status == 429:
            raise RateLimitedError(
                f"{self.peer} at {reply.url} still rejects requests (429)",
                hint="try again later, or use fewer connections",
            )
        if 300 <= reply.status < 400:
            raise self._redirect_error(reply)

    def _redirect_error(self, reply: Reply) -> MlcatError:
        target = redact_url(urljoin(reply.url, reply.headers.get("Location", "")))
        sentence = f"{self.peer} at {reply.url} redirects to {target}"
        if urlsplit(target).path.rstrip("/") == urlsplit(reply.url).path.rstrip("/"):
            return ProtocolMismatchError(sentence, hint="use that address")
        return AuthenticationError(
            sentence,
            hint="a login page may protect the service; configure credentials that it accepts",
            context={"status": reply.status},
        )

    def _failure(self, url: str, error: Exception) -> MlcatError | None:
        """Return the error that stands for one of requests; None for a fault of our own."""
        if isinstance(error, _UNUSABLE_URL):
            return RecipeError(f"invalid address of {self.peer}: {redact_url(url)}")
        if isinstance(error, requests.exceptions.InvalidHeader | UnicodeEncodeError) or (
            str(error).startswith("Invalid header")
        ):
            return RecipeError(
                f"a credential or header for {self.peer} contains characters that HTTP does "
                "not allow",
                hint="remove a line break at the end of the token",
            )
        return self._no_answer(url, error) if isinstance(error, requests.RequestException) else None

    def _no_answer(self, url: str, error: Exception) -> RetryableError:
        # After a redirect it is another address than ours that does not answer.
        url = getattr(getattr(error, "request", None), "url", None) or url
        failure = no_answer_of(error, url)
        return self._unavailable(
            f"{self.peer} at {redact_url(url)} {failure.what}", hint=failure.hint
        )

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        self._session.close()


class _BodyBrokenError(Exception):
    """Never leaves this module: a body broke off or stalled after `attempts` requests."""

    def __init__(self, attempts: int, cause: Exception) -> None:
        super().__init__(str(cause))
        self.attempts = attempts
        self.cause = cause


def _without_user_info(url: str) -> tuple[str, AuthBase | None]:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url, None
    user_info, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, None
    user, _, password = user_info.partition(":")
    bare = urlunsplit(parts._replace(netloc=host))
    return bare, HTTPBasicAuth(unquote(user).encode(), unquote(password).encode())
