"""The one HTTP seam: a pooled session with retries, TLS, proxies, timeouts and plain errors.

Every request of this package to MLflow or to a catalog service goes through `Http`. There is one
retry loop, for connects, statuses, and bodies that break off or stall while they are read. All
methods are retried, since proposals are idempotent upserts and everything else only reads. What
arrives garbled was answered, so that only a read is repeated, and once.
"""

import logging
import os
import re
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus
from operator import attrgetter
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit, urlunsplit

import requests
import urllib3
from requests.auth import AuthBase, HTTPBasicAuth
from requests.utils import get_environ_proxies, select_proxy

from mlcat_ingest.core.findings import Finding, UnansweredRequest
from mlcat_ingest.core.redaction import redact_url, redact_urls
from mlcat_ingest.core.resources import Closing
from mlcat_ingest.core.text import first_line
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
from mlcat_ingest.net.session import (
    ENCODINGS,
    HEADERS,
    LATE,
    MAX_REFUSED_S,
    UNAVAILABLE,
    EndlessAnswerError,
    HttpOptions,
    OwnSession,
    PendingRequest,
    RetryPolicy,
    loopback_without_proxy,
    no_auth,
    retry_after_s,
    skew_s,
)

MAX_SKEW_S: Final = 5.0
"""Seconds that a server's clock may be off before it is worth a warning."""

_HANDSHAKE_S: Final = 2.0
_SPEAKS_TLS: Final = (
    b"plain HTTP request was sent to HTTPS port",
    b"HTTP request to an HTTPS server",
    b"speaking plain HTTP to an SSL-enabled server port",
)
"""The answers of nginx, Go's server and Apache to http on a port of https."""

_USE_HTTPS: Final = "use https:// in the address, or another port"
_LOGIN_PAGE: Final = "a login page may protect the service; configure credentials that it accepts"
_CERTIFICATE: Final = "CERTIFICATE_VERIFY_FAILED.*"
_UNKNOWN_HOST: Final = "unknown host"
_CURES: Final = {
    f"{_UNKNOWN_HOST}|name resolution": "check the address and this machine's DNS",
    f"{_CERTIFICATE}(expired|not yet valid)": "renew the certificate, or set this machine's clock",
    f"{_CERTIFICATE}(mismatch|not valid for)": "use the name that the certificate is for",
    _CERTIFICATE: "set `ca_bundle` to the PEM file of the authority that signed the certificate",
    "": "check that it is running and the address is correct",
}
"""The cure of a cause by its pattern; the first match counts."""


def clock(name: str, skew_s: float | None) -> Finding:
    """Return the finding about a server's clock, `skew_s` seconds ahead of ours."""
    what = f"{name} clock"
    if skew_s is None:
        return Finding(what, "warning", "the server does not report its time")
    if abs(skew_s) <= MAX_SKEW_S:
        return Finding(what, "ok", "as this machine's")
    way = "ahead of" if skew_s > 0 else "behind"
    return Finding(
        what,
        "warning",
        f"{abs(skew_s):,.0f} s {way} this machine's",
        "synchronize both by NTP: incremental runs rely on these clocks",
    )


class _NoAnswer(NamedTuple):
    """The failure of a service to answer, as the rest of a sentence about it; and the cure.

    A wrong address, certificate or protocol stays wrong: such a failure `is_lasting`.
    """

    what: str
    hint: str
    is_lasting: bool = False


def _no_answer_of(error: BaseException, url: str) -> _NoAnswer:
    """Return why a request to `url` got no answer.

    Cost: one handshake where http was spoken to a port that hung up.
    """
    chain = _chain(error)
    cause = _sentence(chain[-1])
    if isinstance(error, requests.TooManyRedirects):
        return _NoAnswer(
            f"redirect loop: {cause}",
            "check that the address is that of the service itself",
            is_lasting=True,
        )
    if isinstance(error, requests.exceptions.ProxyError):
        proxy, variable = _proxy(url)
        return _NoAnswer(
            f"cannot be reached through the proxy {proxy} of {variable}: {cause}",
            f"correct {variable}, or add the host to NO_PROXY",
        )
    if "WRONG_VERSION_NUMBER" in cause:
        return _NoAnswer(
            f"does not speak https: {cause}",
            "use http:// in the address, or another port",
            is_lasting=True,
        )
    if any(isinstance(inner, ConnectionError) for inner in chain) and _shows_certificate(url):
        return _NoAnswer(
            f"does not speak http: {cause}",
            _USE_HTTPS,
            is_lasting=True,
        )
    hint = next(cure for pattern, cure in _CURES.items() if re.search(pattern, cause))
    is_lasting = cause == _UNKNOWN_HOST or "CERTIFICATE_VERIFY" in cause
    return _NoAnswer(f"does not answer: {cause}", hint, is_lasting)


