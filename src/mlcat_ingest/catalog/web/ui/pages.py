"""The pages of the catalog: their routes, and their rendering as HTML or JSON responses."""

import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from dataclasses import fields as fields_of
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from itertools import chain
from typing import Any, Final
from urllib.parse import parse_qsl, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Scope

from mlcat_ingest.catalog.errors import BadRequestError, ForbiddenError, NotFoundError
from mlcat_ingest.catalog.limits import DEFAULT_LIMITS, EDIT_BYTES, Limits
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.auth import CSRF, SIGNED_IN
from mlcat_ingest.catalog.web.http import (
    Answer,
    RequestContext,
    json_response,
    prefix_of,
    read_form,
)
from mlcat_ingest.catalog.web.ui import ingestion
from mlcat_ingest.catalog.web.ui.changes import FEED, changes_page
from mlcat_ingest.catalog.web.ui.changes import PATH as CHANGES
from mlcat_ingest.catalog.web.ui.compare import compare_page
from mlcat_ingest.catalog.web.ui.edit import EditForm, edit_form, save
from mlcat_ingest.catalog.web.ui.entity import EntityPage, entity_page
from mlcat_ingest.catalog.web.ui.home import home
from mlcat_ingest.catalog.web.ui.lists import Listing, kind_page
from mlcat_ingest.catalog.web.ui.metadata_tests import EvaluationNow, evaluate_now
from mlcat_ingest.catalog.web.ui.runs import EXPORTS, RunsView, export
from mlcat_ingest.catalog.web.ui.search_page import search_view, suggestions
from mlcat_ingest.catalog.web.ui.tasks_page import PATH as TASKS
from mlcat_ingest.catalog.web.ui.tasks_page import tasks_page
from mlcat_ingest.catalog.web.ui.text import entity_href, visible

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    # Forms name their own site as their origin; no other site learns an address.
    "Referrer-Policy": "same-origin",
    # After the sign-out the browser's "back" shows nothing.
    "Cache-Control": "no-store",
}
"""The headers of every answer to a browser."""

_PACKAGE: Final = "mlcat_ingest.catalog.web.ui"
_HEADINGS: Final = {404: "Page not found"}
# An attribute of an element: in texts `<` is escaped, in attributes `"` too.
_OWN_LINK: Final = re.compile(
    r"""<[a-z]+ [^<>]*(?<=[ ])(?:href|action|src|content)="(?:0;[ ]url=)?(?=/(?!/))"""
)
# XML has no form for these characters.
_NOT_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STATIC: Final = {"style.css": "text/css", "search.js": "text/javascript"}
_FOR_EVER: Final = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A page that is not rendered yet: a template, and the values that it shows."""

    template: str
    values: Mapping[str, Any]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    media_type: str = "text/html"


# A process compiles each template once, however many services it has.
_TEMPLATES: Final = Environment(
    loader=PackageLoader(_PACKAGE),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["visible"] = visible


class Renderer:
    """Renders pages."""

    def __init__(self) -> None:
        """Read the templates and the static files, which `static` has by their paths."""
        self.static: dict[str, Response] = {}
        for name, media_type in _STATIC.items():
            content = (files(_PACKAGE) / "static" / name).read_bytes()
            path = f"/static/{name}"
            self.static[path] = Response(content, headers=_FOR_EVER, media_type=media_type)
            # The address changes with the content.
            href = f"{path}?v={hashlib.sha256(content).hexdigest()[:12]}"
            _TEMPLATES.globals[f"{name.partition('.')[0]}_href"] = href

    def response(self, page: HtmlPage, scope: Scope) -> Response:
        """Return `page` as the response to the request of `scope`, whose session it shows."""
        session = {"csrf": scope.get(CSRF, ""), "signed_in": scope.get(SIGNED_IN, False)}
        shown = {"search": "", **session, **page.values}
        html = _TEMPLATES.get_template(page.template).render(shown)
        if prefix := prefix_of(scope):
            html = _OWN_LINK.sub(rf"\g<0>{prefix}", html)
        if page.media_type != "text/html":
            html = _NOT_XML.sub("\ufffd", html)
        # A lone surrogate has no UTF-8 form; it may only come from an address.
        body = html.encode("utf-8", "replace")
        return Response(body, page.status, {**HEADERS, **page.headers}, page.media_type)


def error_page(refusal: Answer) -> HtmlPage:
    """Return the page that shows `refusal` to a reader."""
    heading = _HEADINGS.get(refusal.status, HTTPStatus(refusal.status).phrase)
    message: str = refusal.value["message"]
    values = {"heading": heading, "message": f"{message[:1].upper()}{message[1:].rstrip('.')}."}
    return HtmlPage("error.html", values, refusal.status, refusal.headers)


_MAX_DIGITS: Final = 9
_MAX_SEARCH_CHARS: Final = 200
_COLUMNS_COOKIE: Final = "columns"
"""The cookie with the columns of a group; its path is that of the group's page."""

