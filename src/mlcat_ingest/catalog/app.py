"""The catalog service as one ASGI application."""

import logging

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlcat_ingest.catalog.auth import Guard
from mlcat_ingest.catalog.graphql.routes import graphql_routes
from mlcat_ingest.catalog.limits import DEFAULT_LIMITS, Limits
from mlcat_ingest.catalog.metrics import Measure, Metrics
from mlcat_ingest.catalog.refusals import PREFIXES, refusal, refusal_of
from mlcat_ingest.catalog.rest.http import refusal_response
from mlcat_ingest.catalog.rest.routes import OPEN_PATHS, rest_endpoints, rest_routes
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.throttle import Throttle
from mlcat_ingest.catalog.ui.routes import ui_routes

_log = logging.getLogger(__name__)


def create_app(
    store: Store,
    *,
    token: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    tasks: Tasks | None = None,
) -> Starlette:
    """Return the service over `store`.

    With a `token` every request but those to `/config` and `/health` needs it. The caller closes
    the `tasks` it gives; without them the service has its own, found in `app.state.tasks`.
    """
    running = tasks if tasks is not None else Tasks(store)
    metrics = Metrics()
    routes: list[BaseRoute] = [
        *rest_routes(rest_endpoints(store, running, limits), limits),
        *graphql_routes(store, limits),
    ]
    open_paths = {
        f"{prefix}{path}{slash}"
        for prefix in PREFIXES
        for path in OPEN_PATHS
        for slash in ("", "/")
    }
    app = Starlette(
        routes=[
            *(Mount(prefix, routes=routes) for prefix in PREFIXES if prefix),
            *routes,
            Route("/metrics", metrics.page, methods=["GET"]),
            *ui_routes(store),
        ],
        middleware=[
            Middleware(Measure, metrics=metrics),
            Middleware(Border),
            Middleware(Guard, token=token, open_paths=open_paths),
            Middleware(Throttle, at_once=limits.requests_at_once, open_paths=open_paths),
        ],
        exception_handlers={HTTPException: _http_error},
    )
    # A redirect would turn a POST into a GET in many clients.
    app.router.redirect_slashes = False
    app.state.tasks = running
    return app


class Border:
    """ASGI middleware where every error becomes an answer in the shape of its path."""

    def __init__(self, app: ASGIApp) -> None:
        """Answer for `app` where it raises."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and answer in the place of an error."""
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except ClientDisconnect:
            _log.debug("a client went away before its request was read")
        except Exception as error:
            answer = _answer_to(error, scope.get("path", ""))
            if started:
                raise
            await answer(scope, receive, send)


def _answer_to(error: Exception, path: str) -> Response:
    told = refusal_of(error, path)
    if told is None:
        _log.error("a request failed: %s", type(error).__name__, exc_info=error)
        told = refusal(500, "Internal server error", path)
    return refusal_response(told)


async def _http_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):  # pragma: no cover - registered for nothing else
        raise error
    path = request.scope["path"]
    detail = {404: f"there is no {path}", 405: f"{request.method} is not for {path}"}
    message = detail.get(error.status_code, error.detail)
    return refusal_response(refusal(error.status_code, message, path, headers=error.headers))