def _shows_certificate(url: str) -> bool:
    """Return whether the port of an http address speaks TLS."""
    parts = urlsplit(url)
    if parts.scheme != "http":
        return False
    try:
        address = (parts.hostname or "", parts.port or 80)
        return bool(ssl.get_server_certificate(address, timeout=_HANDSHAKE_S))
    except OSError:
        return False


def _proxy(url: str) -> tuple[str, str]:
    """Return the proxy of a request to `url`, and the variable that names it."""
    proxy = str(select_proxy(url, get_environ_proxies(url)) or "")
    names = (f"{urlsplit(url).scheme}_proxy", "all_proxy")
    variables = [case(name) for name in names for case in (str.upper, str)]
    variable = next((name for name in variables if os.environ.get(name) == proxy), variables[0])
    return redact_url(proxy), variable


def _chain(error: BaseException) -> list[BaseException]:
    """Return an error and the errors that it wraps, the innermost last."""
    chain = [error]
    while True:
        inner: Any = getattr(chain[-1], "reason", None)
        if not isinstance(inner, BaseException):
            inner = next((arg for arg in chain[-1].args if isinstance(arg, BaseException)), None)
        if inner is None:
            return chain
        chain.append(inner)


def _sentence(error: BaseException) -> str:
    """Return a network error as a short sentence."""
    text = (str(error) or type(error).__name__).rpartition("): ")[2]
    text = text.split(": ", 1)[1] if "object at 0x" in text and ": " in text else text
    if "Temporary failure in name resolution" in text:
        text = "temporary failure in name resolution"
    # The name in the address says it better than urllib3's wording of a failed look-up.
    elif "Name or service not known" in text or "Failed to resolve" in text:
        text = _UNKNOWN_HOST
    return redact_urls(text)


log = logging.getLogger(__name__)

_NO_ANSWER: Final = (
    requests.ConnectionError,
    requests.Timeout,
    requests.exceptions.ChunkedEncodingError,
    requests.exceptions.ContentDecodingError,
)
_TIMEOUTS: Final = (requests.ReadTimeout, urllib3.exceptions.ReadTimeoutError)
_PART_BYTES: Final = 65_536

_UNUSABLE_URL: Final = (
    requests.exceptions.InvalidURL,
    requests.exceptions.InvalidSchema,
    requests.exceptions.MissingSchema,
)

Params = Mapping[str, str] | list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply, read to its end; `peer` and `url` (without credentials) are for messages.

    `again` asks once more, where that is harmless; what it returns says so by `twice`, the words of
    a message that a second request got no better reply.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes
    peer: str
    url: str
    again: "Callable[[], Reply] | None" = field(default=None, repr=False, compare=False)
    twice: str = ""

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

    @property
    def body_line(self) -> str:
        """The first line of a text or web page behind a colon, empty for JSON and for no body."""
        line = "" if self.content.lstrip()[:1] in b"{[" else first_line(self.content)
        return f": {line}" if line else ""

    def json(self) -> Any:
        """Return the body as JSON; one that is cut or garbled is asked for once more.

        Raises:
            ProtocolMismatchError: the body is not JSON; and what a second request raises.
        """
        try:
            return loads(self.content)
        except CodecError as error:
            if self.again is not None and (second := self.again()).ok:
                return second.json()
            start = self.content[:60].decode("utf-8", "replace")
            raise ProtocolMismatchError(
                f"{self.peer} answered {self.status} with something that is not JSON at "
                f"{self.url}{self.twice}: {start!r}",
                hint="check that the address is that of the service itself",
            ) from error


IsPassing = Callable[[Reply], bool]
"""Tells of an answer that another attempt may get a better one."""


def is_unavailable(reply: Reply) -> bool:
    """Return whether a service answers that it is overloaded, or away."""
    return reply.status in UNAVAILABLE


