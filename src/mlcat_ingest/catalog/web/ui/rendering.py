"""From a page as a value to an HTML response, with the files that every page refers to."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.responses import Response
from starlette.types import Scope

from mlcat_ingest.catalog.web.auth import CSRF
from mlcat_ingest.catalog.web.refusals import ErrorAnswer

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # After the sign-out the browser's "back" shows nothing.
    "Cache-Control": "no-store",
}
"""The headers of every answer to a browser."""

_PACKAGE: Final = "mlcat_ingest.catalog.web.ui"
_HEADINGS: Final = {404: "Page not found"}
_STATIC: Final = {"style.css": "text/css", "search.js": "text/javascript"}


@dataclass(frozen=True, slots=True)
class HtmlPage:
    """A page that is not rendered yet: a template, and the values that it shows."""

    template: str
    values: Mapping[str, Any]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file that pages refer to; its address changes with its content."""

    name: str
    content: bytes
    media_type: str

    @property
    def path(self) -> str:
        """The path at which the file is served."""
        return f"/static/{self.name}"

    @property
    def href(self) -> str:
        """The address of the file; browsers may keep what they read there for ever."""
        return f"{self.path}?v={hashlib.sha256(self.content).hexdigest()[:12]}"

    def response(self) -> Response:
        """Return the file as a response."""
        headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
        return Response(self.content, headers=headers, media_type=self.media_type)


class Renderer:
    """Renders pages."""

    def __init__(self) -> None:
        """Read the templates and the static files."""
        self.files = tuple(
            StaticFile(name, (files(_PACKAGE) / "static" / name).read_bytes(), media_type)
            for name, media_type in _STATIC.items()
        )
        self._templates = Environment(
            loader=PackageLoader(_PACKAGE),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        for file in self.files:
            self._templates.globals[f"{file.name.partition('.')[0]}_href"] = file.href

    def response(self, page: HtmlPage, scope: Scope) -> Response:
        """Return `page` as the response to the request of `scope`, whose session it shows."""
        # The token of the form that signs out; only a request with a session has it.
        shown = {"search": "", "csrf": scope.get(CSRF, ""), **page.values}
        html = self._templates.get_template(page.template).render(shown)
        # Half a surrogate pair has no UTF-8 form; it may only come from an address.
        body = html.encode("utf-8", "replace")
        return Response(body, page.status, {**HEADERS, **page.headers}, media_type="text/html")


def error_page(refusal: ErrorAnswer) -> HtmlPage:
    """Return the page that shows `refusal` to a reader."""
    heading = _HEADINGS.get(refusal.status, HTTPStatus(refusal.status).phrase)
    message: str = refusal.body["message"]
    values = {"heading": heading, "message": f"{message[:1].upper()}{message[1:].rstrip('.')}."}
    return HtmlPage("error.html", values, refusal.status, refusal.headers)
