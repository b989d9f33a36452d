"""The Prometheus metrics of the service: requests by endpoint and status, and their seconds."""

import re
from collections.abc import Sequence
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class ServiceMetrics:
    """The counters of one service, in a registry of their own."""

    def __init__(self) -> None:
        """Start all counters at zero."""
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "mlcat_catalog_requests",
            "Number of answered requests, by endpoint and HTTP status.",
            ["endpoint", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "mlcat_catalog_request_seconds",
            "Duration of requests in seconds, by endpoint.",
            ["endpoint"],
            registry=self._registry,
        )

    async def page(self, _request: Request) -> Response:
        """Answer with all counters as Prometheus reads them."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


class Measure:
    """ASGI middleware that counts requests and their time."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics, routes: Sequence[Route]) -> None:
        """Count what passes to `app`; the labels are the paths of `routes`."""
        self._app = app
        self._metrics = metrics
        # By identity: the router of a mounted prefix, which answers for unknown paths, has no hash.
        # Of the paths of one endpoint the first names it.
        self._labels = {id(route.endpoint): _label(route) for route in reversed(routes)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count it once it is answered."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status = 0
        started = perf_counter()

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            # Only paths of our own routes become labels: a client's paths have no limit.
            label = self._labels.get(id(scope.get("endpoint")), "none")
            self._metrics.requests.labels(label, str(status)).inc()
            self._metrics.seconds.labels(label).observe(perf_counter() - started)


def _label(route: Route) -> str:
    """Return the path of a route without the types of its parameters and a slash at its end."""
    return re.sub(r":\w+}", "}", route.path.rstrip("/")) or "/"