_MAX_COOKIE_CHARS: Final = 3_500
_KEPT_SECONDS: Final = 365 * 86_400

_INGESTION_LISTS: Final = {
    ingestion.RUN: ingestion.runs_page,
    ingestion.RECIPE: ingestion.recipes_page,
}
"""Entity type to its list, where that is another one than of names and descriptions."""

PageHandler = Callable[[RequestContext], HtmlPage | Response]


def ui_routes(store: Store, renderer: Renderer, limits: Limits = DEFAULT_LIMITS) -> list[Route]:
    """Return the routes of the pages over `store`, of their files, and of their forms."""
    pages = _EntityPages(store)
    handlers: Mapping[str, PageHandler] = {
        "/": lambda one: HtmlPage("home.html", {"page": home(store), "address": one.origin}),
        "/entity/{urn:path}": pages.get,
        "/kind/{entity_type}": lambda one: HtmlPage("list.html", {"page": _kind(store, one)}),
        "/compare": partial(_compare, store),
        TASKS: lambda one: HtmlPage("list.html", {"page": tasks_page(store, _start(one.query))}),
        CHANGES: lambda one: HtmlPage("changes.html", {"page": changes_page(store, one.query)}),
        FEED: lambda one: HtmlPage(
            "changes.atom",
            {"page": changes_page(store, one.query), "origin": one.origin},
            media_type="application/atom+xml",
        ),
        "/search": partial(_search, store),
        "/search/help": lambda _: HtmlPage("search_help.html", {}),
        "/search/suggest": lambda one: json_response(
            suggestions(store, _search_text(one)), headers=HEADERS
        ),
    }
    return [
        *(Route(path, _handler(handler, renderer)) for path, handler in handlers.items()),
        *(Route(path, file, methods=["GET"]) for path, file in renderer.static.items()),
        Route("/entity/{urn:path}", _form_handler(pages, renderer, limits), methods=["POST"]),
    ]


def _handler(handler: PageHandler, renderer: Renderer) -> Callable[[Request], Response]:
    # Starlette runs a function that is not asynchronous in a thread.
    def answer(request: Request) -> Response:
        answered = handler(RequestContext.of(request))
        if not isinstance(answered, HtmlPage):
            return answered
        accepted = request.headers.get("accept", "")
        if "application/json" in accepted and "text/html" not in accepted:
            headers = {**HEADERS, **answered.headers}
            return json_response(_json_of(answered.values), answered.status, headers)
        return renderer.response(answered, request.scope)

    return answer


