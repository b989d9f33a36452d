"""What the service counts about itself, for Prometheus."""

from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Metrics:
    """The counters of one service, in a registry of their own."""

    def __init__(self) -> None:
        """Start all counters at zero."""
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "mlcat_catalog_requests",
            "Requests answered, by endpoint and HTTP status.",
            ["endpoint", "status"],
            registry=self._registry,
        )
        self.seconds = Histogram(
            "mlcat_catalog_request_seconds",
            "Seconds from a request to the end of its answer, by endpoint.",
            ["endpoint"],
            registry=self._registry,
        )

    async def page(self, _request: Request) -> Response:
        """Answer with all counters as Prometheus reads them."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


class Measure:
    """ASGI middleware that counts requests and their time."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        """Count what passes to `app`."""
        self._app = app
        self._metrics = metrics

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
            # Only names of our own code become labels: paths are the client's and without end.
            name = getattr(scope.get("endpoint"), "__name__", "none")
            self._metrics.requests.labels(name, str(status)).inc()
            self._metrics.seconds.labels(name).observe(perf_counter() - started)
