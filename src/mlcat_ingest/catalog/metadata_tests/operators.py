"""The operators of metadata tests: how the values of a property compare with those of a test.

A property has any number of values and so has a test; a comparison holds when it holds between
any value of the one and any of the other. Where both sides are numbers (also as text, which is
how metrics are stored) they compare as numbers, exactly; other values compare as text. An unset
property passes no operator but `not`.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from mlcat_ingest.catalog.metadata_tests.patterns import Pattern, matches

Scalar = str | int | float | bool

Operator = Callable[[Sequence[Any], Sequence[str]], bool]
"""Takes the values of the property and those of the test; returns whether the predicate holds."""

_NUMBER = re.compile(r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d{1,6})?|[iI]nf(?:inity)?)")
_MAX_NUMBER_CHARS = 400


@lru_cache(maxsize=4_096)
def _number_of_text(text: str) -> Decimal | None:
    if len(text) > _MAX_NUMBER_CHARS or _NUMBER.fullmatch(text) is None:
        return None
    return Decimal(text)


def number(value: object) -> Decimal | None:
    """Return `value` as an exact number, or None where it is none (booleans are none)."""
    if isinstance(value, str):
        return _number_of_text(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number_of_text(repr(value))
    return None


def text(value: object) -> str | None:
    """Return a scalar as the text that a test would spell, None for objects and lists."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else None


def _same(have: object, want: str) -> bool:
    left, right = number(have), number(want)
    if left is not None and right is not None:
        return left == right
    if isinstance(have, bool):
        return text(have) == want.lower()
    return text(have) == want


def _equals(have: Sequence[Any], want: Sequence[str]) -> bool:
    return any(_same(value, other) for value in have for other in want)


def _not(have: Sequence[Any], want: Sequence[str]) -> bool:
    return not _equals(have, want)


def _texts(have: Sequence[Any]) -> list[str]:
    return [spelled for value in have if (spelled := text(value)) is not None]


def _starts_with(have: Sequence[Any], want: Sequence[str]) -> bool:
    return any(value.startswith(tuple(want)) for value in _texts(have))


def _contains_str(have: Sequence[Any], want: Sequence[str]) -> bool:
    return any(other in value for value in _texts(have) for other in want)


def regex_match(have: Sequence[Any], patterns: Sequence[Pattern]) -> bool:
    """Return whether one of `patterns` describes the whole of one of the values."""
    return any(matches(pattern, value) for value in _texts(have) for pattern in patterns)


def _numbers(values: Sequence[Any]) -> list[Decimal]:
    return [found for value in values if (found := number(value)) is not None]


def _greater_than(have: Sequence[Any], want: Sequence[str]) -> bool:
    return any(left > right for left in _numbers(have) for right in _numbers(want))


def _less_than(have: Sequence[Any], want: Sequence[str]) -> bool:
    return any(left < right for left in _numbers(have) for right in _numbers(want))


def _exists(have: Sequence[Any], _want: Sequence[str]) -> bool:
    # Text, lists and objects with nothing in them are how clients write "unset".
    return any(value not in ("", {}, []) for value in have)


def _is_true(have: Sequence[Any], _want: Sequence[str]) -> bool:
    return any((text(value) or "").lower() == "true" for value in have)


def _is_false(have: Sequence[Any], _want: Sequence[str]) -> bool:
    return any((text(value) or "").lower() == "false" for value in have)


OPERATORS: Final[dict[str, Operator]] = {
    "equals": _equals,
    "within": _equals,
    "contains_any": _equals,
    "not": _not,
    "starts_with": _starts_with,
    "contains_str": _contains_str,
    "greater_than": _greater_than,
    "less_than": _less_than,
    "exists": _exists,
    "is_true": _is_true,
    "is_false": _is_false,
    # Its values are one boolean, made by `properties` from the two aspects that hold descriptions.
    "schema_fields_have_descriptions": _is_true,
}
"""The operators by name, but for `regex_match`, which takes compiled patterns."""

NAMES: Final = frozenset({*OPERATORS, "regex_match"})
"""The names of all operators."""

UNARY: Final = frozenset({"exists", "is_true", "is_false", "schema_fields_have_descriptions"})
"""Operators that need no values."""

NUMERIC: Final = frozenset({"greater_than", "less_than"})
"""Operators whose values have to be numbers."""
