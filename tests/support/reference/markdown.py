"""Text of docstrings and descriptions as Markdown: paragraphs, lists, tables, anchors."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from typing import Final

WIDTH: Final = 138
_CODE: Final = re.compile(r"``.*?``|`[^`]*`", re.DOTALL)
_LOOKS_LIKE_CODE: Final = re.compile(
    r"\w+://[^\s,;)]*[^\s,;).:]|(?<![\w/-])--?[a-z][a-z-]*\b|\b[A-Z]+_[A-Z0-9_]+\b|~/[\w./-]*\w"
    r"|(?<!\w)_[A-Z]+\b"
)
_SENTENCE_END: Final = re.compile(r"(?<=[a-z0-9)`\"'}A-Z][.])\s+(?=[A-Z`])")


def sentences(text: str) -> list[str]:
    """Return the sentences of a text, their line breaks gone."""
    return _SENTENCE_END.split(" ".join(text.split()))


def inline(text: str) -> str:
    """Return text on one line, with what is code as code, and nothing that Markdown would read."""
    plain = " ".join(text.split())
    parts = []
    at = 0
    for code in _CODE.finditer(plain):
        parts += [_outside_code(plain[at : code.start()]), code[0]]
        at = code.end()
    return "".join([*parts, _outside_code(plain[at:])])


def _outside_code(text: str) -> str:
    parts = []
    at = 0
    for code in _LOOKS_LIKE_CODE.finditer(text):
        parts += [_escaped(text[at : code.start()]), f"`{code[0]}`"]
        at = code.end()
    return "".join([*parts, _escaped(text[at:])])


def _escaped(text: str) -> str:
    return re.sub(r"([<*]|\](?=\())", r"\\\1", text)


def paragraph(text: str, indent: str = "") -> str:
    """Return Markdown text wrapped to the width of the pages."""
    return _wrapped(text, indent, indent)


def bullet(text: str) -> str:
    """Return an entry of a list."""
    return _wrapped(text, "- ", "  ")


def _wrapped(text: str, first: str, further: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; empty without rows."""
    lines = [_row(row) for row in rows]
    return "\n".join([_row(head), f"|{'---|' * len(head)}", *lines]) if lines else ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def anchors(text: str) -> list[str]:
    """Return the anchor of each heading, as a repository's web page names it."""
    found: list[str] = []
    for heading in re.findall(r"(?m)^#+ (.+)$", text):
        plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", plain.strip().lower()).replace(" ", "-")
        number = sum(one == name or re.fullmatch(rf"{name}-\d+", one) is not None for one in found)
        found.append(f"{name}-{number}" if number else name)
    return found