def _credentials_hint(auth: object, challenge: str, variables: Sequence[str]) -> str:
    """Return the cure of a 401 with the header `WWW-Authenticate: <challenge>`."""
    if isinstance(auth, HTTPBasicAuth):
        if auth.password == auth.password.strip():
            return "check the user name and password"
        return "the password begins or ends with a blank or a line break: remove it at its origin"
    if re.search(r"\bbasic\b", challenge, re.IGNORECASE):
        cure = ", or ".join(filter(None, ("`username` and `password`", " and ".join(variables))))
        return f"it wants a user name and a password, no token: set {cure}"
    return "check the token"


def is_read_failure(reply: Reply) -> bool:
    """Return whether a service fails to read: it is no fault of the request."""
    return is_unavailable(reply) or reply.status == HTTPStatus.INTERNAL_SERVER_ERROR


class Http(Closing):
    """One service at one base address, over connections that are kept alive.

    `peer` names the service in messages; `unavailable` is raised when it does not answer.
    `backoff_s` is the first pause between attempts and doubles. `reads` says that requests only
    read, if they do not say otherwise themselves. A user name and password in the address are used
    if `options` has no `auth`, and are in no message. The proxies of the environment are used,
    except for loopback addresses. Safe to use from several threads.
    """

    def __init__(
        self,
        base_url: str,
        *,
        peer: str,
        unavailable: type[RetryableError],
        options: HttpOptions,
        backoff_s: float = 0.3,
        reads: bool = False,
    ) -> None:
        self.base_url, user_auth = _without_user_info(base_url.rstrip("/"))
        self.peer = peer
        self._unavailable = unavailable
        self._options = options
        self._reads = reads
        self._retry = RetryPolicy(
            peer,
            self.base_url,
            retry_for_s=options.retry_for_s,
            retries=options.retries,
            first_pause_s=backoff_s,
        )
        self._lock = threading.Lock()
        self._has_served = False
        self._pending: dict[int, PendingRequest] = {}
        self._server_date: tuple[str, float, float] | None = None
        self._session = OwnSession(options.connections)
        self._session.auth = options.auth or user_auth or no_auth
        self._accepted_s: float | None = None
        self._session.headers.update({**HEADERS, **options.headers})
        self._session.cert = options.trust.cert
        self._proxies = loopback_without_proxy(self.base_url)
        if options.trust.verify is False:
            log.warning("the TLS certificate of %s is not verified", peer)
            urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

    def requests_made(self) -> int:
        """How many requests were sent, retries and redirects included."""
        return self._session.sent

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
        is_passing: IsPassing | None = None,
        reads: bool | None = None,
        what: str = "",
    ) -> Reply:
        """Return the reply to one request, after as many attempts as the options allow.

        `what` names what is asked for to who waits for it.

        `path` is appended to the base address as it is, already percent-encoded. `is_passing` says
        which answers are worth another attempt. A request that `reads` is also sent once more for a
        success with a garbled body, which may be a proxy's. Statuses that are not listed below are
        returned for the caller to judge.

        Raises:
            RetryableError: of the class given as `unavailable`: no answer, or a broken one. The
                `status` in its context is `LATE` after a timeout.
            RateLimitedError: still 429 after the last attempt.
            AuthenticationError: 401, or an HTML page where the service itself would send JSON, or
                a redirect to another page.
            ProtocolMismatchError: a redirect that would change the request, or an answer that
                passes a limit.
            RecipeError: the address, or a header, cannot be sent.
        """
        reads = self._reads if reads is None else reads
        url = self.base_url + path
        sent = {"Content-Type": "application/json"} if body is not None else {}
        send = partial(self._send, method, url, params, body, {**sent, **(headers or {})})
        is_passing = is_passing or (is_read_failure if reads else is_unavailable)
        reply = self._send_with_retries(url, what, send, is_passing)
        if reads and reply.status < 300:

            def again() -> Reply:
                second = self._send_with_retries(url, what, send, is_passing)
                return self._checked(replace(second, twice=", twice"))

            return again() if reply.is_page else self._checked(replace(reply, again=again))
        return self._checked(reply)

    def _send_with_retries(
        self, url: str, what: str, send: Callable[[], Reply], is_passing: IsPassing
    ) -> Reply:
        pending = PendingRequest(url, time.monotonic(), what)
        with self._lock:
            self._pending[id(pending)] = pending
        try:
            return self._until_answered(pending, send, is_passing)
        finally:
            with self._lock:
                del self._pending[id(pending)]

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request that waits longest for its answer, None where there is none."""
        with self._lock:
            oldest = min(self._pending.values(), key=attrgetter("began_s"), default=None)
        if oldest is None:
            return None
        # Retries end some time after the first failure: the same clock tells how long they last.
        since_s = oldest.failing_since_s if oldest.failures else oldest.began_s
        seconds = time.monotonic() - since_s
        address = redact_url(oldest.url)
        return UnansweredRequest(address, seconds, oldest.failure, self.peer, oldest.what)

    def end_waits(self) -> None:
        """End every pause between attempts; no request is tried again from now on."""
        self._retry.end()

    def _until_answered(
        self, pending: PendingRequest, send: Callable[[], Reply], is_passing: IsPassing
    ) -> Reply:
        while True:
            auth = self._session.auth
            try:
                reply = send()
            except EndlessAnswerError as error:
                raise ProtocolMismatchError(
                    f"the answer of {self.peer} at {redact_url(pending.url)} {error}",
                    hint="check that the address is that of the service itself, and its log",
                ) from None
            except (requests.RequestException, ValueError) as error:
                failure, passing = self._failure(pending.url, error)
                is_late = failure is not None and failure.context.get("status") == LATE
                if is_late and not is_passing(Reply(LATE, {}, b"", self.peer, pending.url)):
                    passing = ""  # the service may still work on it
                if passing and self._retry.pause(pending, passing):
                    continue
                if failure is None:
                    raise
                # The causes of a RecipeError repeat the address or header, secrets included.
                raise failure from None if isinstance(failure, RecipeError) else error
            if not self._should_retry(pending, reply, auth, is_passing):
                return reply

    def _should_retry(
        self, pending: PendingRequest, reply: Reply, auth: object, is_passing: IsPassing
    ) -> bool:
        """Return whether to send a request again that was signed by `auth`, after a pause."""
        if reply.status == HTTPStatus.UNAUTHORIZED and self._session.is_home(reply.url):
            return self._may_be_accepted(pending, auth)
        if is_passing(reply):
            throttled = " (throttled)" if reply.status == HTTPStatus.TOO_MANY_REQUESTS else ""
            words = f"answers {reply.status}{throttled}"
            return self._retry.pause(pending, words, retry_after_s(reply.headers))
        if reply.is_page and reply.ok and self._has_served:
            # After answers of the service itself it is a proxy's, as a 502 would be.
            return self._retry.pause(pending, "answers with a web page", within_s=MAX_REFUSED_S)
        self._has_served = self._has_served or (reply.ok and not reply.is_page)
        self._retry.reset()
        return False

    def _may_be_accepted(self, pending: PendingRequest, refused: object) -> bool:
        """Return whether to send a request again: signed in anew, or after a pause.

        A service that has lost its database refuses credentials that it has just accepted.
        """
        auth = None if self._options.renew is None else self._options.renew()
        if auth is not None and auth != self._session.auth:
            self._session.auth, self._accepted_s = auth, None
        if self._session.auth != refused:
            return True
        if self._accepted_s is None:
            return False
        words = f"refuses credentials that it accepted until {_clock_time(self._accepted_s)}"
        if pending.failure != words:
            pending.failures = 0  # how long it was away before is another wait
        return self._retry.pause(pending, words, within_s=MAX_REFUSED_S)

    def _send(
        self,
        method: str,
        url: str,
        params: Params | None,
        body: bytes | None,
        headers: Mapping[str, str],
    ) -> Reply:
        sent_s = time.time()
        response = self._session.request(
            method,
            url,
            params=params,
            data=body,
            headers=headers,
            timeout=(self._options.connect_timeout_s, self._options.read_timeout_s),
            verify=self._options.trust.verify,
            proxies=self._proxies,
            # requests turns a redirected POST into a GET, which would look like a success.
            allow_redirects=method in {"GET", "HEAD"},
            stream=True,
        )
        self._retry.note_answer()
        if date := response.headers.get("Date"):
            self._server_date = date, sent_s, time.time()
        if response.status_code < 300 and self._session.auth is not no_auth:
            self._accepted_s = time.time()
        with response:
            content = _content_of(response)
        # After a redirect it is another address than ours that answers.
        place = redact_url(response.url or url)
        return Reply(response.status_code, response.headers, content, self.peer, place)

    def _checked(self, reply: Reply) -> Reply:
        if reply.status == 401:
            raise self._refused_credentials(reply)
        if reply.status == 400 and any(words in reply.content for words in _SPEAKS_TLS):
            raise ProtocolMismatchError(
                f"{self.peer} at {reply.url} does not speak http", hint=_USE_HTTPS
            )
        if reply.is_page and reply.status in {200, 403}:
            what = f"answered with a web page instead of JSON{reply.twice}{reply.body_line}"
            raise self._refused_access(reply, what, _LOGIN_PAGE)
        if reply.status == 429:
            raise RateLimitedError(
                f"{self.peer} at {reply.url} still rejects requests (429)",
                hint="try again later, or use fewer connections",
            )
        if 300 <= reply.status < 400:
            target = redact_url(urljoin(reply.url, reply.headers.get("Location", "")))
            what = f"redirects to {target}"
            if urlsplit(target).path.rstrip("/") != urlsplit(reply.url).path.rstrip("/"):
                raise self._refused_access(reply, what, _LOGIN_PAGE)
            raise ProtocolMismatchError(
                f"{self.peer} at {reply.url} {what}", hint="use that address"
            )
        return reply

    def _refused_access(self, reply: Reply, what: str, hint: str) -> AuthenticationError:
        context = {"status": reply.status}
        return AuthenticationError(f"{self.peer} at {reply.url} {what}", hint=hint, context=context)

    def _refused_credentials(self, reply: Reply) -> AuthenticationError:
        accepted = ""
        hint = _credentials_hint(
            self._session.auth, reply.headers.get("WWW-Authenticate", ""), self._options.variables
        )
        if not self._session.is_home(reply.url):
            hint = "a redirect leads there, and credentials do not follow it; use that address"
        elif self._accepted_s is not None:
            accepted = f"; it accepted them until {_clock_time(self._accepted_s)}"
            hint = "renew them if they have expired; else see the service's log"
        what = f"refused the credentials (401){reply.body_line}{accepted}"
        return self._refused_access(reply, what, hint)

    def _failure(self, url: str, error: Exception) -> tuple[MlcatError | None, str]:
        """Return our error for an error of requests, and the failed step if a retry may help.

        The error is None for a fault of our own.
        """
        if isinstance(error, _UNUSABLE_URL):
            return RecipeError(f"invalid address of {self.peer}: {redact_url(url)}"), ""
        if isinstance(error, requests.exceptions.InvalidHeader | UnicodeEncodeError) or (
            str(error).startswith("Invalid header")
        ):
            refusal = RecipeError(
                f"a credential or header for {self.peer} contains characters that HTTP does "
                "not allow",
                hint="remove a line break at the end of the token",
            )
            return refusal, ""
        if not isinstance(error, requests.RequestException):
            return None, ""
        # After a redirect it is another address than ours that does not answer.
        url = getattr(getattr(error, "request", None), "url", None) or url
        answer = _no_answer_of(error, url)
        sentence = f"{self.peer} at {redact_url(url)} {answer.what}"
        # A name may be gone while its server is restarted, but it once led to one.
        is_lasting = answer.is_lasting and not self._retry.was_reached
        passes = isinstance(error, _NO_ANSWER) and not is_lasting
        is_late = any(isinstance(one, _TIMEOUTS) for one in _chain(error))
        context = {"status": LATE} if is_late else None
        unavailable = self._unavailable(sentence, hint=answer.hint, context=context)
        return unavailable, answer.what if passes else ""

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        self._session.close()


def _content_of(response: requests.Response) -> bytes:
    """Return the decoded body of an answer.

    Raises:
        EndlessAnswerError: it is too large, or packed so that a part of it may be.
    """
    encoding = response.headers.get("Content-Encoding", "").lower()
    if encoding not in {"", "identity", *ENCODINGS}:
        raise EndlessAnswerError(f"has the unwanted encoding {encoding!r}")
    parts: list[bytes] = []
    size = 0
    for part in response.iter_content(_PART_BYTES):
        size += len(part)
        EndlessAnswerError.check_size(size)
        parts.append(part)
    return b"".join(parts)


def _clock_time(time_s: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(time_s))


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
