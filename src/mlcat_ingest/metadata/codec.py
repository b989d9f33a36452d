"""JSON that loses nothing: orjson, and the standard library where orjson would change a number.

orjson writes NaN and infinities as `null` and reads integers beyond 64 bits as floats. Both are
silent losses, so both are caught here: whatever makes JSON of a value raises as `dumps`.
"""

import hashlib
import json
import math
from codecs import register_error
from collections.abc import Callable, Collection
from enum import Enum
from typing import Any, Final, TypeAlias
from uuid import UUID

import orjson

from mlcat_ingest.errors import CodecError

# An integer that may pass 64 bits has 19 digits or more, after one of the bytes that a JSON number
# can follow. Translating and searching is ten times as fast as a regular expression.
_TO_SHAPE: Final = bytes.maketrans(b"123456789,[- \t\r\n", b"000000000:::::::")
_LONG_INTEGER: Final = b":" + b"0" * 19
_PLAIN: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_SORTED: Final = _PLAIN | orjson.OPT_SORT_KEYS
_TEXT: Final = frozenset({str})
_MIN_INTEGER: Final = -(2**63)
_MAX_INTEGER: Final = 2**64 - 1

JsonObject: TypeAlias = dict[str, Any]
"""A decoded JSON object; its values are checked where they are read."""


def dumps(value: object, option: int = _PLAIN) -> bytes:
    """Return `value` as compact UTF-8 JSON, keys in their own order but for an orjson `option`.

    Raises:
        CodecError: `value` holds NaN, an infinity, an integer beyond 64 bits, a key that is not a
            string, a lone surrogate, more than 250 levels, or something that is not JSON.
    """
    try:
        data = orjson.dumps(value, None, option)
    except TypeError as error:
        raise CodecError(_complaint(value) or f"no faithful JSON form: {error}") from error
    # A non-finite float is the only way besides None to a null, so most values need no walk.
    if b"null" in data and (complaint := _complaint(value)) is not None:
        raise CodecError(complaint, hint="write it as text")
    return data


def embedded(text: str) -> object:
    """Return JSON text as a part of a value for `dumps`, which writes it as it is."""
    return orjson.Fragment(text)


def aspect_text(value: object) -> str:
    """Return `value` as the JSON text of `GenericAspect.value`, in ASCII.

    That field is of bytes, so each character of the text is one byte; others are escaped.

    Source: `GenericAspect.pdl`; `_make_generic_aspect` of the DataHub SDK 1.7.
    """
    text = dumps(value).decode()
    # Outside of strings JSON is ASCII.
    return text if text.isascii() else text.encode("ascii", _ESCAPED).decode()


_ESCAPED: Final = "mlcat_json"


