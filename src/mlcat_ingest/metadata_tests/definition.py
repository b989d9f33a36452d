"""Definitions of metadata tests: the JSON text of a `testInfo` aspect, read into predicates.

    {"on": {"types": [...], "conditions": PREDICATE}, "rules": PREDICATE, "actions": {...}}

PREDICATE is ``{"property", "operator", "values"}``, ``{"and": …}``, ``{"or": …}``, ``{"not": …}``
or an array, which means all of them; what follows and/or/not is one predicate or an array. The
older spellings ``match``, ``query``, ``operation`` and ``params`` are read too. Unknown fields
are ignored; `actions` are kept with the definition and not carried out.

A property has any number of values and so has a test; a comparison holds when it holds between
any value of the one and any of the other. Two numbers (also as text, which is how metrics are
stored) compare as numbers, exactly; other values compare as text. An unset property passes no
operator but `not`. A regular expression has to match a whole text; its syntax is that of RE2, which
takes linear time.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache, lru_cache
from itertools import product, starmap
from operator import gt, lt
from types import ModuleType
from typing import Any, Final, Protocol

from mlcat_ingest.core.environment import require_extra
from mlcat_ingest.errors import CodecError, DefinitionError
from mlcat_ingest.metadata.codec import loads

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


def _texts(have: Sequence[Any]) -> list[str]:
    return [text for value in have if (text := text_of(value)) is not None]


def _numbers(values: Sequence[Any]) -> list[Decimal]:
    return [numeric for value in values if (numeric := number(value)) is not None]


class _Pattern(Protocol):
    """The methods used of a regular expression compiled by RE2, whose library has no types."""

    @property
    def pattern(self) -> str:
        """The text that was compiled."""

    def fullmatch(self, text: str) -> object | None:
        """Return None where the pattern does not match the whole of `text`."""


def _compile_pattern(text: str) -> _Pattern:
    """Return the regular expression `text`, compiled.

    Raises:
        DefinitionError: the pattern is malformed, too long, or too large when compiled.
        MissingExtraError: RE2 is not installed.
    """
    if len(text) > PATTERN_CHARS:
        raise DefinitionError(f"is longer than {PATTERN_CHARS} characters")
    re2, options = _re2()
    try:
        compiled: _Pattern = re2.compile(text, options)
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


def matches(pattern: _Pattern, text: str) -> bool:
    """Return whether `pattern` matches the whole of `text`; a text that is too long never does."""
    return len(text) <= PATTERN_TEXT_CHARS and pattern.fullmatch(text) is not None


def regex_match(have: Sequence[Any], patterns: Sequence[_Pattern]) -> bool:
    """Return whether one of `patterns` matches the whole of one of the values."""
    return any(matches(pattern, value) for value in _texts(have) for pattern in patterns)


def _says(word: str) -> Operator:
    return lambda have, _want: any(text.lower() == word for text in _texts(have))


OPERATORS: Final[dict[str, Operator]] = {
    "equals": _equals,
    "within": _equals,
    "contains_any": _equals,
    "not": lambda have, want: not _equals(have, want),
    "starts_with": lambda have, want: any(text.startswith(tuple(want)) for text in _texts(have)),
    "contains_str": lambda have, want: any(one in text for text in _texts(have) for one in want),
    "greater_than": lambda have, want: any(starmap(gt, product(_numbers(have), _numbers(want)))),
    "less_than": lambda have, want: any(starmap(lt, product(_numbers(have), _numbers(want)))),
    # Text, lists and objects with nothing in them are how clients write "unset".
    "exists": lambda have, _want: any(value not in ("", {}, []) for value in have),
    "is_true": _says("true"),
    "is_false": _says("false"),
    # Its values are one boolean, made by `properties` from the two aspects that hold descriptions.
    "schema_fields_have_descriptions": _says("true"),
}
"""The operators by name, but for `regex_match`, which takes compiled patterns."""

NAMES: Final = frozenset({*OPERATORS, "regex_match"})
"""The names of all operators."""

UNARY: Final = frozenset({"exists", "is_true", "is_false", "schema_fields_have_descriptions"})
"""Operators that need no values."""

NUMERIC: Final = frozenset({"greater_than", "less_than"})
"""Operators whose values have to be numbers."""


MAX_DEFINITION_BYTES: Final = 64 * 1024
"""Longest definition, in bytes of UTF-8."""

MAX_PREDICATES: Final = 500
"""Most predicates in one definition, the nested ones counted."""

MAX_DEPTH: Final = 32
"""Deepest nesting of and, or, not and arrays."""

MAX_PATTERNS: Final = 50
"""Most regular expressions in one definition."""

FIELDS_DESCRIBED: Final = "__schemaFieldsDescribed"
"""The path that gives one boolean: every schema field of a dataset has a description."""

_MAX_PROPERTY_CHARS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """One comparison: the values at `path` against `values`, which `patterns` has compiled."""

    path: str
    operator: str
    values: tuple[str, ...]
    patterns: tuple[_Pattern, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class All:
    """Holds where all of `parts` hold; with none it holds."""

    parts: "tuple[Predicate, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Holds where one of `parts` holds; with none it does not."""

    parts: "tuple[Predicate, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """Holds where `part` does not."""

    part: "Predicate"


Predicate = Comparison | All | AnyOf | Not


@dataclass(frozen=True, slots=True)
class Definition:
    """The selection of a test, by which entities are chosen, and its rules.

    `types` are entity types in lower case without underscores; a test with none is about nothing.
    """

    types: frozenset[str]
    conditions: Predicate
    rules: Predicate

    def covers(self, entity_type: str) -> bool:
        """Return whether entities of `entity_type` can be selected by this test."""
        return _plain_type(entity_type) in self.types

    def comparisons(self) -> Iterator[Comparison]:
        """Yield every comparison in the test."""
        yield from comparisons(self.conditions)
        yield from comparisons(self.rules)

    def paths(self) -> Iterator[str]:
        """Yield the property path of every comparison; a path may come more than once."""
        return (one.path for one in self.comparisons())


def is_empty(definition: object) -> bool:
    """Return whether a test has no content yet, as some of DataHub's sample data."""
    return isinstance(definition, str) and definition.strip() == "{}"


