"""The catalog's pages as a browser gets them, without a socket, read and checked."""

import re
from collections.abc import Mapping
from html import unescape
from html.parser import HTMLParser
from urllib.parse import quote, urlencode

from starlette.applications import Starlette

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.pages import Renderer, ui_routes
from support.asgi import Answer, call

RENDERER = Renderer()
VOID = {"br", "hr", "input", "link", "meta"}
HTML = "text/html,application/xhtml+xml,*/*;q=0.8"


class Reader(HTMLParser):
    """Reads a page: its text, links, elements; complains where elements do not nest.

    The text of an address that several links have is that of the first one.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: dict[str, str] = {}
        self.link: str | None = None
        self.words: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "a":
            href = dict(attrs)["href"] or ""
            self.link = None if href in self.links else href
            self.links.setdefault(href, "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if "a" in self.open and self.link is not None:
            self.links[self.link] += data

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def get(store: Store, target: str) -> Answer:
    return call(Starlette(routes=ui_routes(store, RENDERER)), "GET", target)


def page(store: Store, target: str, status: int = 200) -> Reader:
    """Get a page, check what holds for all of them, and return it read."""
    answer = get(store, target)
    assert answer.status == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["content-security-policy"].startswith("default-src 'self'")
    assert answer.headers["x-content-type-options"] == "nosniff"
    found = Reader(answer.text)
    # The one script is a file of ours; nothing runs that stands in the page.
    assert len(re.findall(r'<script src="/static/search\.js\?v=[0-9a-f]{12}" defer></script>',
                          answer.text)) == found.tags.count("script") == 1  # fmt: skip
    assert found.tags.count("h1") == 1
    return found


def at(urn: str, query: str = "") -> str:
    return f"/entity/{quote(urn, safe='')}{query}"


class Browser:
    """A browser without scripts: it keeps cookies, and sends forms as they stand in a page."""

    def __init__(self, app: Starlette, **headers: str) -> None:
        self.app = app
        self.cookies: dict[str, str] = {}
        self.set_cookies: list[str] = []
        self.headers: Mapping[str, str] = {"accept": HTML, **headers}

    def get(self, target: str, **headers: str) -> Answer:
        return self._send("GET", target, b"", headers)

    def post(self, target: str, fields: Mapping[str, str | list[str]], **headers: str) -> Answer:
        typed = {"content-type": "application/x-www-form-urlencoded", **headers}
        return self._send("POST", target, urlencode(fields, doseq=True).encode(), typed)

    def sign_in(self, token: str, next_page: str = "/", name: str = "") -> Answer:
        fields = form_of(self.get(f"/login?{urlencode({'next': next_page})}"))
        return self.post("/login", {**fields, "token": token, "name": name})

    def _send(self, method: str, target: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        sent = {**self.headers, **headers}
        if self.cookies:
            sent["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        answer = call(self.app, method, target, body, sent)
        self.set_cookies = answer.set_cookies
        for line in answer.set_cookies:
            name, _, value = line.partition(";")[0].partition("=")
            if "Max-Age=0" in line:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value
        return answer


def form_of(page: Answer) -> dict[str, str]:
    """Return the hidden fields of the form in a page."""
    found = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', page.text)
    return {name: unescape(value) for name, value in found}