def _escape(error: UnicodeError) -> tuple[str, int]:
    """Return the characters that are not ASCII as JSON escapes them, and where they end."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


register_error(_ESCAPED, _escape)


def canonical(value: object) -> bytes:
    """Return `value` as JSON with sorted keys: equal values give equal bytes."""
    return dumps(value, _SORTED)


def canonical_bytes(value: object) -> bytes:
    """Return the canonical JSON of `value`, or some bytes of its own where it has no JSON form."""
    try:
        return dumps(value, _SORTED)
    except CodecError:
        return repr(value).encode("utf-8", "backslashreplace")


def content_hash(value: object) -> str:
    """Return the content hash of `value`: 32 hex digits of SHA-256 over its canonical JSON."""
    return hashlib.sha256(canonical(value)).hexdigest()[:32]


def record_hash(value: object, parts_of: Callable[[object], object] | None = None) -> str | None:
    """Return the hash of a value of any types, None for one that no text can be made of.

    `parts_of` takes apart what is no JSON. A number that is not finite counts as a null. For what
    orjson refuses, the standard library makes the text. Keys count in their order.
    """
    data = text_of(value, parts_of)
    if data is None:
        try:
            data = json.dumps(value, default=parts_of or list).encode()
        except (TypeError, ValueError, RecursionError):
            return None
    return hashlib.sha256(data).hexdigest()[:32]


def text_of(value: object, parts_of: Callable[[object], object] | None = None) -> bytes | None:
    """Return JSON with all texts in `value`, though not all numbers; None where it has no JSON."""
    try:
        return orjson.dumps(value, parts_of, _PLAIN)
    except TypeError:
        return None


def _complaint(value: object) -> str | None:
    """Return the part of `value` that has no JSON form, and its place; None if it is not found."""
    try:
        fault = _fault(value)
    except RecursionError:
        return "no faithful JSON form: nested too deeply"
    if fault is None:
        return None
    path, what = fault
    return f"no faithful JSON form: {what} at ${path}"


def _fault(value: object) -> tuple[str, str] | None:
    """Return the path to the first thing that has no JSON form, and what it is."""
    if isinstance(value, dict):
        return _fault_in_object(value)
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            if (fault := _fault(item)) is not None:
                return f"[{index}]{fault[0]}", fault[1]
        return None
    what = _fault_of_scalar(value)
    return None if what is None else ("", what)


def _fault_of_scalar(value: object) -> str | None:
    match value:
        case None:
            return None
        case str():
            return None if _encodable(value) else "a lone surrogate"
        case float():
            return None if math.isfinite(value) else str(value)
        case int():
            return None if _MIN_INTEGER <= value <= _MAX_INTEGER else "an integer beyond 64 bits"
        case Enum() | UUID() | orjson.Fragment():  # orjson has a form for these
            return None
        case _:
            return f"a {type(value).__name__}"


def _fault_in_object(value: dict[object, object]) -> tuple[str, str] | None:
    for key, item in value.items():
        if not isinstance(key, str):
            return "", f"a key that is not text ({key!r})"
        if not _encodable(key):
            return "", f"a lone surrogate in a key ({key!r})"
        if (fault := _fault(item)) is not None:
            return f".{key}{fault[0]}", fault[1]
    return None


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def loads(data: bytes | str) -> Any:
    """Return the value of a JSON text; integers of any width stay whole.

    Raises:
        CodecError: the text is not JSON in UTF-8, or holds NaN, an infinity, a number too large
            for a float, an integer of more than 4300 digits, a lone surrogate, or more than
            1000 levels.
    """
    try:
        raw = data.encode() if isinstance(data, str) else data
        try:
            value = orjson.loads(raw)
        except ValueError:
            if not _may_hold_long_integer(raw):
                raise
            return _loads_wide(raw)
        # An object of texts alone, such as the tags of a run, has no number that was changed.
        is_text = type(value) is dict and _TEXT.issuperset(map(type, value.values()))
        return value if is_text or not _may_hold_long_integer(raw) else _loads_wide(raw)
    except RecursionError as error:
        raise CodecError("not usable JSON: nested too deeply") from error
    except ValueError as error:
        raise CodecError(f"not usable JSON: {error}") from error


def floats(texts: Collection[Any]) -> list[float] | None:
    """Return the numbers that all of `texts` are in JSON; None where one is not, or too large."""
    try:
        numbers = orjson.loads(f"[{','.join(texts)}]")
    except (TypeError, ValueError):
        return None
    types = {*map(type, numbers)}
    # A text with a comma in it shows as one number more, or in brackets or quotes.
    if len(numbers) != len(texts) or not types <= {float, int}:
        return None
    return numbers if types == {float} else [*map(float, numbers)]


def _may_hold_long_integer(raw: bytes) -> bool:
    shape = raw.translate(_TO_SHAPE)
    return _LONG_INTEGER in shape or shape.startswith(_LONG_INTEGER[1:])


def _loads_wide(raw: bytes) -> Any:
    value = json.loads(raw.decode(), parse_constant=_refuse_constant, parse_float=_finite)
    if b"\\u" in raw:
        # Half a surrogate pair reads well and cannot be written; orjson refuses it at once.
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is too large for a float")
    return value