def read_definition(definition: object) -> Definition:
    """Return the definition in a JSON text.

    Raises:
        DefinitionError: it is rejected; all of its problems are listed.
        MissingExtraError: it holds a regular expression, and RE2 is not installed.
    """
    if not isinstance(definition, str):
        raise DefinitionError("is not a string")
    return _parse(definition)


@lru_cache(maxsize=512)
def _parse(text: str) -> Definition:
    if len(text.encode("utf-8", "surrogatepass")) > MAX_DEFINITION_BYTES:
        raise DefinitionError(f"is longer than {MAX_DEFINITION_BYTES} bytes")
    try:
        body = loads(text)
    except CodecError as error:
        raise DefinitionError(f"is {error.message}") from None
    reader = _DefinitionReader()
    definition = reader.definition(body)
    if reader.problems:
        raise DefinitionError(*reader.problems)
    return definition


def _plain_type(entity_type: str) -> str:
    """Let `mlModel` and GraphQL's `MLMODEL`, `mlModelGroup` and `MLMODEL_GROUP` be the same."""
    return entity_type.replace("_", "").lower()


def comparisons(predicate: Predicate) -> Iterator[Comparison]:
    """Yield every comparison in `predicate`."""
    match predicate:
        case Comparison():
            yield predicate
        case Not(part):
            yield from comparisons(part)
        case All(parts) | AnyOf(parts):
            for part in parts:
                yield from comparisons(part)


