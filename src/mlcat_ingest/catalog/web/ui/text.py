"""Values as text for readers: names, kinds, times, addresses; Jinja escapes them."""

import math
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self
from urllib.parse import quote, urlencode

from mlcat_ingest.core.text import in_words
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.registry import ENTITY_TYPES
from mlcat_ingest.metadata.urn import entity_type_of

KIND_LABELS: Final = {
    name: kind.label for name, kind in ENTITY_TYPES.items() if kind.label is not None
}
"""Entity type to what a reader calls it; the ML ones first, in the order of the overview."""

_SUBTYPES: Final = {"MCP_SERVER": "MCP server", "MCP_TOOL": "Tool"}
"""Subtypes that are names of programs, to what a reader calls them."""

# Embeddings, overrides and isolates; marks that stand for themselves are part of some languages.
_REORDERING: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Letters and a symbol by their category, and all of them blank.
_BLANK: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")
_NAMED_MARKS: Final = 8

_MAX_DIGITS: Final = 18
_MOST_WHOLE: Final = 1e9
_SIZES: Final = ("B", "kB", "MB", "GB", "TB")

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def is_visible(text: str) -> bool:
    """Return whether a reader sees anything of `text`: a letter, digit, sign or symbol."""
    return any(unicodedata.category(char)[0] in "LNPS" and char not in _BLANK for char in text)


def visible(text: object) -> str:
    """Return `text` with the marks named that reorder it, or that it solely consists of."""
    given = str(text)
    if given.isascii() or not given.strip():
        return given
    if not is_visible(given):
        return "".join(map(_mark_name, given[:_NAMED_MARKS]))
    return _REORDERING.sub(lambda mark: _mark_name(mark[0]), given)


def _mark_name(mark: str) -> str:
    return f"⟨U+{ord(mark):04X}⟩"


def entity_type(urn: str) -> str:
    """Return the entity type that `urn` names, or an empty text where it is no URN."""
    try:
        return entity_type_of(urn)
    except InvalidUrnError:
        return ""


def kind_name(entity_type: str, *, plural: bool = False) -> str:
    """Return what a reader calls one entity, or several, of `entity_type`."""
    label = KIND_LABELS.get(entity_type)
    return entity_type if label is None else f"{label}s" if plural else label


def subtype_name(subtype: str) -> str:
    """Return what a reader calls a subtype."""
    return _SUBTYPES.get(subtype) or visible(subtype)


def entity_href(urn: str, **query: str | int) -> str:
    """Return the address of the page of `urn`; every character that means something is encoded."""
    address = f"/entity/{quote(urn, safe='', errors='replace')}"
    return f"{address}?{urlencode(query)}" if query else address


def kind_href(entity_type: str, **query: int) -> str:
    """Return the address of the list of all entities of a type."""
    address = f"/kind/{quote(entity_type, safe='')}"
    return f"{address}?{urlencode(query)}" if query else address


def web_address(value: object) -> str | None:
    """Return `value` if it is safe to link to: an http or https address without white space."""
    if not isinstance(value, str) or any(char.isspace() for char in value):
        return None
    return value if value.lower().startswith(("http://", "https://")) else None


def moment(milliseconds: object) -> str:
    """Return a time given in epoch milliseconds as a reader writes it, with its zone."""
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return ""
    try:
        when = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return when.strftime("%Y-%m-%d %H:%M UTC")


def duration(milliseconds: str) -> str:
    """Return a duration in words, `4 ms`, `25 s`, `3 min 5 s`, `3 d 1 h`; other text as it is."""
    if not _is_count(milliseconds):
        return milliseconds
    count = int(milliseconds)
    if count < 1_000:
        return f"{count} ms"
    if count < 10_000:
        return f"{count / 1_000:.1f} s"
    left, parts = count // 1_000, []
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")):
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2])


def stamp(value: object) -> str:
    """Return the time of an audit stamp or a time stamp, or an empty text."""
    return moment(value.get("time")) if isinstance(value, Mapping) else ""


def created_at(properties: Mapping[str, Any]) -> str:
    """Return when an entity was made, or an empty text; the search index takes the same fields."""
    created = stamp(properties.get("created"))
    return created or moment(properties.get("createdAt")) or moment(properties.get("date"))


def scalar(value: Any) -> str:
    """Return a JSON scalar, or a value in a one-key union wrapper, as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and len(value) == 1:
        (value,) = value.values()
    return str(value) if isinstance(value, list | dict) else in_words(value)


def is_finite(value: str | None) -> bool:
    """Return whether a text is a finite number."""
    try:
        return math.isfinite(float(value or ""))
    except ValueError:
        return False


class Rounded(str):
    """A text with rounded numbers; `full` is the same with the numbers as they are stored."""

    __slots__ = ("full",)
    full: str

    def __new__(cls, text: str, full: str) -> Self:
        """Return `text`, which is rounded from `full`."""
        made = super().__new__(cls, text)
        made.full = full
        return made


def rounded(value: str) -> Rounded:
    """Return what `_short_number` makes of a text, with the number as it is stored."""
    short = _short_number(value)
    return Rounded(short, value if is_finite(value) and float(short) != float(value) else short)


def file_size(size: str) -> str:
    """Return a number of bytes as a reader writes it: `812 B`, `1.5 MB`; other text as it is."""
    if not _is_count(size):
        return size
    power = min((len(size) - 1) // 3, len(_SIZES) - 1)
    return f"{_short_number(f'{int(size) / 1_000**power:.3g}')} {_SIZES[power]}"


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS


def _short_number(value: str) -> str:
    """Return a number with at most six significant digits, a count whole; other text as it is."""
    if not is_finite(value):
        return value
    number = float(value)
    is_count = number.is_integer() and 0 < abs(number) < _MOST_WHOLE
    return f"{number:.0f}" if is_count else f"{number:.6g}"
