"""The catalog service as one ASGI application, and its middleware: all scopes are of HTTP.

Access control, a limit on requests at once, errors as responses, metrics.
"""

import logging
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from itertools import product
from time import perf_counter
from typing import Final
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlcat_ingest.catalog.errors import (
    ForbiddenError,
    RefusedRequestError,
    TooManyRequestsError,
)
from mlcat_ingest.catalog.limits import DEFAULT_LIMITS, TARGET_BYTES, Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.auth import (
    ACTOR,
    CSRF,
    MAY_WRITE,
    SESSION_COOKIE,
    SIGNED_IN,
    Authenticator,
    Sessions,
    client_address,
    is_own_host,
)
from mlcat_ingest.catalog.web.graphql.execution import graphql_routes
from mlcat_ingest.catalog.web.http import (
    PREFIXES,
    READING_METHODS,
    Answer,
    is_openapi,
    json_response,
    refusal,
    refusal_of,
)
from mlcat_ingest.catalog.web.rest.routes import OPEN_PATHS, rest_endpoints, rest_routes
from mlcat_ingest.catalog.web.ui.pages import Renderer, error_page, ui_routes
from mlcat_ingest.catalog.web.ui.sign_in import SIGN_IN, SIGN_OUT, SignInPages, redirect_to_sign_in
from mlcat_ingest.core.text import plural

_log = logging.getLogger(__name__)


_SEND_AGAIN: Final = "sign in in another tab, then reload this page to send the form again"


class _PageRequests:
    """Tells requests for a page from requests of API clients."""

    def __init__(self, api: Sequence[BaseRoute]) -> None:
        """Take every path that no route in `api` answers as a path of the pages."""
        self._api = api

    def __contains__(self, scope: Scope) -> bool:
        """Return whether a request reads a page, be it there or not."""
        return scope["method"] in READING_METHODS and self._is_path_of_pages(scope)

    def take_session(self, scope: Scope) -> bool:
        """Return whether a request may have a session in place of a token: pages, and forms."""
        return scope["method"] in {*READING_METHODS, "POST"} and self._is_path_of_pages(scope)

    def by_browser(self, scope: Scope) -> bool:
        """Return whether a request is for a page and takes HTML, as those of browsers do."""
        accepted = Headers(scope=scope).get("accept", "")
        return "text/html" in accepted and self._is_path_of_pages(scope)

    def _is_path_of_pages(self, scope: Scope) -> bool:
        path: str = scope["path"]
        # A mount that was tried leaves its prefix behind.
        from_root = {**scope, "root_path": ""}
        return (
            not is_openapi(path)
            and not path.startswith("/api/")
            and all(route.matches(from_root)[0] is Match.NONE for route in self._api)
        )


class _ErrorResponses:
    """Makes the response to a request that failed."""

    def __init__(self, renderer: Renderer, pages: _PageRequests) -> None:
        self._renderer = renderer
        self._pages = pages

    def to_error(self, error: Exception, scope: Scope) -> Response:
        """Return the response to a request whose handling raised `error`."""
        path = scope.get("path", "")
        answer = refusal_of(error, path)
        if answer is None:
            _log.error("a request failed: %s", type(error).__name__, exc_info=error)
            answer = refusal(500, "Internal server error", path)
        return self._response(answer, scope)

    async def to_http_error(self, request: Request, error: Exception) -> Response:
        """Return the response to a request that no route takes, or not with its method."""
        if not isinstance(error, HTTPException):  # pragma: no cover - registered for nothing else
            raise error
        path = request.scope["path"]
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED and request.method == "OPTIONS":
            return Response(headers=error.headers)
        detail = {
            404: f"no page or endpoint {path}",
            405: f"{path} does not support {request.method}",
        }
        message = detail.get(error.status_code, error.detail)
        answer = refusal(error.status_code, message, path, headers=error.headers)
        return self._response(answer, request.scope)

    def _response(self, answer: Answer, scope: Scope) -> Response:
        if self._pages.by_browser(scope):
            return self._renderer.response(error_page(answer), scope)
        return json_response(answer.value, answer.status, answer.headers)


