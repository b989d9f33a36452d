"""The middleware of the catalog, called without a server."""

import asyncio
import re
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlcat_ingest.catalog.errors import BusyError
from mlcat_ingest.catalog.server.serve import _terminating_cleanly
from mlcat_ingest.catalog.web.app import (
    ErrorResponses,
    PageRequests,
    ServiceMetrics,
    answer_errors,
    create_app,
    measure,
)
from mlcat_ingest.catalog.web.ui.pages import Renderer
from support.asgi import call as send
from support.catalog_store import open_store

HTTP: dict[str, Any] = {"type": "http", "method": "GET", "path": "/x", "headers": []}
ERRORS = ErrorResponses(Renderer(), PageRequests([]))
START: Message = {"type": "http.response.start", "status": 200, "headers": []}


def call(app: ASGIApp, scope: dict[str, Any]) -> list[Message]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def run() -> None:
        await app(scope, receive, send)

    asyncio.run(run())
    return sent


async def fails_at_once(_scope: Scope, _receive: Receive, _send: Send) -> None:
    raise BusyError("busy")


async def fails_in_the_middle(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send(START)
    raise BusyError("busy")


def test_an_error_before_the_answer_becomes_the_answer() -> None:
    sent = call(answer_errors(fails_at_once, ERRORS), HTTP)
    assert sent[0]["status"] == 503
    assert (b"retry-after", b"1") in sent[0]["headers"]
    assert b'"message":"busy"' in sent[1]["body"]


def test_an_error_in_the_middle_of_an_answer_breaks_it_off() -> None:
    with pytest.raises(BusyError):
        call(answer_errors(fails_in_the_middle, ERRORS), HTTP)


def test_only_requests_are_counted() -> None:
    seen: list[str] = []

    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        seen.append(scope["type"])

    metrics = ServiceMetrics()
    call(measure(app, metrics, []), {"type": "lifespan"})
    assert seen == ["lifespan"]
    assert [sample for metric in metrics.requests.collect() for sample in metric.samples] == []


def test_requests_are_counted_by_the_paths_of_routes(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "c.db")) as store:
        app = create_app(store)
        for target in ("/", "/entity/urn:li:tag:x", "/gms/entitiesV2/urn:li:tag:x", "/nope/1"):
            send(app, "GET", target)
        for target in ("/api/graphql", "/gms/api/v2/graphql", "/operations/?action=x"):
            send(app, "POST", target)
        send(app, "PUT", "/kind/mlModel")
        page = send(app, "GET", "/metrics").text
        app.state.tasks.close()
    counted = re.findall(
        r'^mlcat_catalog_requests_total\{endpoint="(.*)",status', page, re.MULTILINE
    )
    assert sorted(counted) == [
        "/",
        "/api/graphql",
        "/entitiesV2/{urn}",
        "/entity/{urn}",
        "/kind/{entity_type}",
        "/operations",
        "none",
    ]


def test_the_service_has_tasks_of_its_own_where_it_is_given_none(tmp_path: Path) -> None:
    store = open_store(tmp_path / "c.db")
    app = create_app(store)
    assert app.state.tasks.node_id
    app.state.tasks.close()
    store.close()


def test_signals_are_left_alone_outside_the_main_thread() -> None:
    left: list[bool] = []

    def enter() -> None:
        with _terminating_cleanly():
            left.append(True)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(10)
    assert left == [True]
