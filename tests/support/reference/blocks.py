"""The blocks of a page that are made from code; the text around them is written by hand.

    <!-- keys mlcat_ingest.recipe.model:Recipe -->
    …
    <!-- end of keys -->

The first word names the maker of the block, and the rest is its argument.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple

from support.reference.markdown import anchors

_BLOCK: Final = re.compile(
    r"(?ms)^<!-- (?P<maker>\w+)(?: (?P<argument>[^\n]*))? -->\n.*?^<!-- end of (?P=maker) -->$"
)
_HEADING: Final = re.compile(r"(?m)^(?P<level>#+) (?P<title>.+)$")
_FENCED: Final = re.compile(r"(?ms)^ *```.*?^ *```$")


class Heading(NamedTuple):
    """A heading, and its anchor."""

    title: str
    anchor: str


@dataclass(frozen=True)
class Page:
    """A page as it is written by hand, and the heading that each of its blocks is under."""

    text: str
    headings: Mapping[str, Heading] = field(default_factory=dict)
    """By the argument of the block, or its maker where it has none."""

    @classmethod
    def of(cls, text: str) -> "Page":
        """Return the page with this text."""
        found = {at: Heading(title, anchor) for at, _, title, anchor in _headings(text)}
        headings = {}
        for block in _BLOCK.finditer(text):
            before = max(at for at in found if at < block.start())
            headings[block["argument"] or block["maker"]] = found[before]
        return cls(text, headings)

    def arguments(self, maker: str) -> list[str]:
        """Return the arguments of the blocks of a maker, in their order."""
        return [
            one["argument"] or "" for one in _BLOCK.finditer(self.text) if one["maker"] == maker
        ]


Maker = Callable[[str, Page], str]
"""Returns the text of a block, from its argument and the page that it is on."""


def filled(text: str, makers: Mapping[str, Maker]) -> str:
    """Return a page with all of its blocks made anew, the table of contents as the last."""
    for one in (makers, {"contents": _contents}):
        text = _BLOCK.sub(partial(_made, makers=one, page=Page.of(text)), text)
    return text


def _made(block: re.Match[str], makers: Mapping[str, Maker], page: Page) -> str:
    make = makers.get(block["maker"])
    if make is None:
        return block[0]
    head = block[0].partition("\n")[0]
    made = make(block["argument"] or "", page).strip("\n")
    return f"{head}\n\n{made}\n\n<!-- end of {block['maker']} -->"


def _contents(levels: str, page: Page) -> str:
    """Return links to the headings of the page, down to level `levels`, or 2."""
    return "\n".join(
        f"{'  ' * (level - 2)}- [{title}](#{anchor})"
        for _, level, title, anchor in _headings(page.text)
        if 2 <= level <= int(levels or 2)
    )


def _headings(text: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield each heading: its place, level, title and anchor."""
    # Blanks for code keep the places.
    bare = _FENCED.sub(lambda block: re.sub(r"[^\n]", " ", block[0]), text)
    for found, anchor in zip(_HEADING.finditer(bare), anchors(bare), strict=True):
        yield found.start(), len(found["level"]), found["title"], anchor
