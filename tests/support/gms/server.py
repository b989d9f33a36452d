"""A GMS on loopback: the embedded catalog, with GMS's answers where they differ."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlcat_ingest.catalog.server.serve import listen, make_server
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import Tasks
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.errors import CatalogUnavailableError
from support.gms import faults
from support.gms.faults import Events
from support.gms.profile import V1_6, GmsProfile, is_valid
from support.gms.releases import known_part
from support.gms.requests import (
    SeenRequest,
    named_urns,
    path_in,
    value_of,
    with_proposals,
    with_value,
)
from support.gms.store import (
    LaggingCopy,
    LimitedStore,
    asks_index,
    reads_aspects,
    relationship_page,
)

_RUN_REPORTS = frozenset({"dataHubIngestionSource", "dataHubExecutionRequest"})


@dataclass(frozen=True, slots=True)
class _Forward:
    """A request for the catalog: the service that answers it, and the body."""

    app: ASGIApp
    body: bytes


@dataclass(frozen=True, slots=True)
class GmsApp:
    """An ASGI application in front of the catalog's `app` over `store`, as `profile` says.

    `copies` are the search `index` and the `replica` that aspects are read from, as far as they
    lag behind the store.
    """

    app: ASGIApp
    store: Store
    profile: GmsProfile
    events: Events
    copies: Mapping[str, LaggingCopy]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        seen = SeenRequest(
            scope["method"],
            path_in(scope["path"]),
            dict(QueryParams(scope["query_string"])),
            await Request(scope, receive).body(),
        )
        self.events.requests.append(seen)
        reply = await run_in_threadpool(self._route, seen)
        if isinstance(reply, _Forward):
            answer = await _whole_answer(reply.app, scope, reply.body)
            reply = await run_in_threadpool(self._rewrite, seen, answer)
        await reply(scope, receive, send)

    def _route(self, request: SeenRequest) -> Response | _Forward:
        fault = self.events.fault(request) or self._refusal_of_read(request)
        if fault is not None:
            return fault
        if request.is_write:
            return self._route_write(request)
        edges = relationship_page(self.store, request)
        if edges is not None:
            return faults.json_response(edges)
        app = self.app
        if "index" in self.copies and asks_index(request):
            app = self.copies["index"].app()
        elif "replica" in self.copies and reads_aspects(request):
            app = self.copies["replica"].app()
        return _Forward(app, request.body)

    def _refusal_of_read(self, request: SeenRequest) -> Response | None:
        if request.path == "/test" and not self.profile.evaluates:
            return faults.answer(404, "No root resource defined for path '/test'", request.path)
        if reads_aspects(request) and any(map(self.profile.denies_reads, request.read_urns)):
            return faults.forbidden_read(request.path)
        return None

    def _route_write(self, request: SeenRequest) -> Response | _Forward:
        profile = self.profile
        refused = [urn for urn in named_urns(request.proposals) if self._is_forbidden(urn)]
        if refused:
            return faults.forbidden(refused, request.path)
        for proposal in request.proposals:
            size = len(json.dumps(value_of(proposal), ensure_ascii=False).encode())
            if size > profile.aspect_bytes:
                return faults.too_large(proposal, size, profile.aspect_bytes, request.path)
        parts = (self._stored_part(proposal) for proposal in request.proposals)
        stored = [part for part in parts if part is not None]
        if not stored:
            return Response(b'{"value":"success"}', media_type="application/json")
        return _Forward(self.app, with_proposals(request, stored))

    def _is_forbidden(self, urn: str) -> bool:
        is_report = urn.split(":")[2:3][0] in _RUN_REPORTS if urn.count(":") > 2 else False
        return self.profile.forbids(urn) or (self.profile.forbids_run_reports and is_report)

    def _stored_part(self, proposal: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the part of a proposal that the server stores; None if nothing."""
        urn, lacks = str(proposal["entityUrn"]), self.profile.lacks
        if not is_valid(urn, self.profile):
            return None
        name = f"{proposal['entityType']}.{proposal.get('aspectName')}"
        if name in lacks:
            return None
        value = value_of(proposal)
        stored = known_part(value, name, lacks)
        return proposal if stored == value else with_value(proposal, stored)

    def _rewrite(self, request: SeenRequest, reply: Response) -> Response:
        if request.path == "/config" and self.profile.version is not None:
            body = _body(reply)
            body["versions"] = {"acryldata/datahub": {"version": self.profile.version}}
            body["datahub"] = {"serverType": "prod", "serverEnv": "core"}
            return faults.json_response(body)
        is_unnumbered = not self.profile.numbers_first_versions and reads_aspects(request)
        if is_unnumbered and reply.status_code == 200:
            return faults.json_response(_without_first_version(_body(reply)))
        return reply


