"""Checks aspects against their declarations in `metadata.aspects`.

Each declaration is compiled once into closures, so that a check costs microseconds. Fields that a
declaration does not know are kept: newer servers and other tools write them.
"""

from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from operator import itemgetter
from typing import Final, Literal, NamedTuple, TypeAlias, cast, get_args, get_origin

from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects.markers import Bits, Default, Edge, OneOf, UrnOf
from mlcat_ingest.metadata.registry import ASPECTS, ENTITIES, allows
from mlcat_ingest.metadata.shapes import Field, bare, fields, required_keys
from mlcat_ingest.metadata.urn import MAX_URN_BYTES, check, entity_type_of

MAX_PROBLEMS: Final = 20
"""The most problems that are reported of one aspect; any further ones are left out."""

_SHOWN_CHARS = 60

# Some classes of DataHub's SDK say in a field of this name which member of a union is there; its
# emitters leave it out.
_DISCRIMINATOR: Final = "fieldDiscriminator"


class AspectProblem(NamedTuple):
    """One thing that is wrong: where (`trainingMetrics[2].name`, "" for all of it), and what."""

    path: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.path} {self.sentence}" if self.path else self.sentence


_Problems: TypeAlias = list[AspectProblem] | None
_Check: TypeAlias = Callable[[object], _Problems]
_Fit: TypeAlias = Callable[[Sequence[object]], bool]
_Markers: TypeAlias = tuple[object, ...]


def validate_aspect(entity_type: str, aspect_name: str, value: object) -> list[AspectProblem]:
    """Return what is wrong with an aspect of an entity type; an empty list where nothing is.

    Checked are JSON types, enum values, required fields, integer widths, and URNs with their
    entity types. Aspects of open entity types, and those without a typed form, only have to be
    objects.

    Cost: about 1 µs a nested record.
    """
    if not allows(entity_type, aspect_name):
        return [AspectProblem("", f"{entity_type} has no aspect {_quote(aspect_name)}")]
    spec = ASPECTS.get(aspect_name)
    if entity_type not in ENTITIES or spec is None or spec.type is None:
        return _check_object(value) or []
    return (_record(spec.type)(value) or [])[:MAX_PROBLEMS]


# --- compiling a declaration ---------------------------------------------------------------------


@cache
def _record(record: object, edge: Edge | None = None) -> _Check:
    """Return the check of a record; `edge` says what the URN in its field `edge.at` must be."""
    declared = fields(record).values()
    checks = {
        field.name: _field(field, (edge,) if edge and field.name == edge.at else ())
        for field in declared
    }
    required = tuple(field.name for field in declared if field.required)

    def check_record(value: object) -> _Problems:
        if not isinstance(value, dict):
            return _wrong("an object", value)
        problems: _Problems = None
        for key, item in value.items():
            field_check = checks.get(key)
            if field_check is not None and (found := field_check(item)) is not None:
                problems = _add(problems, key, found)
        for key in required:
            if key not in value:
                problems = _add(problems, key, [AspectProblem("", "is required")])
        return problems

    return check_record


def _field(field: Field, more: _Markers) -> _Check:
    check_value = _compile(field.hint, (*more, *field.markers))
    if field.required or any(isinstance(marker, Default) for marker in field.markers):
        return check_value

    def check_nullable(value: object) -> _Problems:
        return None if value is None else check_value(value)

    return check_nullable


def _compile(hint: object, markers: _Markers) -> _Check:
    if OneOf in markers:
        return _union(hint)
    if required_keys(hint) is not None:
        return _record(hint, next((m for m in markers if isinstance(m, Edge) and m.at), None))
    origin = get_origin(hint)
    if origin is Literal:
        return _enum(frozenset(get_args(hint)))
    if origin in (list, dict):
        item, item_markers = bare(get_args(hint)[-1])
        all_markers = (*item_markers, *markers)
        check_item = _compile(item, all_markers)
        return _map(check_item) if origin is dict else _array(check_item, _fit(item, all_markers))
    return _scalar(hint, markers)


def _scalar(hint: object, markers: _Markers) -> _Check:
    for marker in markers:
        if isinstance(marker, Edge | UrnOf):
            return _urn(frozenset(marker.kinds))
        if isinstance(marker, Bits):
            return _integer(marker.width)
    return _SCALARS[hint]


def _array(check_item: _Check, fit: _Fit) -> _Check:
    def check_array(value: object) -> _Problems:
        if not isinstance(value, list):
            return _wrong("an array", value)
        if fit(value):
            return None
        problems: _Problems = None
        for index, item in enumerate(value):
            if (found := check_item(item)) is not None:
                problems = _add(problems, f"[{index}]", found)
                if len(problems) >= MAX_PROBLEMS:
                    break
        return problems

    return check_array


def _map(check_item: _Check) -> _Check:
    def check_map(value: object) -> _Problems:
        if not isinstance(value, dict):
            return _wrong("an object", value)
        problems: _Problems = None
        for key, item in value.items():
            if (found := check_item(item)) is not None:
                problems = _add(problems, f"[{_quote(key)}]", found)
                if len(problems) >= MAX_PROBLEMS:
                    break
        return problems

    return check_map


