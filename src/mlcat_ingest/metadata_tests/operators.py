"""The operators of metadata tests: comparisons of a property's values with those of a test.

A property has any number of values and so has a test; a comparison holds when it holds between
any value of the one and any of the other. Two numbers (also as text, which is
how metrics are stored) compare as numbers, exactly; other values compare as text. An unset
property passes no operator but `not`. A regular expression has to match a whole text; its syntax
is that of RE2, which takes linear time.
"""

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import cache, lru_cache
from types import ModuleType
from typing import Any, Final, Protocol

from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.errors import DefinitionError

PATTERN_CHARS: Final = 512
"""Longest regular expression that a metadata test may hold, in characters."""

PATTERN_TEXT_CHARS: Final = 10_000
"""Longest text that a regular expression is tried on, in characters; a longer never matches."""

_PATTERN_BYTES: Final = 64 * 1024  # most memory that one compiled expression may take

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


def text_of(value: object) -> str | None:
    """Return a scalar as the text that a test would spell, None for objects and lists."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else None


def _equal(have: object, want: str) -> bool:
    left, right = number(have), number(want)
    if left is not None and right is not None:
        return left == right
    return text_of(have) == (want.lower() if isinstance(have, bool) else want)


def _equals(have: Sequence[Any], want: Sequence[str]) -> bool:
    return any(_equal(value, other) for value in have for other in want)


def _not(have: Sequence[Any], want: Sequence[str]) -> bool:
    return not _equals(have, want)


def _texts(have: Sequence[Any]) -> list[str]:
    return [text for value in have if (text := text_of(value)) is not None]


def _starts_with(have: Sequence[Any], want: Sequence[str]) -> bool:
    return any(value.startswith(tuple(want)) for value in _texts(have))


def _contains_str(have: Sequence[Any], want: Sequence[str]) -> bool:
    return any(other in value for value in _texts(have) for other in want)


def _numbers(values: Sequence[Any]) -> list[Decimal]:
    return [numeric for value in values if (numeric := number(value)) is not None]


def _greater_than(have: Sequence[Any], want: Sequence[str]) -> bool:
    return any(left > right for left in _numbers(have) for right in _numbers(want))


def _less_than(have: Sequence[Any], want: Sequence[str]) -> bool:
    return any(left < right for left in _numbers(have) for right in _numbers(want))


class Pattern(Protocol):
    """The methods used of a regular expression compiled by RE2, whose library has no types."""

    @property
    def pattern(self) -> str:
        """The text that was compiled."""

    def fullmatch(self, text: str) -> object | None:
        """Return None where the pattern does not match the whole of `text`."""


def compile_pattern(text: str) -> Pattern:
    """Return the regular expression `text`, compiled.

    Raises:
        DefinitionError: the pattern is malformed, too long, or too large when compiled.
        MissingExtraError: RE2 is not installed.
    """
    if len(text) > PATTERN_CHARS:
        raise DefinitionError(f"is longer than {PATTERN_CHARS} characters")
    re2, options = _re2()
    try:
        compiled: Pattern = re2.compile(text, options)
    except re2.error as error:
        raise DefinitionError(f"is invalid: {error.args[0].decode()}") from error
    return compiled


@cache
def _re2() -> tuple[ModuleType, object]:
    """Return RE2 and the options of every pattern."""
    require_extra("tests", "a regular expression in a metadata test")
    import re2

    options = re2.Options()
    options.max_mem = _PATTERN_BYTES
    options.log_errors = False  # else RE2 itself writes each refused pattern to stderr
    options.never_capture = True  # only the answer yes or no is needed
    return re2, options


def matches(pattern: Pattern, text: str) -> bool:
    """Return whether `pattern` matches the whole of `text`; a text that is too long never does."""
    return len(text) <= PATTERN_TEXT_CHARS and pattern.fullmatch(text) is not None


def regex_match(have: Sequence[Any], patterns: Sequence[Pattern]) -> bool:
    """Return whether one of `patterns` matches the whole of one of the values."""
    return any(matches(pattern, value) for value in _texts(have) for pattern in patterns)


def _exists(have: Sequence[Any], _want: Sequence[str]) -> bool:
    # Text, lists and objects with nothing in them are how clients write "unset".
    return any(value not in ("", {}, []) for value in have)


def _is_true(have: Sequence[Any], _want: Sequence[str]) -> bool:
    return any(text.lower() == "true" for text in _texts(have))


def _is_false(have: Sequence[Any], _want: Sequence[str]) -> bool:
    return any(text.lower() == "false" for text in _texts(have))


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