def _answer_errors(app: ASGIApp, errors: _ErrorResponses) -> ASGIApp:
    """Return middleware where every error becomes a response."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await app(scope, receive, watch)
        except ClientDisconnect:
            _log.debug("a client disconnected before its request was read")
        except Exception as error:
            response = errors.to_error(error, scope)
            if started:
                raise
            await response(scope, receive, send)

    return call


def _address_check(app: ASGIApp, host: str | None) -> ASGIApp:
    """Return middleware that refuses requests by their address: its length, and the host in it.

    Where there is no token, requests have to be for this machine, by the name `host` too. The page
    of another site may give its own name the address of this machine, and then its requests are not
    of another site.
    """

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        if len(scope["raw_path"]) + len(scope["query_string"]) > TARGET_BYTES:
            raise RefusedRequestError(
                f"the address of the request is too long; the limit is "
                f"{plural(TARGET_BYTES, 'byte')}",
                HTTPStatus.REQUEST_URI_TOO_LONG,
                hint="search for fewer words",
            )
        if host is not None:
            _refuse_other_hosts(scope, host)
        await app(scope, receive, send)

    return call


def _refuse_other_hosts(scope: Scope, host: str) -> None:
    headers = Headers(scope=scope).getlist("host")
    target = scope["raw_path"].decode("latin-1")
    # A target in absolute form names a host, too.
    others = [] if target.startswith(("/", "*")) else [_netloc(target) or target]
    if len(headers) != 1 or not all(is_own_host(name, host) for name in headers + others):
        raise RefusedRequestError(
            f"the request is for {', '.join(headers + others) or 'no host'}; without a token the "
            "catalog is only for localhost, loopback addresses and the name of --host",
            HTTPStatus.MISDIRECTED_REQUEST,
            hint="use http://localhost with its port, or start the catalog with a token",
        )


@dataclass(frozen=True)
class _Guard:
    """ASGI middleware that passes a request on, or refuses it.

    With a token, every path but the open ones needs `Authorization: Bearer <token>`. Only the
    pages may be read with the cookie of a session instead. Without a token the header is ignored.
    Requests that a page of another site sends are refused then, so that such a page cannot write
    through the browser of a user of this machine.
    """

    app: ASGIApp
    authenticator: Authenticator | None
    sessions: Sessions
    pages: _PageRequests
    open_paths: Collection[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or send a browser without a session to the sign-in.

        Raises:
            RefusedRequestError: the token is missing or wrong.
            TooManyRequestsError: the client tried too many wrong tokens.
            ForbiddenError: a page of another site sent the request.
        """
        if scope["path"] not in self.open_paths:
            headers = Headers(scope=scope)
            if self.authenticator is None:
                _refuse_other_sites(headers)
                scope[CSRF] = self.sessions.form_token("")
            elif (token := _bearer_token(headers)) is not None:
                permission = self.authenticator.permission(token, client_address(scope))
                if permission is None:
                    raise _unauthenticated()
                scope[MAY_WRITE] = permission == "write"
            elif self._take_session(scope):
                scope[SIGNED_IN] = True
            elif scope in self.pages and self.pages.by_browser(scope):
                await redirect_to_sign_in(scope)(scope, receive, send)
                return
            elif self.pages.by_browser(scope):
                raise _unauthenticated("the session ended", hint=_SEND_AGAIN)
            else:
                raise _unauthenticated()
        await self.app(scope, receive, send)

    def _take_session(self, scope: Scope) -> bool:
        """Give a request to the pages what its open session may; no other request may use one."""
        cookie = HTTPConnection(scope).cookies.get(SESSION_COOKIE, "")
        session = self.sessions.find(cookie)
        if session is None or not self.pages.take_session(scope):
            return False
        scope[MAY_WRITE], scope[ACTOR] = session.may_write, session.actor
        scope[CSRF] = self.sessions.form_token(cookie)
        return True


def _unauthenticated(
    why: str = "Unauthorized to perform this action.", hint: str | None = None
) -> RefusedRequestError:
    return RefusedRequestError(why, HTTPStatus.UNAUTHORIZED, hint=hint)


