"""Text that several layers make alike, and text of foreign origin on one line."""

import json
import re
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Terminal escapes, line breaks, direction overrides, lone surrogates: names of sources are hostile.
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

_TAG: Final = re.compile(r"<(script|style)\b.*?</\1\s*>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_PAGE_BYTES: Final = 10_000
_LINE: Final = 200


def json_or_none(text: object) -> Any:
    """Return the JSON value that `text` holds, None where it holds none."""
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def in_words(value: Any, levels: int = 20) -> str:
    """Return a JSON value in words: the entries of a list, `name: value` of an object.

    What is more than `levels` deep, in hostile values only, is `…`.
    """
    inner = partial(in_words, levels=levels - 1)
    match value:
        case list() | dict() if not levels:
            return "…"
        case list():
            return ", ".join(
                " ".join(map(inner, one.values())) if isinstance(one, dict) else inner(one)
                for one in value
            )
        case dict():
            return ", ".join(f"{name}: {inner(one)}" for name, one in value.items())
        case bool():
            return "true" if value else "false"
        case _:
            return "" if value is None else str(value)


def compact_json(value: Any) -> str:
    """Return `value` as JSON without blanks, non-ASCII text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def utc_second(epoch_ms: int) -> str:
    """Return a time of epoch milliseconds to the second: "2026-01-31 12:00:00 UTC"."""
    return f"{datetime.fromtimestamp(epoch_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun in the number that agrees: "1 event", "2,000 events"."""
    if nouns is None:
        ends_in_y = noun.endswith("y") and noun[-2:-1] not in "aeiou"
        nouns = f"{noun[:-1]}ies" if ends_in_y else f"{noun}s"
    return f"{count:,} {noun if count == 1 else nouns}"


def whole_characters(text: str) -> str:
    """Return `text` with U+FFFD for every lone surrogate, for names in URNs."""
    return text if text.isprintable() else _SURROGATE.sub("\ufffd", text)


def printable(text: str) -> str:
    """Return `text` on one line, what a terminal would act on written as escapes."""
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def cut(text: str, longest: int) -> str:
    """Return `text`, cut to `longest` characters, the last of which says that more was there."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def truncation(characters: int | str) -> str:
    """Return the ending of a text that was cut, and had so many characters."""
    return f"… [truncated, {characters} characters]"


def visible_text(content: bytes) -> str:
    """Return the text of a body; of a web page, the beginning without its markup."""
    if b"<" not in content:
        return content.decode("utf-8", "replace")
    # Half a MiB of names of characters, which a run without refusals never needs.
    import html

    return html.unescape(_TAG.sub(" ", content[:_PAGE_BYTES].decode("utf-8", "replace")))


def first_line(content: bytes) -> str:
    """Return the first line of a body that has a text, cut to a length."""
    lines = (" ".join(line.split()) for line in visible_text(content[:_PAGE_BYTES]).splitlines())
    return printable(next(filter(None, lines), "")[:_LINE])
