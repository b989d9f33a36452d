"""Text from MLflow made fit for the catalog: no half characters, no controls, not too long."""

import json
import math
import re
from collections.abc import Collection, Sequence
from typing import Any, Final

from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import dumps
from mlcat_ingest.metadata.proposal import Note

# Control characters but tab, newline and carriage return; and halves of surrogate pairs.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_CUT = re.compile(r"… \[truncated, (\d+) characters\]$")

SQL_CLAMP: Final = 1.7976931348623157e308
"""The largest finite double: MLflow's SQL stores write it in place of infinity."""

MAX_INT64: Final = 2**63 - 1


def clean(text: str, notes: list[Note], where: str) -> str:
    """Return `text` with U+FFFD for every control character and half surrogate pair."""
    if text.isprintable() or _UNFIT.search(text) is None:
        return text
    notes.append(Note("characters_replaced", where))
    return _UNFIT.sub("\ufffd", text)


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text` and, if there were more, how many there were.

    A text that was cut before still tells how long it was at first.
    """
    if len(text) <= limit:
        return text
    before = _CUT.search(text)
    found = before[1] if before else str(len(text))
    return f"{text[:limit]}… [truncated, {found} characters]"


def fit(text: str, limit: int, notes: list[Note], where: str) -> str:
    """Return `text` cleaned and cut to `limit` characters; a note says what was done."""
    if len(text) > limit:
        notes.append(Note("truncated", f"{where}: {len(text)} characters"))
        return cut(clean(text, notes, where), limit)
    return clean(text, notes, where)


def are_fit(texts: Collection[str], limit: int) -> bool:
    """Return whether `fit` would change none of `texts`, at a look at all of them together.

    False may also mean that some have line breaks, which are fit.
    """
    joined = "".join(texts)
    return joined.isprintable() and (len(joined) <= limit or max(map(len, texts)) <= limit)


def fit_or_none(text: str | None, limit: int, notes: list[Note], where: str) -> str | None:
    """Return `text` as `fit` does, None where there is none."""
    return fit(text, limit, notes, where) if text else None


def compact_json(value: Any) -> str:
    """Return `value` as JSON without blanks, non-ASCII text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def number_text(value: float) -> str:
    """Return the shortest text that reads back as `value`; NaN and infinities by name.

    The largest finite double stands for an infinity that a SQL store clamped.
    """
    if -SQL_CLAMP < value < SQL_CLAMP:
        return repr(value)
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def number_texts(values: Sequence[float]) -> list[str]:
    """Return `number_text` of each value; of ordinary ones all at once, three times as fast."""
    try:
        data = dumps(values)
    except CodecError:
        return list(map(number_text, values))  # one of them is not finite
    # Elsewhere JSON writes a number as Python does; these may have an exponent in one of them.
    if b"e" in data or b"0.0000" in data:
        return list(map(number_text, values))
    return data[1:-1].decode().split(",") if values else []


def timestamp(value: int | None, notes: list[Note], where: str) -> int | None:
    """Return epoch milliseconds if they fit the catalog's 64 bits, else None and a note."""
    if value is None or -MAX_INT64 <= value <= MAX_INT64:
        return value
    notes.append(Note("invalid_time", where))
    return None