def _bearer_token(headers: Mapping[str, str]) -> bytes | None:
    """Return the token in the headers; None without one, or with the password of a proxy."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    # Headers arrive as Latin-1; encoded back they are the bytes that were sent.
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" else None


def _refuse_other_sites(headers: Mapping[str, str]) -> None:
    origin = headers.get("origin")
    if origin is not None and _netloc(origin) != headers.get("host"):
        raise ForbiddenError(f"cross-origin requests from {origin} are not allowed")


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _throttle(app: ASGIApp, at_once: int, open_paths: Collection[str]) -> ASGIApp:
    """Return middleware that turns requests away while too many are in hand.

    Each request holds its body in memory, so their number bounds the memory of the service. Those
    to `open_paths` are not counted.
    """
    in_hand = 0

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal in_hand
        is_counted = scope["path"] not in open_paths
        if is_counted and in_hand >= at_once:
            raise TooManyRequestsError(
                f"too many concurrent requests; the limit is {at_once}; try again"
            )
        in_hand += is_counted
        try:
            await app(scope, receive, send)
        finally:
            in_hand -= is_counted

    return call


def _measure(app: ASGIApp, registry: CollectorRegistry, routes: Sequence[Route]) -> ASGIApp:
    """Return middleware that counts requests and their time; the labels are paths of `routes`."""
    requests = Counter(
        "mlcat_catalog_requests",
        "Number of answered requests, by endpoint and HTTP status.",
        ["endpoint", "status"],
        registry=registry,
    )
    seconds = Histogram(
        "mlcat_catalog_request_seconds",
        "Duration of requests in seconds, by endpoint.",
        ["endpoint"],
        registry=registry,
    )
    # By identity: the router of a mounted prefix, which answers for unknown paths, has no hash.
    # Of the paths of one endpoint the first names it.
    labels = {id(route.endpoint): _label(route) for route in reversed(routes)}

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        status = 0
        started = perf_counter()

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await app(scope, receive, watch)
        finally:
            # Only paths of our own routes become labels: a client's paths have no limit.
            label = labels.get(id(scope.get("endpoint")), "none")
            requests.labels(label, str(status)).inc()
            seconds.labels(label).observe(perf_counter() - started)

    return call


def _label(route: Route) -> str:
    """Return the path of a route without the types of its parameters and a slash at its end."""
    return re.sub(r":\w+}", "}", route.path.rstrip("/")) or "/"


def create_app(
    store: Store,
    *,
    token: str | None = None,
    read_token: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    tasks: Tasks | None = None,
    host: str = "127.0.0.1",
) -> Starlette:
    """Return the service over `store`.

    With a `token` every request but those to `/config` and `/health` needs it, or the
    `read_token`, which only permits reading; browsers sign in. Without one every request has to be
    for this machine, by the name `host` or another one of its own. The caller closes the `tasks` it
    gives; without them the service has its own, found in `app.state.tasks`.
    """
    running = tasks if tasks is not None else Tasks(store)
    registry = CollectorRegistry()
    renderer = Renderer()
    sessions = Sessions()
    authenticator = Authenticator(token, read_token) if token else None
    interface = [
        *rest_routes(rest_endpoints(store, running, limits), limits),
        *graphql_routes(store, limits),
    ]

    def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    counters = Route("/metrics", metrics, methods=["GET"])
    mounts = [Mount(prefix, routes=interface) for prefix in PREFIXES if prefix]
    page_requests = _PageRequests([*mounts, *interface, counters])
    pages = ui_routes(store, renderer, limits)
    open_pages = {*renderer.static}
    if authenticator is not None:
        pages += SignInPages(authenticator, sessions, renderer, limits).routes()
        open_pages |= {SIGN_IN, SIGN_OUT}
    forms = product(PREFIXES, OPEN_PATHS, ("", "/"))
    open_paths = open_pages.union(map("".join, forms))
    errors = _ErrorResponses(renderer, page_requests)
    app = Starlette(
        routes=[*mounts, *interface, counters, *pages],
        middleware=[
            Middleware(_measure, registry=registry, routes=[*interface, counters, *pages]),
            Middleware(_answer_errors, errors=errors),
            Middleware(_address_check, host=None if token else host),
            Middleware(
                _Guard,
                authenticator=authenticator,
                sessions=sessions,
                pages=page_requests,
                open_paths=open_paths,
            ),
            Middleware(_throttle, at_once=limits.requests_at_once, open_paths=open_paths),
        ],
        exception_handlers={HTTPException: errors.to_http_error},
    )
    # A redirect would turn a POST into a GET in many clients.
    app.router.redirect_slashes = False
    app.state.tasks = running
    return app
