"""Markdown of descriptions, as HTML for pages and as plain text for lists.

The source escapes HTML in a text, the sanitizer keeps a few elements only. A text that is too
large, or would take long, is shown as it is.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING, Any, Final

from mlcat_ingest.catalog.web.ui.text import web_address

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_CHARS: Final = 10_000
"""Longest text that is rendered; longer ones are shown as they are."""

_LINE_CHARS: Final = 300
"""How much of a text makes one line of a list."""

# Links are looked for from each bracket on, and the rows of a table are filled up with cells.
_MAX_BRACKETS: Final = 500
_MAX_CELLS: Final = 2_000

_ELEMENTS: Final = (
    "a blockquote br code em h3 h4 h5 h6 hr li ol p pre s strong table tbody td th thead tr ul"
)
_SCHEMES: Final = frozenset({"http", "https", "mailto"})
_MARK: Final = re.compile(r"[^\w\s,.;:?/%'\"()]")


@dataclass(frozen=True, slots=True)
class Html:
    """A piece of a page that is HTML already; templates do not escape it."""

    text: str

    def __html__(self) -> str:
        """Return the HTML, as templates ask for it."""
        return self.text


def render_markdown(text: str) -> Html:
    """Return a description as HTML without scripts, styles, images and foreign elements.

    Headings begin at the third level, below those of the page.
    """
    if not _is_quick(text):
        return Html(f'<p class="plain">{escape(text)}</p>')
    import nh3

    parser = _parser()
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in {"heading_open", "heading_close"}:
            token.tag = f"h{min(6, int(token.tag[1:]) + 2)}"
        _hide_other_links(token.children or ())
    html = parser.renderer.render(tokens, parser.options, {})
    safe = nh3.clean(
        html,
        tags=set(_ELEMENTS.split()),
        attributes={"a": {"href"}, "ol": {"start"}},
        url_schemes=set(_SCHEMES),
        link_rel="noopener noreferrer external",
    )
    return Html(safe)


@lru_cache(maxsize=4_096)
def plain_line(text: str) -> str:
    """Return the beginning of a description as one line without Markdown marks, for lists."""
    start = text[:_LINE_CHARS]
    if not _MARK.search(start) or not _is_quick(start):
        return " ".join(start.split())
    return " ".join(" ".join(_texts(_parser().parse(start))).split())


def _texts(tokens: "Sequence[Token]") -> "Iterator[str]":
    """Yield the text of each block, the alternative texts of images included."""
    for token in tokens:
        if token.type == "inline":
            yield "".join(
                child.content or " " * child.type.endswith("break")
                for child in token.children or ()
            )
        elif token.type in {"fence", "code_block"}:
            yield token.content


def _is_quick(text: str) -> bool:
    """Return whether a text is rendered in some milliseconds."""
    lines = text.splitlines()
    cells = len(lines) * max((line.count("|") for line in lines), default=0)
    return len(text) <= MAX_CHARS and text.count("[") <= _MAX_BRACKETS and cells <= _MAX_CELLS


@lru_cache(maxsize=1)
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    parser.add_render_rule("image", _image)
    return parser


def _hide_other_links(tokens: "Sequence[Token]") -> None:
    """Leave the texts of links that lead to no place in the web, such as relative ones."""
    hidden = False
    for token in tokens:
        if token.type == "link_open":
            hidden = not _is_link(str(token.attrs.get("href")))
        if token.type in {"link_open", "link_close"}:
            token.hidden = hidden


def _is_link(address: str) -> bool:
    return web_address(address) is not None or address.lower().startswith("mailto:")


def _image(_renderer: Any, tokens: "Sequence[Token]", index: int, _options: Any, _env: Any) -> str:
    """Return an image as a link to it, or as its text within another link."""
    token = tokens[index]
    address = str(token.attrs.get("src", ""))
    text = escape(token.content or address)
    depth = sum(before.nesting for before in tokens[:index] if before.type.startswith("link_"))
    return text if depth or not _is_link(address) else f'<a href="{escape(address)}">{text}</a>'
