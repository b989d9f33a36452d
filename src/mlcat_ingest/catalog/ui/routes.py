"""The HTTP face of the pages."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.rest.http import Call, json_response
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.ui.entity import entity_page
from mlcat_ingest.catalog.ui.overview import home, kind_page
from mlcat_ingest.catalog.ui.searching import search_view, suggestions

_PACKAGE: Final = "mlcat_ingest.catalog.ui"
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_STATIC: Final = {"style.css": "text/css", "search.js": "text/javascript"}
_MAX_DIGITS: Final = 9
_MAX_SEARCH_CHARS: Final = 200

Work = Callable[[Call], Response]


def ui_routes(store: Store) -> list[Route]:
    """Return the routes of the pages and of their files; all of them read `store`."""
    pages = _Pages(store)
    return [
        Route("/", _handler(pages.home)),
        Route("/entity/{urn:path}", _handler(pages.entity)),
        Route("/kind/{entity_type}", _handler(pages.kind)),
        Route("/search", _handler(pages.search)),
        Route("/search/suggest", _handler(pages.suggest)),
        Route("/static/{name}", _handler(pages.static)),
    ]


def _handler(work: Work) -> Callable[[Request], Awaitable[Response]]:
    async def handle(request: Request) -> Response:
        return await run_in_threadpool(work, Call.of(request))

    return handle


class _Pages:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._static = {
            name: ((files(_PACKAGE) / "static" / name).read_bytes(), media_type)
            for name, media_type in _STATIC.items()
        }
        templates = Environment(
            loader=PackageLoader(_PACKAGE),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        # The address changes with the content, so browsers may keep the file for ever.
        for name, (content, _) in self._static.items():
            mark = hashlib.sha256(content).hexdigest()[:12]
            templates.globals[f"{name.partition('.')[0]}_href"] = f"/static/{name}?v={mark}"
        self._templates = templates

    def home(self, call: Call) -> Response:
        shown = {"page": home(self._store), "address": call.origin, "search": ""}
        return self._page("home.html", shown)

    def kind(self, call: Call) -> Response:
        page = kind_page(self._store, call.path["entity_type"], _start(call.query))
        return self._page("list.html", {"page": page, "search": ""})

    def search(self, call: Call) -> Response:
        text = _searched(call)
        page = search_view(self._store, text, call.query, _start(call.query))
        return self._page("search.html", {"page": page, "search": text})

    def suggest(self, call: Call) -> Response:
        found = suggestions(self._store, _searched(call))
        return json_response([asdict(one) for one in found], headers=_HEADERS)

    def entity(self, call: Call) -> Response:
        try:
            urn = call.urn_after("/entity/")
        except BadRequestError:
            return self._missing("")
        if call.query.get("format") == "json":
            return self._json(urn)
        page = entity_page(self._store, urn, call.query.get("tab", ""), _start(call.query))
        if page is None:
            return self._missing(urn)
        return self._page("entity.html", {"page": page, "search": ""})

    def static(self, call: Call) -> Response:
        if call.path["name"] not in self._static:
            return self._missing("")
        content, media_type = self._static[call.path["name"]]
        headers = {**_HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(content, headers=headers, media_type=media_type)

    def _json(self, urn: str) -> Response:
        stored = self._store.get_many([urn]).get(urn)
        if stored is None:
            return self._missing(urn)
        aspects = {
            name: {"value": aspect.value, "systemMetadata": aspect.wire_system_metadata()}
            for name, aspect in stored.items()
        }
        return json_response({"urn": urn, "aspects": aspects}, headers=_HEADERS)

    def _missing(self, urn: str) -> Response:
        return self._page("missing.html", {"urn": urn, "search": ""}, status=404)

    def _page(self, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
        html = self._templates.get_template(template).render(values)
        # Half a surrogate pair has no UTF-8 form; it may only come from an address.
        body = html.encode("utf-8", "replace")
        return Response(body, status, dict(_HEADERS), media_type="text/html")


def _searched(call: Call) -> str:
    return call.query.get("q", "").strip()[:_MAX_SEARCH_CHARS]


def _start(query: Mapping[str, str]) -> int:
    """Return where a page of a list starts; what is no such number is the beginning."""
    text = query.get("start", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0
