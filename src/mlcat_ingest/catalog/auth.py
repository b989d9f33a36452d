"""Who may make a request: the bearer token, and the pages of other sites."""

import hmac
import ipaddress
import socket
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from mlcat_ingest.catalog.errors import ForbiddenError, UnauthenticatedError


class Guard:
    """ASGI middleware that lets a request through, or raises.

    With a token, every path but the open ones needs `Authorization: Bearer <token>`. Without one
    the header is ignored, and so that a page somewhere on the web cannot write through the
    browser of somebody on this machine, requests that such a page sends are refused.
    """

    def __init__(self, app: ASGIApp, token: str | None, open_paths: Collection[str]) -> None:
        """Guard `app`; `token` None or empty means that anybody may."""
        self._app = app
        self._token = token.encode() if token else None
        self._open_paths = frozenset(open_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on.

        Raises:
            UnauthenticatedError: the token is missing or wrong.
            ForbiddenError: a page of another site sent the request.
        """
        if scope["type"] == "http" and scope["path"] not in self._open_paths:
            headers = Headers(scope=scope)
            if self._token is None:
                _refuse_other_sites(headers)
            else:
                _require(self._token, headers)
        await self._app(scope, receive, send)


def _require(token: bytes, headers: Mapping[str, str]) -> None:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    # Headers arrive as Latin-1; encoded back they are the bytes that were sent.
    right = hmac.compare_digest(given.strip().encode("latin-1"), token)
    if scheme.lower() != "bearer" or not right:
        raise UnauthenticatedError("Unauthorized to perform this action.")


def _refuse_other_sites(headers: Mapping[str, str]) -> None:
    origin = headers.get("origin")
    if origin is not None and _netloc(origin) != headers.get("host"):
        raise ForbiddenError(f"requests from pages of {origin} are refused")


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address, reaches only this machine itself."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(ipaddress.ip_address(str(entry[4][0])).is_loopback for entry in found)
