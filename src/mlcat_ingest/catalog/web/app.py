"""The catalog service as one ASGI application."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import Mount, Route

from mlcat_ingest.catalog.limits import DEFAULT_LIMITS, Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.auth import Authenticator, Sessions, WrongTokens
from mlcat_ingest.catalog.web.graphql.execution import graphql_routes
from mlcat_ingest.catalog.web.middleware import (
    AddressCheck,
    Border,
    ErrorResponses,
    Guard,
    Measure,
    PageRequests,
    ServiceMetrics,
    Throttle,
)
from mlcat_ingest.catalog.web.refusals import PREFIXES
from mlcat_ingest.catalog.web.rest.routes import OPEN_PATHS, rest_endpoints, rest_routes
from mlcat_ingest.catalog.web.ui.pages import Renderer, ui_routes
from mlcat_ingest.catalog.web.ui.sign_in import SIGN_IN, SIGN_OUT, SignInPages


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
    metrics = ServiceMetrics()
    renderer = Renderer()
    sessions = Sessions()
    authenticator = Authenticator(token, read_token, WrongTokens()) if token else None
    interface = [
        *rest_routes(rest_endpoints(store, running, limits), limits),
        *graphql_routes(store, limits),
    ]
    counters = Route("/metrics", metrics.page, methods=["GET"])
    mounts = [Mount(prefix, routes=interface) for prefix in PREFIXES if prefix]
    page_requests = PageRequests([*mounts, *interface, counters])
    pages = ui_routes(store, renderer, limits)
    open_pages = {file.path for file in renderer.files}
    if authenticator is not None:
        pages += SignInPages(authenticator, sessions, renderer, limits).routes()
        open_pages |= {SIGN_IN, SIGN_OUT}
    open_paths = _open_paths() | open_pages
    errors = ErrorResponses(renderer, page_requests)
    guard = Middleware(
        Guard,
        authenticator=authenticator,
        sessions=sessions,
        pages=page_requests,
        open_paths=open_paths,
    )
    app = Starlette(
        routes=[*mounts, *interface, counters, *pages],
        middleware=[
            Middleware(Measure, metrics=metrics, routes=[*interface, counters, *pages]),
            Middleware(Border, errors=errors),
            Middleware(AddressCheck, host=None if token else host),
            guard,
            Middleware(Throttle, at_once=limits.requests_at_once, open_paths=open_paths),
        ],
        exception_handlers={HTTPException: errors.to_http_error},
    )
    # A redirect would turn a POST into a GET in many clients.
    app.router.redirect_slashes = False
    app.state.tasks = running
    return app


def _open_paths() -> frozenset[str]:
    """Return the paths of `OPEN_PATHS` in all their forms."""
    return frozenset(
        f"{prefix}{path}{slash}"
        for prefix in PREFIXES
        for path in OPEN_PATHS
        for slash in ("", "/")
    )
