"""The catalog's pages as a browser gets them, without a socket, read and checked."""

import re
from html.parser import HTMLParser
from urllib.parse import quote

from starlette.applications import Starlette

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.pages import Renderer, ui_routes
from support.asgi import Answer, call

RENDERER = Renderer()
VOID = {"meta", "link", "input"}


class Reader(HTMLParser):
    """Reads a page: its text, links, elements; complains where elements do not nest."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.links: dict[str, str] = {}
        self.words: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        assert not any(name.startswith("on") or name == "style" for name, _ in attrs)
        if tag not in VOID:
            self.open.append(tag)
        if tag == "a":
            self.links[dict(attrs)["href"] or ""] = ""

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        if "a" in self.open and self.links:
            last = list(self.links)[-1]
            self.links[last] += data

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
