"""Turns errors into responses: JSON for API clients, pages for browsers."""

import logging
from collections.abc import Sequence

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mlcat_ingest.catalog.web.http import refusal_response
from mlcat_ingest.catalog.web.refusals import ErrorAnswer, is_openapi, refusal, refusal_of
from mlcat_ingest.catalog.web.rest.endpoint import READING_METHODS
from mlcat_ingest.catalog.web.ui.rendering import Renderer, error_page

_log = logging.getLogger(__name__)


class PageRequests:
    """Tells requests for a page from requests of API clients."""

    def __init__(self, api: Sequence[BaseRoute]) -> None:
        """Take every path that no route in `api` answers as a path of the pages."""
        self._api = api

    def __contains__(self, scope: Scope) -> bool:
        """Return whether a request reads a page, be it there or not."""
        return scope["method"] in READING_METHODS and self._is_path_of_pages(scope)

    def by_browser(self, scope: Scope) -> bool:
        """Return whether a request is for a page and takes HTML, as those of browsers do."""
        accepted = Headers(scope=scope).get("accept", "")
        return "text/html" in accepted and self._is_path_of_pages(scope)

    def _is_path_of_pages(self, scope: Scope) -> bool:
        path: str = scope["path"]
        # A mount that was tried leaves its prefix behind.
        from_root = {**scope, "root_path": ""}
        return (
            not is_openapi(path)
            and not path.startswith("/api/")
            and all(route.matches(from_root)[0] is Match.NONE for route in self._api)
        )


class ErrorResponses:
    """Makes the response to a request that failed."""

    def __init__(self, renderer: Renderer, pages: PageRequests) -> None:
        """Answer browsers with pages of `renderer`."""
        self._renderer = renderer
        self._pages = pages

    def to_error(self, error: Exception, scope: Scope) -> Response:
        """Return the response to a request whose handling raised `error`."""
        path = scope.get("path", "")
        known = refusal_of(error, path)
        if known is None:
            _log.error("a request failed: %s", type(error).__name__, exc_info=error)
            known = refusal(500, "Internal server error", path)
        return self._response(known, scope)

    async def to_http_error(self, request: Request, error: Exception) -> Response:
        """Return the response to a request that no route takes, or not with its method."""
        if not isinstance(error, HTTPException):  # pragma: no cover - registered for nothing else
            raise error
        path = request.scope["path"]
        detail = {404: f"there is no {path}", 405: f"{request.method} is not for {path}"}
        message = detail.get(error.status_code, error.detail)
        known = refusal(error.status_code, message, path, headers=error.headers)
        return self._response(known, request.scope)

    def _response(self, known: ErrorAnswer, scope: Scope) -> Response:
        if self._pages.by_browser(scope):
            return self._renderer.response(error_page(known), scope)
        return refusal_response(known)


class Border:
    """ASGI middleware where every error becomes a response."""

    def __init__(self, app: ASGIApp, errors: ErrorResponses) -> None:
        """Answer for `app` where it raises."""
        self._app = app
        self._errors = errors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and answer in the place of an error."""
        started = False

        async def watch(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except ClientDisconnect:
            _log.debug("a client went away before its request was read")
        except Exception as error:
            response = self._errors.to_error(error, scope)
            if started:
                raise
            await response(scope, receive, send)
