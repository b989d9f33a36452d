"""The service: the embedded catalog's, with GMS's answers where they differ."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.refusals import is_openapi
from mlcat_ingest.metadata.aspects.common import VERSION_PROPERTIES
from mlcat_ingest.testing.gms import refusals
from mlcat_ingest.testing.gms.events import Events
from mlcat_ingest.testing.gms.profile import GmsProfile
from mlcat_ingest.testing.gms.requests import (
    SeenRequest,
    named_urns,
    path_in,
    value_of,
    with_proposals,
    with_value,
)
from mlcat_ingest.testing.gms.store import LaggingCopy, asks_index, reads_aspects
from mlcat_ingest.testing.gms.urns import is_valid
from mlcat_ingest.testing.gms.versions import NewVersions, competing, mark_all_latest

_RUN_REPORTS = frozenset({"dataHubIngestionSource", "dataHubExecutionRequest"})
_VALIDATED = frozenset({400, 412, 422})


@dataclass(frozen=True, slots=True)
class _Forward:
    """What the catalog gets of a request: the service that answers it, and the body."""

    app: ASGIApp
    body: bytes
    proposals: Sequence[Mapping[str, Any]] = ()
    competing: NewVersions = field(default_factory=dict)


class GmsApp:
    """An ASGI application in front of the catalog's `app` over `store`."""

    def __init__(
        self,
        app: ASGIApp,
        store: Store,
        profile: GmsProfile,
        events: Events,
        *,
        index: LaggingCopy | None,
        replica: LaggingCopy | None,
    ) -> None:
        """Answer as `profile` says; searches go to the `index`, reads to the `replica`, if any."""
        self._app = app
        self._store = store
        self._profile = profile
        self._events = events
        self._index = index
        self._replica = replica

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        seen = SeenRequest(
            scope["method"],
            path_in(scope["path"]),
            dict(QueryParams(scope["query_string"])),
            await Request(scope, receive).body(),
        )
        self._events.requests.append(seen)
        chosen = await run_in_threadpool(self._chosen, seen)
        if isinstance(chosen, _Forward):
            reply = await _answered(chosen.app, scope, chosen.body)
            chosen = await run_in_threadpool(self._finished, seen, chosen, reply)
        await chosen(scope, receive, send)

    def _chosen(self, request: SeenRequest) -> Response | _Forward:
        if (fault := self._events.fault(request)) is not None:
            return fault
        if request.path == "/test" and not self._profile.evaluates:
            return refusals.answer(404, "No root resource defined for path '/test'", request.path)
        if request.is_write:
            return self._written(request)
        app = self._app
        if self._index is not None and asks_index(request):
            app = self._index.app()
        elif self._replica is not None and reads_aspects(request):
            app = self._replica.app()
        return _Forward(app, request.body)

    def _written(self, request: SeenRequest) -> Response | _Forward:
        profile = self._profile
        refused = [urn for urn in named_urns(request.proposals) if self._is_forbidden(urn)]
        if refused:
            return refusals.forbidden(refused, request.path)
        for proposal in request.proposals:
            size = len(json.dumps(value_of(proposal), ensure_ascii=False).encode())
            if size > profile.aspect_bytes:
                limit = profile.aspect_bytes
                return refusals.too_large(proposal, size, limit, request.path)
        versioned = [one for one in request.proposals if one["aspectName"] == VERSION_PROPERTIES]
        if versioned and self._events.refuses_versions():
            form, sentence = profile.refusal_form, refusals.COMPUTED_FIELD
            message = refusals.validation(form, versioned[0], sentence)
            return refusals.answer(422, message, request.path)
        kept = [known for one in request.proposals if (known := self._known(one)) is not None]
        if not kept:
            return Response(b'{"value":"success"}', media_type="application/json")
        body = with_proposals(request, kept)
        return _Forward(self._app, body, kept, competing(self._store, kept))

    def _is_forbidden(self, urn: str) -> bool:
        is_report = urn.split(":")[2:3][0] in _RUN_REPORTS if urn.count(":") > 2 else False
        return self._profile.forbids(urn) or (self._profile.forbids_run_reports and is_report)

    def _known(self, proposal: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return what of a proposal the server stores; None if nothing."""
        urn, lacks = str(proposal["entityUrn"]), self._profile.lacks
        if self._profile.drops_invalid_urns and not is_valid(urn, self._profile):
            return None
        name = f"{proposal['entityType']}.{proposal.get('aspectName')}"
        if name in lacks:
            return None
        value = value_of(proposal)
        if not isinstance(value, dict) or not any(f"{name}.{key}" in lacks for key in value):
            return proposal
        known = {key: one for key, one in value.items() if f"{name}.{key}" not in lacks}
        return with_value(proposal, known)

    def _finished(self, request: SeenRequest, sent: _Forward, reply: Response) -> Response:
        if sent.proposals and reply.status_code in _VALIDATED:
            message = _body(reply)["message"]
            form = self._profile.refusal_form
            message = refusals.reworded(form, message, sent.proposals)
            return refusals.answer(422, message, request.path)
        if reply.status_code == 200:
            mark_all_latest(self._store, sent.competing)
        if is_openapi(request.path) and reply.status_code == 412:
            body = _body(reply)
            return refusals.answer(400, body["message"], request.path)
        if request.path == "/config" and self._profile.version is not None:
            body = _body(reply)
            body["versions"] = {"acryldata/datahub": {"version": self._profile.version}}
            body["datahub"] = {"serverType": "prod", "serverEnv": "core"}
            return Response(json.dumps(body), media_type="application/json")
        is_unnumbered = not self._profile.numbers_first_versions and reads_aspects(request)
        if is_unnumbered and reply.status_code == 200:
            return Response(json.dumps(_unnumbered(_body(reply))), media_type="application/json")
        return reply


def _unnumbered(read: Any) -> Any:
    """Return aspects without the version of those that were written once."""
    if isinstance(read, list):
        return [_unnumbered(one) for one in read]
    if not isinstance(read, dict):
        return read
    if isinstance(system := read.get("systemMetadata"), dict) and system.get("version") == "1":
        kept = {name: one for name, one in system.items() if name != "version"}
        return {**read, "systemMetadata": kept}
    return {name: _unnumbered(one) for name, one in read.items()}


def _body(reply: Response) -> Any:
    return json.loads(bytes(reply.body))


async def _answered(app: ASGIApp, scope: Scope, body: bytes) -> Response:
    """Return what `app` answers, whole."""
    given: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Message] = []

    async def receive() -> Message:
        return given.pop() if given else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    reply = Response(b"".join(message.get("body", b"") for message in sent), sent[0]["status"])
    reply.raw_headers = list(sent[0]["headers"])
    return reply