def _without_first_version(read: Any) -> Any:
    """Return aspects without the version of those that were written once."""
    if isinstance(read, list):
        return [_without_first_version(item) for item in read]
    if not isinstance(read, dict):
        return read
    if isinstance(system := read.get("systemMetadata"), dict) and system.get("version") == "1":
        kept = {name: one for name, one in system.items() if name != "version"}
        return {**read, "systemMetadata": kept}
    return {name: _without_first_version(one) for name, one in read.items()}


def _body(reply: Response) -> Any:
    return json.loads(bytes(reply.body))


async def _whole_answer(app: ASGIApp, scope: Scope, body: bytes) -> Response:
    """Return the answer of `app`, read to its end."""
    unread: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return unread.pop() if unread else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    reply = Response(b"".join(message.get("body", b"") for message in sent), sent[0]["status"])
    reply.raw_headers = list(sent[0]["headers"])
    return reply


_START_S: Final = 30


@dataclass(frozen=True, slots=True)
class RunningGms:
    """A server at `url`, and the `store` behind it, which shows the data that really arrived."""

    url: str
    store: Store
    profile: GmsProfile
    _events: Events
    _copies: Sequence[LaggingCopy]

    def calls(self, path: str = "", action: str | None = None) -> list[SeenRequest]:
        """Return the requests so far whose path begins with `path`, of one action or of all."""
        return [
            request
            for request in tuple(self._events.requests)
            if request.path.startswith(path) and action in {None, request.query.get("action")}
        ]

    def fail_writes(self, count: int) -> None:
        """Answer the next `count` writes as after exhausted database retries.

        Source: AspectResource.java; v1.7 answers 503 with `Retry-After`, earlier releases 500.
        """
        self._events.fail_writes(count)

    def catch_up(self) -> None:
        """Let the search index and the replica show the current content of the store."""
        for copy in self._copies:
            copy.refresh()


@contextmanager
def running_gms(
    database: Path,
    profile: GmsProfile = V1_6,
    *,
    token: str | None = None,
    around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
) -> Iterator[RunningGms]:
    """Serve the catalog in `database`, made where missing, on a free loopback port.

    `around` wraps the service in another application, which sees each request first.

    Raises:
        CatalogUnavailableError: the server did not start.
    """
    events = Events(profile.unavailable_status)
    started = threading.Event()
    with ExitStack() as stack:
        store = stack.enter_context(closing(LimitedStore.open(database)))
        tasks = stack.enter_context(closing(Tasks(store)))
        lags = {"index": profile.index_refresh_s, "replica": profile.replica_s}
        copies = {
            name: stack.enter_context(closing(LaggingCopy(database, name, lag_s)))
            for name, lag_s in lags.items()
            if lag_s
        }
        catalog = create_app(store, token=token, tasks=tasks)
        app = GmsApp(catalog, store, profile, events, copies)
        listener = stack.enter_context(closing(listen("127.0.0.1", 0)))
        port = listener.getsockname()[1]
        server = make_server(around(app), started.set)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            if not started.wait(_START_S):
                raise CatalogUnavailableError("the server did not start")
            url = f"http://127.0.0.1:{port}"
            yield RunningGms(url, store, profile, events, tuple(copies.values()))
        finally:
            server.should_exit = True
            thread.join(_START_S)