def _union(record: object) -> _Check:
    checks = {field.name: _compile(field.hint, field.markers) for field in fields(record).values()}
    names = ", ".join(checks)

    def check_union(value: object) -> _Problems:
        if not isinstance(value, dict):
            return _wrong("an object", value)
        keys = [key for key in value if key != _DISCRIMINATOR]
        if len(keys) != 1 or (key := keys[0]) not in checks:
            return [AspectProblem("", f"must have exactly one of the keys {names}")]
        found = checks[key](value[key])
        return None if found is None else _add(None, key, found)

    return check_union


# --- checks of many values at once ---------------------------------------------------------------

# Most values are in long lists of records alike, of metrics and of parameters. That such a list is
# right as a whole is decided by column in half the time; any other is looked at one by one.


def _fit(hint: object, markers: _Markers) -> _Fit:
    """Return what says of many values that all are right; of others each must be looked at."""
    if any(marker is OneOf or isinstance(marker, Edge | UrnOf) for marker in markers):
        return _unknown
    if required_keys(hint) is not None:
        return _records(hint)
    if hint is str:
        return _texts
    if hint is int:
        return _integers(next((m.width for m in markers if isinstance(m, Bits)), 64))
    return _unknown


@cache
def _records(record: object) -> _Fit:
    fits = {field.name: _fit(field.hint, field.markers) for field in fields(record).values()}
    required = frozenset(field.name for field in fields(record).values() if field.required)

    def records(values: Sequence[object]) -> bool:
        if {*map(type, values)} != {dict}:
            return False
        rows = cast("Sequence[dict[str, object]]", values)
        keys = rows[0].keys()
        if {*map(len, rows)} != {len(keys)} or not required <= keys <= fits.keys():
            return False
        try:
            return all(fits[key]([*map(itemgetter(key), rows)]) for key in keys)
        except KeyError:
            return False

    return records


def _unknown(_values: Sequence[object]) -> bool:
    return False


def _texts(values: Sequence[object]) -> bool:
    return {*map(type, values)} == {str}


def _integers(width: int) -> _Fit:
    most: int = 2 ** (width - 1)

    def integers(values: Sequence[object]) -> bool:
        if {*map(type, values)} != {int}:
            return False
        numbers = cast("Sequence[int]", values)
        return -most <= min(numbers) <= max(numbers) < most

    return integers


# --- checks of single values ---------------------------------------------------------------------


def _check_object(value: object) -> _Problems:
    return None if isinstance(value, dict) else _wrong("an object", value)


def _check_string(value: object) -> _Problems:
    return None if isinstance(value, str) else _wrong("a string", value)


def _check_boolean(value: object) -> _Problems:
    return None if isinstance(value, bool) else _wrong("a boolean", value)


def _check_number(value: object) -> _Problems:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None
    return _wrong("a number", value)


def _integer(width: int) -> _Check:
    most = 2 ** (width - 1)

    def check_integer(value: object) -> _Problems:
        if not isinstance(value, int) or isinstance(value, bool):
            return _wrong("an integer", value)
        if -most <= value < most:
            return None
        return [AspectProblem("", f"must fit into {plural(width, 'bit')}")]

    return check_integer


_SCALARS: Final[dict[object, _Check]] = {
    str: _check_string,
    bool: _check_boolean,
    int: _integer(64),
    float: _check_number,
}


def _enum(symbols: frozenset[str]) -> _Check:
    def check_enum(value: object) -> _Problems:
        if not isinstance(value, str):
            return _wrong("a string", value)
        if value in symbols:
            return None
        return [AspectProblem("", f"is {_quote(value)}, not one of {', '.join(sorted(symbols))}")]

    return check_enum


def _urn(kinds: frozenset[str]) -> _Check:
    def check_urn(value: object) -> _Problems:
        if not isinstance(value, str):
            return _wrong("a URN", value)
        if len(value) > MAX_URN_BYTES:
            return [AspectProblem("", f"is no URN: it has more than {MAX_URN_BYTES} bytes")]
        fault = _urn_fault(value, kinds)
        return None if fault is None else [AspectProblem("", fault)]

    return check_urn


@lru_cache(maxsize=8192)
def _urn_fault(urn: str, kinds: frozenset[str]) -> str | None:
    try:
        entity_type = entity_type_of(urn)
        check(urn, reference=True)
    except InvalidUrnError as error:
        return f"is no URN: {error.message}"
    if kinds and entity_type not in kinds:
        return f"must be a URN of {' or '.join(sorted(kinds))}, not of {entity_type}"
    return None


# --- telling what is wrong -----------------------------------------------------------------------


def _add(problems: _Problems, place: str, found: list[AspectProblem]) -> list[AspectProblem]:
    """Return `problems` with those `found` at `place`, whose paths get it in front."""
    placed = [] if problems is None else problems
    for path, sentence in found:
        dot = "." if path and not path.startswith("[") else ""
        placed.append(AspectProblem(f"{place}{dot}{path}", sentence))
    return placed


def _wrong(wanted: str, value: object) -> list[AspectProblem]:
    return [AspectProblem("", f"must be {wanted}, not {_kind_of(value)}")]


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "an array"
        case _:
            return "an object"


def _quote(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…")
