"""Access control: a request needs a token or a session, or comes from this machine."""

from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from mlcat_ingest.catalog.errors import ForbiddenError, UnauthenticatedError
from mlcat_ingest.catalog.web.auth import CSRF, MAY_WRITE, Authenticator, client_address
from mlcat_ingest.catalog.web.border import PageRequests
from mlcat_ingest.catalog.web.sessions import SESSION_COOKIE, Sessions
from mlcat_ingest.catalog.web.ui.sign_in import redirect_to_sign_in

_UNAUTHORIZED: Final = "Unauthorized to perform this action."


class Guard:
    """ASGI middleware that lets a request through, or refuses it.

    With a token, every path but the open ones needs `Authorization: Bearer <token>`. Only the
    pages may be read with the cookie of a session instead. Without a token the header is ignored,
    and so that a page somewhere on the web cannot write through the browser of somebody on this
    machine, requests that such a page sends are refused.
    """

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator | None,
        sessions: Sessions,
        pages: PageRequests,
        open_paths: Collection[str],
    ) -> None:
        """Guard `app`; without an `authenticator` there is no token, and anybody may."""
        self._app = app
        self._authenticator = authenticator
        self._sessions = sessions
        self._pages = pages
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or send a browser without a session to the sign-in.

        Raises:
            UnauthenticatedError: the token is missing or wrong.
            TooManyRequestsError: the client tried too many wrong tokens.
            ForbiddenError: a page of another site sent the request.
        """
        if scope["type"] == "http" and scope["path"] not in self._open_paths:
            headers = Headers(scope=scope)
            if self._authenticator is None:
                _refuse_other_sites(headers)
            elif (token := _bearer_token(headers)) is not None:
                permission = self._authenticator.permission(token, client_address(scope))
                if permission is None:
                    raise UnauthenticatedError(_UNAUTHORIZED)
                scope[MAY_WRITE] = permission == "write"
            elif (session := self._session(scope)) is not None:
                scope[MAY_WRITE] = False
                scope[CSRF] = self._sessions.form_token(session)
            elif scope in self._pages and self._pages.by_browser(scope):
                await redirect_to_sign_in(scope)(scope, receive, send)
                return
            else:
                raise UnauthenticatedError(_UNAUTHORIZED)
        await self._app(scope, receive, send)

    def _session(self, scope: Scope) -> str | None:
        """Return the open session of a request for a page; no other request may use one."""
        session = HTTPConnection(scope).cookies.get(SESSION_COOKIE, "")
        return session if self._sessions.is_open(session) and scope in self._pages else None


def _bearer_token(headers: Mapping[str, str]) -> bytes | None:
    """Return the token in the headers; None without one, or with the password of a proxy."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    # Headers arrive as Latin-1; encoded back they are the bytes that were sent.
    return token.strip().encode("latin-1") if scheme.lower() == "bearer" else None


def _refuse_other_sites(headers: Mapping[str, str]) -> None:
    origin = headers.get("origin")
    if origin is not None and _netloc(origin) != headers.get("host"):
        raise ForbiddenError(f"requests from pages of {origin} are refused")


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