def _json_of(value: object) -> Any:
    """Return a value that a page shows as JSON: objects by their fields, rows as lists of cells.

    Not finite numbers, and what has no form in JSON, are texts.
    """
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if abs(value) < float("inf") else str(value)
        case str():
            # A lone surrogate has no UTF-8 form; it may only come from an address.
            return str(value).encode("utf-8", "replace").decode()
        case Mapping():
            return {str(_json_of(name)): _json_of(one) for name, one in value.items()}
        case Listing():
            cells = [[column.cell(row) for column in value.columns] for row in value.rows]
            return _fields(replace(value, rows=cells))
        case _ if is_dataclass(value):
            return _fields(value)
        case Iterable():
            return [_json_of(one) for one in value]
        case _:
            return str(value)


def _fields(value: Any) -> dict[str, object]:
    shown = ((field.name, getattr(value, field.name)) for field in fields_of(value))
    return {name: _json_of(one) for name, one in shown if not callable(one)}


def _form_handler(
    pages: "_EntityPages", renderer: Renderer, limits: Limits
) -> Callable[[Request], Awaitable[Response]]:
    """Return the endpoint of the forms of entities' pages; one was made for the one who sends it.

    A form that a page of this site made for another session, as one that ended, is shown again.
    """

    async def answer(request: Request) -> Response:
        context = RequestContext.of(request)
        context.check_may_write()
        fields = await read_form(request, limits, EDIT_BYTES)
        token: str | None = request.scope.get(CSRF)
        is_own = token is None or hmac.compare_digest(
            token.encode(), fields.get("csrf", "").encode()
        )
        origin = request.headers.get("origin", "").partition("://")[2]
        if not is_own and (origin != request.headers.get("host") or "edit" not in fields):
            raise ForbiddenError("the form belongs to another session; reload the page")
        answer_form = pages.submit if is_own else pages.edit_again
        page = await run_in_threadpool(answer_form, context, fields)
        if isinstance(page, str):
            return RedirectResponse(f"{prefix_of(request.scope)}{page}", 303, HEADERS)
        return await run_in_threadpool(renderer.response, page, request.scope)

    return answer


def _kind(store: Store, request: RequestContext) -> Listing:
    kind, start = request.path["entity_type"], _start(request.query)
    of_ingestion = _INGESTION_LISTS.get(kind)
    page = kind_page(store, kind, start) if of_ingestion is None else of_ingestion(store, start)
    if page is None:
        raise NotFoundError(f"no entities of the type {kind} in the catalog")
    return page


def _compare(store: Store, request: RequestContext) -> HtmlPage:
    query = request.query
    try:
        page = compare_page(store, query.getlist("urn"), query.getlist("best"))
    except BadRequestError as error:
        values = {"heading": "Choose models to compare", "message": error.message}
        return HtmlPage("error.html", values, 400)
    return HtmlPage("compare.html", {"page": page})


def _search(store: Store, request: RequestContext) -> HtmlPage:
    text = _search_text(request)
    page = search_view(store, text, request.query, _start(request.query))
    return HtmlPage("search.html", {"page": page, "search": text})


