"""The sign-in of browsers: a form that takes the token once, for a session cookie."""

import secrets
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from mlcat_ingest.catalog.errors import ForbiddenError, TooManyRequestsError
from mlcat_ingest.catalog.limits import SESSION_SECONDS, SIGN_INS_AT_ONCE, Limits
from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR
from mlcat_ingest.catalog.store.history import NO_PERSON
from mlcat_ingest.catalog.web.auth import SESSION_COOKIE, Authenticator, Sessions, client_address
from mlcat_ingest.catalog.web.http import prefix_of, read_form, scheme_of
from mlcat_ingest.catalog.web.ui.pages import HEADERS, HtmlPage, Renderer
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.urn import build

SIGN_IN: Final = "/login"
SIGN_OUT: Final = "/logout"

_FORM_COOKIE: Final = "mlcat_sign_in"
_FORM_SECONDS: Final = 3_600

_EXPIRED: Final = "The form has expired or the browser blocks cookies. Allow cookies and try again."
_WRONG: Final = "Wrong token."
_NO_PERSON: Final = "The catalog itself has this name. Choose another, or leave the field empty."


class SignInPages:
    """The pages that begin and end a session."""

    def __init__(
        self, authenticator: Authenticator, sessions: Sessions, renderer: Renderer, limits: Limits
    ) -> None:
        """Start `sessions` for the tokens that `authenticator` knows."""
        self._authenticator = authenticator
        self._sessions = sessions
        self._renderer = renderer
        self._limits = limits
        self._arriving: list[str] = []

    def routes(self) -> list[Route]:
        """Return the routes of the sign-in and the sign-out."""
        return [
            Route(SIGN_IN, self.form),
            Route(SIGN_IN, self.submit, methods=["POST"]),
            Route(SIGN_OUT, self.sign_out, methods=["POST"]),
        ]

    async def form(self, request: Request) -> Response:
        """Answer with the form, or with the way on where the browser is signed in."""
        target = _local_path(request.query_params.get("next", ""))
        if self._sessions.find(request.cookies.get(SESSION_COOKIE, "")) is not None:
            return _redirect(request.scope, target)
        if request.headers.get("sec-fetch-site") == "cross-site":
            # With a link on another site browsers send no strict cookie; with this refresh they do.
            return self._renderer.response(
                HtmlPage("continue.html", {"next": target}), request.scope
            )
        return self._form(request, target)

    async def submit(self, request: Request) -> Response:
        """Start a session where the token is right, and show the form again where it is not."""
        fields = await self._fields(request)
        target = _local_path(fields.get("next", ""))
        if not self._sessions.is_form_of(
            request.cookies.get(_FORM_COOKIE, ""), fields.get("csrf", "")
        ):
            return self._form(request, target, 403, _EXPIRED)
        given = fields.get("token", "").strip().encode()
        try:
            permission = self._authenticator.permission(given, client_address(request.scope))
        except TooManyRequestsError as error:
            headers = {"Retry-After": str(error.retry_after_s)}
            return self._form(request, target, 429, error.message, headers)
        if permission is None:
            return self._form(request, target, 401, _WRONG, {"WWW-Authenticate": "Bearer"})
        name = fields.get("name", "").strip()
        try:
            actor = build("corpuser", name) if name else UNKNOWN_ACTOR
        except InvalidUrnError as error:
            return self._form(request, target, 400, f"The name cannot be used: {error}.")
        if name and actor in NO_PERSON:
            return self._form(request, target, 400, _NO_PERSON)
        response = _redirect(request.scope, target)
        session = self._sessions.start(may_write=permission == "write", actor=actor)
        _set_cookie(response, request, SESSION_COOKIE, session, SESSION_SECONDS)
        _set_cookie(response, request, _FORM_COOKIE, "", 0)
        return response

    async def sign_out(self, request: Request) -> Response:
        """End the session."""
        session = request.cookies.get(SESSION_COOKIE, "")
        if self._sessions.find(session) is None:
            return _redirect(request.scope, SIGN_IN)
        fields = await self._fields(request)
        if not self._sessions.is_form_of(session, fields.get("csrf", "")):
            raise ForbiddenError("the form belongs to another session; reload the page")
        self._sessions.end(session)
        response = _redirect(request.scope, SIGN_IN)
        _set_cookie(response, request, SESSION_COOKIE, "", 0)
        return response

    def _form(
        self,
        request: Request,
        target: str,
        status: int = 200,
        message: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        # Kept where there is one, so that the forms of two tabs both work.
        cookie = request.cookies.get(_FORM_COOKIE) or secrets.token_urlsafe(16)
        values = {"next": target, "message": message, "csrf": self._sessions.form_token(cookie)}
        page = HtmlPage("sign_in.html", values, status, headers or {})
        response = self._renderer.response(page, request.scope)
        _set_cookie(response, request, _FORM_COOKIE, cookie, _FORM_SECONDS)
        return response

    async def _fields(self, request: Request) -> QueryParams:
        address = client_address(request.scope)
        if self._arriving.count(address) >= SIGN_INS_AT_ONCE:
            raise TooManyRequestsError(
                f"too many forms arrive at once; the limit is {SIGN_INS_AT_ONCE}; try again"
            )
        self._arriving.append(address)
        try:
            return await read_form(request, self._limits)
        finally:
            self._arriving.remove(address)


def redirect_to_sign_in(scope: Scope) -> Response:
    """Return the way to the sign-in, which leads back to the page of this request."""
    target = scope["raw_path"].decode("latin-1")
    if scope["query_string"]:
        target += f"?{scope['query_string'].decode('latin-1')}"
    return _redirect(scope, f"{SIGN_IN}?{urlencode({'next': target})}")


def _local_path(text: str) -> str:
    """Return `text` if it is the path of a page here, and the first page's path otherwise."""
    # Browsers read a backslash as a slash, and skip tabs and line breaks.
    is_local = text.startswith("/") and text[1:2] not in {"/", "\\"} and text.isprintable()
    return text if is_local and text.partition("?")[0] not in {SIGN_IN, SIGN_OUT} else "/"


def _redirect(scope: Scope, target: str) -> Response:
    return RedirectResponse(f"{prefix_of(scope)}{target}", 303, HEADERS)


def _set_cookie(response: Response, request: Request, name: str, value: str, seconds: int) -> None:
    """Set a cookie that no script and no other site gets; without `seconds` it is deleted."""
    response.set_cookie(
        name,
        value,
        max_age=seconds,
        path="/",
        secure=scheme_of(request) == "https",
        httponly=True,
        samesite="strict",
    )