class _DefinitionReader:
    """Reads one definition; keeps every problem with its place."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._predicates = 0
        self._pattern_count = 0

    def definition(self, body: object) -> Definition:
        if not isinstance(body, Mapping):
            self.problems.append("is not a JSON object")
            body = {"on": {"types": []}, "rules": []}
        on = body.get("on")
        if not isinstance(on, Mapping):
            self.problems.append("on: expected an object with the entity types")
            on = {"types": []}
        types: Any = on.get("types")
        if "rules" not in body:
            self.problems.append("rules: missing")
        if not isinstance(types, list) or not all(isinstance(name, str) for name in types):
            self.problems.append("on.types: expected a list of entity types")
            types = []
        conditions = "conditions" if "conditions" in on else "match"
        return Definition(
            types=frozenset(map(_plain_type, types)),
            conditions=self._predicate(on.get(conditions) or [], f"on.{conditions}", 0),
            rules=self._predicate(body.get("rules", []), "rules", 0),
        )

    def _problem(self, place: str, sentence: str) -> Predicate:
        self.problems.append(f"{place}: {sentence}")
        return All(())

    def _predicate(self, body: object, place: str, depth: int) -> Predicate:
        self._predicates += 1
        if self._predicates > MAX_PREDICATES:
            # Reported once: all that follows would repeat it.
            if self._predicates == MAX_PREDICATES + 1:
                self.problems.append(f"{place}: more than {MAX_PREDICATES} predicates")
            return All(())
        if depth > MAX_DEPTH:
            return self._problem(place, f"nested deeper than {MAX_DEPTH}")
        if isinstance(body, list):
            return All(self._parts(body, place, depth))
        if not isinstance(body, Mapping):
            return self._problem(place, "expected a predicate: an object or an array")
        words = [word for word in ("and", "or", "not") if word in body]
        if not words:
            return self._comparison(body, place)
        if len(words) > 1 or "property" in body or "query" in body:
            return self._problem(place, f"{words[0]!r} cannot be combined with other keys")
        return self._combination(words[0], body[words[0]], f"{place}.{words[0]}", depth)

    def _parts(self, body: list[Any], place: str, depth: int) -> tuple[Predicate, ...]:
        return tuple(
            self._predicate(part, f"{place}[{index}]", depth + 1) for index, part in enumerate(body)
        )

    def _combination(self, word: str, body: object, place: str, depth: int) -> Predicate:
        if word == "not":
            return Not(self._predicate(body, place, depth + 1))
        combined = All if word == "and" else AnyOf
        if isinstance(body, list):
            return combined(self._parts(body, place, depth))
        return combined((self._predicate(body, place, depth + 1),))

    def _comparison(self, body: Mapping[str, Any], place: str) -> Predicate:
        path = body.get("property", body.get("query"))
        operator = body.get("operator", body.get("operation"))
        if not isinstance(path, str) or not path:
            return self._problem(f"{place}.property", "expected the name of a property")
        if len(path) > _MAX_PROPERTY_CHARS:
            sentence = f"longer than {_MAX_PROPERTY_CHARS} characters"
            return self._problem(f"{place}.property", sentence)
        if not isinstance(operator, str) or operator.lower() not in NAMES:
            names = ", ".join(sorted(NAMES))
            return self._problem(
                f"{place}.operator", f"expected one of {names}, not {str(operator)[:80]!r}"
            )
        operator = operator.lower()
        if operator == "schema_fields_have_descriptions":
            path = FIELDS_DESCRIBED
        values = self._values(body, place)
        if values is None:
            return All(())
        if not values and operator not in UNARY:
            return self._problem(f"{place}.values", f"{operator} requires at least one value")
        if operator in NUMERIC:
            self._check_numbers(values, place)
        patterns = self._patterns(values, place) if operator == "regex_match" else ()
        return Comparison(path, operator, values, patterns)

    def _values(self, body: Mapping[str, Any], place: str) -> tuple[str, ...] | None:
        params = body.get("params")
        legacy = params if isinstance(params, Mapping) else {}
        values = body.get("values")
        for key in ("values", "value"):
            values = legacy.get(key) if values is None else values
        if values is None:
            return ()
        if not isinstance(values, list):
            values = [values]
        texts = tuple(text for value in values if (text := text_of(value)) is not None)
        if len(texts) < len(values):
            self._problem(f"{place}.values", "each value must be a string, a number or a boolean")
            return None
        return texts

    def _check_numbers(self, values: tuple[str, ...], place: str) -> None:
        for index, value in enumerate(values):
            if number(value) is None:
                self._problem(f"{place}.values[{index}]", f"{value[:80]!r} is not a number")

    def _patterns(self, values: tuple[str, ...], place: str) -> tuple[_Pattern, ...]:
        patterns: list[_Pattern] = []
        self._pattern_count += len(values)
        if self._pattern_count > MAX_PATTERNS:
            sentence = f"more than {MAX_PATTERNS} regular expressions in the test"
            self._problem(f"{place}.values", sentence)
            return ()
        for index, value in enumerate(values):
            try:
                patterns.append(_compile_pattern(value))
            except DefinitionError as error:
                self._problem(f"{place}.values[{index}]", f"the regular expression {error}")
        return tuple(patterns)
