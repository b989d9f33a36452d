"""One catalog service over HTTP: requests with the token on, refusals as errors without it."""

import threading
from collections.abc import Callable
from dataclasses import replace
from http import HTTPStatus

from requests.auth import AuthBase

from mlcat_ingest.client.rest.credentials import Credentials
from mlcat_ingest.client.rest.responses import (
    ADDRESS_HINT,
    TOO_LARGE_HINT,
    is_passing_read,
    server_message,
)
from mlcat_ingest.core.findings import RequestSide, UnansweredRequest
from mlcat_ingest.errors import (
    LACKS_PERMISSION,
    AuthenticationError,
    CatalogRequestError,
    CatalogUnavailableError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
)
from mlcat_ingest.net.http import Http, IsPassing, Reply, is_unavailable
from mlcat_ingest.net.session import TIMEOUTS, HttpOptions

PEER = "the catalog service"

# What DataHub's own clients say; its Rest.li resources choose their protocol by it.
_HEADERS = {"X-RestLi-Protocol-Version": "2.0.0", "User-Agent": "mlcat-ingest"}


class Connection(RequestSide):
    """The catalog service at one base address. Safe to use from several threads.

    The token, where there is one, is on every request and in no message.
    """

    def __init__(self, find: Callable[[], tuple[Credentials, HttpOptions]]) -> None:
        """Ask `find` for the address, the token and the options when they are needed first."""
        self._find = find
        self._lock = threading.Lock()
        self._found: tuple[Credentials, HttpOptions] | None = None
        self._opened: Http | None = None

    @property
    def _settings(self) -> tuple[Credentials, HttpOptions]:
        with self._lock:
            return self._found or self._look_up()

    def _look_up(self) -> tuple[Credentials, HttpOptions]:
        credentials, options = self._find()
        # Another way to sign in, such as a user name, serves where there is no token.
        auth = credentials.auth() or options.auth
        headers = {**_HEADERS, **options.headers}
        self._found = credentials, replace(options, auth=auth, headers=headers, renew=self._renew)
        return self._found

    def _renew(self) -> AuthBase | None:
        """Look for the token once more: who rotates it writes another one to where it is from."""
        with self._lock:
            return self._look_up()[1].auth

    @property
    def _http(self) -> Http:
        credentials, options = self._settings
        with self._lock:
            if self._opened is None:
                self._opened = Http(
                    credentials.server,
                    peer=PEER,
                    unavailable=CatalogUnavailableError,
                    options=options,
                )
            return self._opened

    @property
    def credentials(self) -> Credentials:
        """The address and the token; raises what finding them raises."""
        return self._settings[0]

    @property
    def connections(self) -> int:
        """Requests in flight at once, at most."""
        return self._settings[1].connections

    @property
    def server(self) -> str:
        """The base address, without a slash at its end."""
        return self.credentials.server

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request that waits longest for its answer; see `RequestSide`."""
        return None if self._opened is None else self._opened.pending_request()

    def end_waits(self) -> None:
        """End every pause between attempts."""
        if self._opened is not None:
            self._opened.end_waits()

    def requests_made(self) -> int:
        """Return how many requests were sent, retries included."""
        return 0 if self._opened is None else self._opened.requests_made()

    @property
    def clock_skew_s(self) -> float | None:
        """Seconds that the service's clock is ahead of ours, None before its first answer."""
        return None if self._opened is None else self._opened.clock_skew_s

    def read(self, path: str, body: bytes | None = None) -> Reply:
        """Return the reply to a GET of `path`, or to a POST of the JSON text `body` that reads.

        `path` is percent-encoded already. Raises as `request`.
        """
        return self.request("GET" if body is None else "POST", path, body, None)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        is_passing: IsPassing | None = is_unavailable,
    ) -> Reply:
        """Return the reply to a request that writes: what it says may be why it fails.

        `is_passing` is that of `Http.request`; a request without it only reads.

        Raises:
            AuthenticationError: the token is missing or wrong; says where it came from.
            CatalogUnavailableError, RateLimitedError, ProtocolMismatchError: as `Http.request`.
        """
        try:
            return self._http.request(
                method,
                path,
                body=body,
                is_passing=is_passing or is_passing_read,
                reads=is_passing is None,
            )
        except AuthenticationError as error:
            credentials, options = self._settings
            by_token = options.auth is None or credentials.token is not None
            if error.context.get("status") != 401 or not by_token:
                raise
            raise AuthenticationError(
                f"{error.message}; {credentials.token_origin()}",
                hint=error.hint,
                context=error.context,
            ) from error

    def message(self, reply: Reply) -> str:
        """Return the service's words about a refusal, the token masked should it repeat it."""
        return self.mask(server_message(reply))

    def refusal(self, reply: Reply, *, what: str, urn: str | None = None) -> MlcatError:
        """Return the error for a reply that refuses `what` (a noun phrase), about `urn` if one is.

        The caller raises it.
        """
        message, status = self.message(reply), reply.status
        about = f" of {urn}" if urn else ""
        sentence = f"{reply.peer} at {reply.url} refused {what}{about} with {status}: {message}"
        context = {"status": status, "urn": urn, "reason": f"{status} {message}"}
        if status == HTTPStatus.FORBIDDEN:
            return NotAuthorizedError(sentence, hint=LACKS_PERMISSION, context=context)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in TIMEOUTS:
            return CatalogUnavailableError(sentence, hint="see the service's log", context=context)
        hint = TOO_LARGE_HINT if status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE else None
        return CatalogRequestError(sentence, status=status, hint=hint, urn=urn)

    def wrong_address(self, reply: Reply) -> ProtocolMismatchError:
        """Return the error for an address at which the catalog service's endpoints are missing."""
        return ProtocolMismatchError(
            f"{reply.peer} at {reply.url} has no such endpoint "
            f"({reply.status}: {self.message(reply)})",
            hint=ADDRESS_HINT,
            context={"status": reply.status},
        )

    def mask(self, text: str) -> str:
        """Return `text` without the token."""
        token = self.credentials.token
        return text.replace(token, "***") if token else text

    def close(self) -> None:
        """Close all connections; safe to call twice."""
        if self._opened is not None:
            self._opened.close()