class _EntityPages:
    """The pages of entities over one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def get(self, request: RequestContext) -> HtmlPage | Response:
        try:
            urn = request.urn_after("/entity/")
        except BadRequestError:
            return _missing("")
        if request.query.get("format") == "json":
            return self._json(urn)
        if "keep" in request.query:
            return _keep_columns(urn, request)
        query = _with_kept_columns(request)
        if (kind := query.get("export")) in EXPORTS:
            return self._export(urn, kind, query)
        page = entity_page(self._store, urn, query, _start(query))
        if page is None:
            return _missing(urn)
        if not ("edit" in query and page.edit_href and request.may_write):
            return _entity(page, request)
        return _entity(page, request, form=edit_form(self._store, urn, None, {}))

    def submit(self, request: RequestContext, fields: QueryParams) -> HtmlPage | str:
        """Return the page after a form, or the path of the page to go on with."""
        urn = request.urn_after("/entity/")
        if "edit" not in fields:
            evaluation = evaluate_now(self._store, urn, _start(fields))
            return self._page(urn, request, evaluation=evaluation)
        problems = save(self._store, urn, fields, request.actor)
        return self._refused(request, urn, fields, problems) if problems else entity_href(urn)

    def edit_again(self, request: RequestContext, fields: QueryParams) -> HtmlPage:
        problems = {"form": "The form belonged to another session. Save it again."}
        page = self._refused(request, request.urn_after("/entity/"), fields, problems)
        return replace(page, status=403)

    def _refused(
        self, request: RequestContext, urn: str, fields: QueryParams, problems: Mapping[str, str]
    ) -> HtmlPage:
        form = edit_form(self._store, urn, fields, problems)
        return replace(self._page(urn, request, form=form), status=409 if form.theirs else 400)

    def _page(
        self,
        urn: str,
        request: RequestContext,
        *,
        evaluation: EvaluationNow | None = None,
        form: EditForm | None = None,
    ) -> HtmlPage:
        """Return the page of an entity that was there a moment ago, with what a form asked for."""
        page = entity_page(self._store, urn, QueryParams(), 0)
        return _entity(page, request, evaluation, form) if page else _missing(urn)

    def _export(self, urn: str, kind: str, query: QueryParams) -> Response:
        rows = export(self._store, RunsView.of(urn, query, 0), kind)
        first = next(rows)  # before the head is sent: a filter may be wrong
        name = f'attachment; filename="runs.{kind}"'
        return StreamingResponse(
            chain([first], rows),
            headers={**HEADERS, "Content-Disposition": name},
            media_type=EXPORTS[kind],
        )

    def _json(self, urn: str) -> HtmlPage | Response:
        stored = self._store.get_many([urn]).get(urn)
        if stored is None:
            return _missing(urn)
        aspects = {
            name: {"value": aspect.value, "systemMetadata": aspect.wire_system_metadata()}
            for name, aspect in stored.items()
        }
        return json_response({"urn": urn, "aspects": aspects}, headers=HEADERS)


def _entity(
    page: EntityPage,
    request: RequestContext,
    evaluation: EvaluationNow | None = None,
    form: EditForm | None = None,
) -> HtmlPage:
    values = {"page": page, "evaluation": evaluation, "form": form}
    return HtmlPage("entity.html", {**values, "may_write": request.may_write})


def _keep_columns(urn: str, request: RequestContext) -> Response:
    """Let the browser keep the columns in the address for this group, or none; lead to the list.

    Raises:
        BadRequestError: they are too many for a cookie.
    """
    view = RunsView.of(urn, request.query, 0)
    columns = urlencode([("kept", name) for name in view.columns], errors="replace")
    if len(columns) > _MAX_COOKIE_CHARS:
        raise BadRequestError("too many columns to keep; choose fewer")
    target = f"{request.prefix}{replace(view, columns=()).href()}"
    response = RedirectResponse(target, HTTPStatus.SEE_OTHER, HEADERS)
    response.set_cookie(
        _COLUMNS_COOKIE,
        columns,
        max_age=_KEPT_SECONDS if columns else 0,
        path=f"{request.prefix}{entity_href(urn)}",
        httponly=True,
    )
    return response


def _with_kept_columns(request: RequestContext) -> QueryParams:
    """Return the query with the columns that the browser keeps, if it names none itself."""
    given = [pair for pair in request.query.multi_items() if pair[0] != "kept"]
    kept = [] if "show" in request.query else parse_qsl(request.cookies.get(_COLUMNS_COOKIE, ""))
    return QueryParams([*given, *kept])


def _missing(urn: str) -> HtmlPage:
    return HtmlPage("missing.html", {"urn": urn}, 404)


def _search_text(request: RequestContext) -> str:
    return request.query.get("q", "").strip()[:_MAX_SEARCH_CHARS]


def _start(query: Mapping[str, str]) -> int:
    """Return where a page of a list starts; 0 for any other text than a number."""
    text = query.get("start", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS else 0
