"""The HTTP face of the pages."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mlcat_ingest.catalog.errors import BadRequestError, NotFoundError
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Call, json_response
from mlcat_ingest.catalog.web.ui.entity import entity_page
from mlcat_ingest.catalog.web.ui.overview import home, kind_page
from mlcat_ingest.catalog.web.ui.rendering import HEADERS, HtmlPage, Renderer
from mlcat_ingest.catalog.web.ui.searching import search_view, suggestions

_MAX_DIGITS: Final = 9
_MAX_SEARCH_CHARS: Final = 200

Work = Callable[[Call], HtmlPage | Response]


def ui_routes(store: Store, renderer: Renderer) -> list[Route]:
    """Return the routes of the pages and of their files; all of them read `store`."""
    pages = _Pages(store, renderer)
    return [
        Route(path, _handler(work, renderer))
        for path, work in (
            ("/", pages.home),
            ("/entity/{urn:path}", pages.entity),
            ("/kind/{entity_type}", pages.kind),
            ("/search", pages.search),
            ("/search/suggest", pages.suggest),
            ("/static/{name}", pages.static),
        )
    ]


def _handler(work: Work, renderer: Renderer) -> Callable[[Request], Awaitable[Response]]:
    def answer(request: Request) -> Response:
        answered = work(Call.of(request))
        if isinstance(answered, HtmlPage):
            return renderer.response(answered, request.scope)
        return answered

    async def handle(request: Request) -> Response:
        return await run_in_threadpool(answer, request)

    return handle


class _Pages:
    def __init__(self, store: Store, renderer: Renderer) -> None:
        self._store = store
        self._files = {file.name: file for file in renderer.files}

    def home(self, call: Call) -> HtmlPage:
        return HtmlPage("home.html", {"page": home(self._store), "address": call.origin})

    def kind(self, call: Call) -> HtmlPage:
        kind = call.path["entity_type"]
        page = kind_page(self._store, kind, _start(call.query))
        if page is None:
            raise NotFoundError(f"the catalog has no entities of the kind {kind}")
        return HtmlPage("list.html", {"page": page})

    def search(self, call: Call) -> HtmlPage:
        text = _searched(call)
        page = search_view(self._store, text, call.query, _start(call.query))
        return HtmlPage("search.html", {"page": page, "search": text})

    def suggest(self, call: Call) -> Response:
        found = suggestions(self._store, _searched(call))
        return json_response([asdict(one) for one in found], headers=HEADERS)

    def entity(self, call: Call) -> HtmlPage | Response:
        try:
            urn = call.urn_after("/entity/")
        except BadRequestError:
            return _missing("")
        if call.query.get("format") == "json":
            return self._json(urn)
        page = entity_page(self._store, urn, call.query.get("tab", ""), _start(call.query))
        return _missing(urn) if page is None else HtmlPage("entity.html", {"page": page})

    def static(self, call: Call) -> Response:
        file = self._files.get(call.path["name"])
        if file is None:
            raise NotFoundError(f"there is no file {call.path['name']}")
        return file.response()

    def _json(self, urn: str) -> HtmlPage | Response:
        stored = self._store.get_many([urn]).get(urn)
        if stored is None:
            return _missing(urn)
        aspects = {
            name: {"value": aspect.value, "systemMetadata": aspect.wire_system_metadata()}
            for name, aspect in stored.items()
        }
        return json_response({"urn": urn, "aspects": aspects}, headers=HEADERS)


def _missing(urn: str) -> HtmlPage:
    return HtmlPage("missing.html", {"urn": urn}, 404)


def _searched(call: Call) -> str:
    return call.query.get("q", "").strip()[:_MAX_SEARCH_CHARS]


def _start(query: Mapping[str, str]) -> int:
    """Return where a page of a list starts; what is no such number is the beginning."""
    text = query.get("start", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0
