"""The middleware of the catalog, called without a server."""

import re
import threading
from collections.abc import Iterator

import pytest

from mlcat_ingest.catalog.errors import BusyError
from mlcat_ingest.catalog.server.serve import _terminating_cleanly
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.app import create_app
from mlcat_ingest.catalog.web.ui import pages
from support.asgi import call as send


def test_an_error_before_the_answer_becomes_the_answer(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object, **__: object) -> None:
        raise BusyError("busy")

    monkeypatch.setattr(store, "get_many", busy)
    answer = send(create_app(store), "GET", "/openapi/v3/entity/tag/urn:li:tag:x")
    assert (answer.status, answer.headers["retry-after"]) == (503, "1")
    assert answer.json()["message"] == "busy"


def test_an_error_in_the_middle_of_an_answer_breaks_it_off(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> Iterator[str]:
        yield "first"
        raise BusyError("busy")

    monkeypatch.setattr(pages, "export", breaks)
    # The lowest Starlette raises it in a group.
    with pytest.raises((BusyError, ExceptionGroup)):
        send(create_app(store), "GET", "/entity/urn:li:tag:x?export=csv")


def test_requests_are_counted_by_the_paths_of_routes(store: Store) -> None:
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


def test_signals_are_left_alone_outside_the_main_thread() -> None:
    left: list[bool] = []

    def enter() -> None:
        with _terminating_cleanly():
            left.append(True)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join(10)
    assert left == [True]
