"""Named parameters, in a body or in a query, each checked for its type."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import SEARCH_PATTERN_CHARS
from mlcat_ingest.core.text import plural

_SEPARATORS: Final = re.compile("([,()])")
_INTEGER: Final = re.compile("-?[0-9]{1,18}")


def json_object(value: Any, what: str = "the body") -> Mapping[str, Any]:
    """Return `value`, which must be a JSON object.

    Raises:
        BadRequestError: it is something else.
    """
    if not isinstance(value, dict):
        raise BadRequestError(f"{what} must be a JSON object, not {json_type(value)}")
    return value


def json_list(value: Any, what: str, limit: int) -> Sequence[Any]:
    """Return `value`, which must be a JSON list of at most `limit` items.

    Raises:
        BadRequestError: it is something else, or longer.
    """
    if not isinstance(value, list):
        raise BadRequestError(f"{what} must be a list, not {json_type(value)}")
    if len(value) > limit:
        raise BadRequestError(f"{what} has {plural(len(value), 'item')}; the limit is {limit}")
    return value


def check_count(values: Collection[Any], what: str, limit: int) -> None:
    """Check how many `what` a body has in all, however it spreads them over its items.

    Raises:
        BadRequestError: more than `limit`.
    """
    if len(values) > limit:
        raise BadRequestError(
            f"the body has {len(values)} {what}; the limit is {limit}",
            hint="send it in parts",
        )


def required_text(params: Mapping[str, Any], name: str) -> str:
    """Return a text parameter that has to be there.

    Raises:
        BadRequestError: it is missing, empty, or no text.
    """
    value = optional(params, name)
    if not value:
        raise BadRequestError(f"{name}: the parameter is missing")
    return value


def optional(params: Mapping[str, Any], *names: str) -> str | None:
    """Return the first text parameter of `names` that is there.

    Raises:
        BadRequestError: it is no text.
    """
    name, value = _first(params, names)
    if value is not None and not isinstance(value, str):
        raise BadRequestError(f"{name}: expected a string, not {json_type(value)}")
    return value


def _first(params: Mapping[str, Any], names: Iterable[str]) -> tuple[str, Any]:
    """Return the first parameter of `names` that is there, with its name; None without any."""
    present = (name for name in names if params.get(name) is not None)
    name = next(present, "")
    return name, params.get(name)


def urn_pattern(params: Mapping[str, Any], name: str) -> str | None:
    """Return an SQL pattern of URNs, None where there is none.

    Raises:
        BadRequestError: it is no text, or longer than any URN could be.
    """
    pattern = optional(params, name)
    if pattern is not None and len(pattern) > SEARCH_PATTERN_CHARS:
        raise BadRequestError(f"{name}: longer than {SEARCH_PATTERN_CHARS} characters")
    return pattern


def texts(params: Mapping[str, Any], limit: int, *names: str) -> list[str] | None:
    """Return the first list of texts of `names` that is there.

    Raises:
        BadRequestError: it is no list of texts, or longer than `limit`.
    """
    name, items = _first(params, names)
    if items is None:
        return None
    values = json_list(items, name, limit)
    for at, value in enumerate(values):
        if not isinstance(value, str):
            raise BadRequestError(f"{name}[{at}]: expected a string, not {json_type(value)}")
    return list(values)


def flag(params: Mapping[str, Any], *names: str, default: bool = False) -> bool:
    """Return the first boolean parameter of `names` that is there; `default` where none is.

    Raises:
        BadRequestError: it is no boolean.
    """
    name, value = _first(params, names)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise BadRequestError(f"{name}: expected true or false, not {json_type(value)}")
    return value


def whole(params: Mapping[str, Any], name: str, default: int = 0) -> int:
    """Return a whole number, not below zero; texts of digits count as one.

    Raises:
        BadRequestError: it is something else, or beyond 64 bits.
    """
    value = params.get(name)
    if value is None:
        return default
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise BadRequestError(f"{name}: expected a whole number, 0 or more")
    return value


def integer(query: QueryParams, name: str) -> int:
    """Return a parameter of the query that is a whole number of at most 18 digits.

    Raises:
        BadRequestError: it is missing, or something else.
    """
    text = required_text(query, name)
    if _INTEGER.fullmatch(text) is None:
        raise BadRequestError(f"{name}: expected a whole number, not {text!r}")
    return int(text)


def query_flag(query: QueryParams, name: str, *, default: bool = False) -> bool:
    """Return a parameter of the query that is `true` or `false`, in any case.

    Raises:
        BadRequestError: it is something else.
    """
    text = query.get(name)
    if text is None:
        return default
    if text.lower() not in {"true", "false"}:
        raise BadRequestError(f"{name}: expected true or false, not {text!r}")
    return text.lower() == "true"


def query_list(query: QueryParams, name: str) -> list[str] | None:
    """Return the texts of a parameter that may be repeated, and may hold several; None if absent.

    Several are separated by commas, in the `List(a,b)` of Rest.li or without it. A comma inside
    parentheses, as those of a URN, separates nothing.
    """
    texts = query.getlist(name)
    if not texts:
        return None
    inner = [
        text[5:-1] if text.startswith("List(") and text.endswith(")") else text for text in texts
    ]
    return [item for text in inner for part in _split(text) if (item := part.strip())]


def _split(text: str) -> Sequence[str]:
    """Return the parts of `text` between the commas that are not inside parentheses."""
    if "(" not in text:
        return text.split(",")
    parts = [""]
    depth = 0
    for piece in _SEPARATORS.split(text):
        depth += (piece == "(") - (piece == ")")
        if piece == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def json_type(value: Any) -> str:
    """Return what `value` is called in JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"
