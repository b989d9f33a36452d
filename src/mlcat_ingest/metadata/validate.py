"""Checks aspects against their declarations, in the words of a DataHub server.

Each declaration is compiled once into closures, so that a check costs microseconds. Fields that a
declaration does not know are dropped, and numbers are cut to whole ones, as a server does it.

Source: `ValidateDataAgainstSchema` of Rest.li; `IgnoreUnknownMutator` and
`EntityRegistryUrnValidator` of DataHub.
"""

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum
from functools import cache, lru_cache, partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.declaration import (
    Edge,
    Field,
    Items,
    RecordType,
    Type,
    record_named,
)
from mlcat_ingest.metadata.registry import ASPECTS, allows
from mlcat_ingest.metadata.urn import KINDS, MAX_URN_BYTES, check, entity_type_of

MAX_PROBLEMS: Final = 20
"""The most problems that are reported of one aspect; any further ones are left out."""

_SHOWN_CHARS = 60


class ProblemKind(Enum):
    """The check that finds a problem; `ADJUSTED` is none: the value is stored otherwise."""

    RECORD = "record"
    REFERENCE = "reference"
    ADJUSTED = "adjusted"


class AspectProblem(NamedTuple):
    """One thing that is wrong: where (`/trainingMetrics/2/name`, "" for all of it), and what."""

    path: str
    sentence: str
    kind: ProblemKind = ProblemKind.RECORD

    def __str__(self) -> str:
        return f"{self.path} :: {self.sentence}"


_Problems: TypeAlias = list[AspectProblem] | None
_Check: TypeAlias = Callable[[object], _Problems]


def validate_aspect(entity_type: str, aspect_name: str, value: object) -> list[AspectProblem]:
    """Return what is wrong with an aspect of an entity type; an empty list where nothing is.

    Checked are JSON types, enum values, required fields, integer widths, and URNs with their
    entity types. Of aspects without a typed form, and of all aspects of entity types that are not
    in `urn.KINDS`, only unions and the entity types of references are checked, unless the service
    computes something from them.

    Cost: about 1 µs a nested record.
    """
    if not allows(entity_type, aspect_name):
        return [AspectProblem("", f"Unknown aspect {aspect_name} for entity {entity_type}")]
    problems = _check_of(entity_type, aspect_name)(value) or []
    return [problem for problem in problems if _refuses(problem)][:MAX_PROBLEMS]


def adjusted_aspect(
    entity_type: str, aspect_name: str, value: Mapping[str, Any]
) -> tuple[Mapping[str, Any], list[AspectProblem]]:
    """Return the value that a server stores for `value`, and what is wrong with it.

    Fields that the declaration does not know are left out, at every level, and numbers are cut to
    whole ones where it has those.
    """
    problems = _check_of(entity_type, aspect_name)(value) or []
    wrong = [problem for problem in problems if _refuses(problem)][:MAX_PROBLEMS]
    record = ASPECTS[aspect_name].type
    if not problems or wrong or record is None:
        return value, wrong
    return cast("Mapping[str, Any]", _adjust(value, record)), []


def problems_of(record: RecordType, value: object) -> list[AspectProblem]:
    """Return what is wrong with a record that is no aspect, but its required fields left out."""
    return [problem for problem in _record(record)(value) or [] if _refuses(problem)]


def _check_of(entity_type: str, aspect_name: str) -> _Check:
    spec = ASPECTS[aspect_name]
    is_whole = spec.typed and (entity_type in KINDS or spec.computed)
    return (_record if is_whole else _untyped)(record_named(spec.record))


def _refuses(problem: AspectProblem) -> bool:
    return problem.kind is not ProblemKind.ADJUSTED


# --- compiling a declaration ---------------------------------------------------------------------


@cache
def _record(record: RecordType, edge: Edge | None = None) -> _Check:
    """Return the check of a record; `edge` says what the URN in its field `edge.at` must be."""
    declared = record.fields.values()
    checks = {field.name: _compile(field, edge) for field in declared}
    required = tuple(field.name for field in declared if field.required)

    def check_record(value: object) -> _Problems:
        if not isinstance(value, dict):
            return _problem("record type is not backed by a DataMap")
        problems: _Problems = None
        for key, item in value.items():
            if (found := checks.get(key, _unknown_field)(item)) is not None:
                problems = _add(problems, key, found)
        for key in required:
            if key not in value:
                problems = _add(problems, key, _problem(_REQUIRED))
        return problems

    return check_record


@cache
def _untyped(record: RecordType) -> _Check:
    """Return the check of an aspect whose record counts for its unions and references alone."""
    check_parts = _parts(record)

    def check_untyped(value: object) -> _Problems:
        return _check_object(value) or (check_parts and check_parts(value))

    return check_untyped


def _parts(
    type_: Type, urns: frozenset[str] | None = None, edge: Edge | None = None
) -> _Check | None:
    """Return the check of unions and of entity types in a value of any type; None without them."""
    match type_:
        case RecordType():
            fields = type_.fields.values()
            parts = ((one.name, _parts(one.type, _urns(one, edge), one.edge)) for one in fields)
            checks = {name: check_part for name, check_part in parts if check_part}
            check_fields = partial(_check_fields, checks)
            if type_.is_union:
                return _union(type_.fields.keys(), check_fields)
            return check_fields if checks else None
        case Items():
            check_item = _parts(type_.of, urns, edge)
            return check_item and _collection(object, "", _entries, check_item)
        case _ if edge is not None and edge.at:
            return partial(_check_fields, {edge.at: _urn(edge.kinds)})  # a union of one
        case _:
            return _urn(urns) if urns else None


def _check_fields(checks: Mapping[str, _Check], value: object) -> _Problems:
    if not isinstance(value, dict):
        return None
    problems: _Problems = None
    for name in filter(value.__contains__, checks):
        if (found := checks[name](value[name])) is not None:
            problems = _add(problems, name, found)
    return problems


def _entries(value: object) -> Iterable[tuple[object, object]]:
    """Return the items of a list or a map with their places; nothing else has any."""
    if isinstance(value, dict):
        return value.items()
    return enumerate(value) if isinstance(value, list) else ()


def _unknown_field(_value: object) -> _Problems:
    return [AspectProblem("", "unrecognized field found but not allowed", ProblemKind.ADJUSTED)]


def _compile(field: Field, outer: Edge | None) -> _Check:
    """Return the check of a field; `outer` is the edge of the record that it is in."""
    return _of_type(field.type, _urns(field, outer), field.edge)


def _urns(field: Field, outer: Edge | None) -> frozenset[str] | None:
    return outer.kinds if outer is not None and outer.at == field.name else field.urns


def _of_type(type_: Type, urns: frozenset[str] | None, edge: Edge | None) -> _Check:
    match type_:
        case RecordType(is_union=True):
            return _union(type_.fields.keys(), _record(type_))
        case RecordType():
            return _record(type_, edge if edge is not None and edge.at else None)
        case tuple():
            return _enum(frozenset(type_))
        case Items("map"):
            sentence = "map type is not backed by a DataMap"
            return _collection(dict, sentence, dict.items, _of_type(type_.of, urns, edge))
        case Items():
            sentence = "array type is not backed by a DataList"
            return _collection(list, sentence, enumerate, _of_type(type_.of, urns, edge))
        case str():
            return _SCALARS[type_] if urns is None else _urn(urns)


def _collection(
    kind: type,
    sentence: str,
    entries: Callable[[Any], Iterable[tuple[object, object]]],
    check_item: _Check,
) -> _Check:
    """Return the check of a list or a map, whose `entries` are its items with their places."""

    def check_collection(value: object) -> _Problems:
        if not isinstance(value, kind):
            return _problem(sentence)
        problems: _Problems = None
        for place, item in entries(value):
            if (found := check_item(item)) is not None:
                problems = _add(problems, str(place), found)
                if len(problems) >= MAX_PROBLEMS:
                    break
        return problems

    return check_collection


def _union(members: Collection[str], check_members: _Check) -> _Check:
    def check_union(value: object) -> _Problems:
        if not isinstance(value, dict):
            return _problem("union type is not backed by a DataMap or null")
        known = sum(name in members for name in value)
        if known != 1:
            return _problem(_TOO_MANY if known else _TOO_FEW)
        return check_members(value)

    return check_union


# --- checks of single values ---------------------------------------------------------------------


def _check_object(value: object) -> _Problems:
    return None if isinstance(value, dict) else _problem("record type is not backed by a DataMap")


def _instance(kind: type, name: str) -> _Check:
    return lambda value: None if isinstance(value, kind) else _coercion_problem(value, name)


def _check_bytes(value: object) -> _Problems:
    if not isinstance(value, str):
        return _coercion_problem(value, "Bytes")
    if value.isascii() or max(value) <= "\xff":
        return None
    return _problem(f"{_shorten(value)} is not a valid string representation of bytes")


def _check_number(value: object) -> _Problems:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None
    return _coercion_problem(value, "Double")


def _integer(width: int) -> _Check:
    most = 2 ** (width - 1)
    name = "Integer" if width == 32 else "Long"

    def check_integer(value: object) -> _Problems:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return _coercion_problem(value, name)
        if not -most <= value < most:
            return _coercion_problem(value, name)
        if isinstance(value, float):
            return [AspectProblem("", "is cut to a whole number", ProblemKind.ADJUSTED)]
        return None

    return check_integer


_SCALARS: Final[Mapping[str, _Check]] = {
    "any": lambda _value: None,
    "boolean": _instance(bool, "Boolean"),
    "bytes": _check_bytes,
    "double": _check_number,
    "float": _check_number,
    "int": _integer(32),
    "long": _integer(64),
    "string": _instance(str, "String"),
}


def _enum(symbols: frozenset[str]) -> _Check:
    def check_enum(value: object) -> _Problems:
        if not isinstance(value, str):
            return _problem("enum type is not backed by a String")
        return None if value in symbols else _problem(f'"{_shorten(value)}" is not an enum symbol')

    return check_enum


def _urn(kinds: frozenset[str]) -> _Check:
    def check_urn(value: object) -> _Problems:
        if not isinstance(value, str):
            return _coercion_problem(value, "Urn")
        if len(value) > MAX_URN_BYTES:
            return _problem(f'"Provided urn {_shorten(value)}" is invalid')
        fault = _urn_fault(value, kinds)
        return None if fault is None else [fault]

    return check_urn


@lru_cache(maxsize=8192)
def _urn_fault(urn: str, kinds: frozenset[str]) -> AspectProblem | None:
    sentence = f'"Provided urn {urn}" is invalid'
    try:
        entity_type = entity_type_of(urn)
    except InvalidUrnError:
        return AspectProblem("", sentence)
    try:
        check(urn, reference=True)
    except InvalidUrnError as error:
        return AspectProblem("", f"{sentence}: {error.message}", ProblemKind.REFERENCE)
    if not kinds or entity_type in kinds:
        return None
    fault = f"Entity type for urn: {urn} is not a valid destination"
    return AspectProblem("", f"{sentence}: {fault}", ProblemKind.REFERENCE)


# --- telling what is wrong -----------------------------------------------------------------------

_TOO_FEW: Final = "DataMap should have at least one entry for a union type"
_TOO_MANY: Final = "DataMap should have no more than one entry for a union type"
_REQUIRED: Final = "field is required but not found and has no default value"


def _add(problems: _Problems, place: str, found: list[AspectProblem]) -> list[AspectProblem]:
    """Return `problems` with those `found` at `place`, whose paths get it in front."""
    placed = [] if problems is None else problems
    for path, sentence, kind in found:
        # One is enough to know that the value is adjusted; many would hide what is wrong.
        if not placed or kind is not ProblemKind.ADJUSTED:
            placed.append(AspectProblem(f"/{_shorten(place)}{path}", sentence, kind))
    return placed


def _problem(sentence: str) -> list[AspectProblem]:
    return [AspectProblem("", sentence)]


def _coercion_problem(value: object, kind: str) -> list[AspectProblem]:
    text = value if isinstance(value, str) else json.dumps(value)
    return _problem(f"{_shorten(text)} cannot be coerced to {kind}")


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"


def _adjust(value: Any, type_: Type) -> Any:
    """Return a valid value without unknown fields, and with whole numbers where there are such."""
    match type_:
        case RecordType():
            known = type_.fields
            return {key: _adjust(value[key], known[key].type) for key in value if key in known}
        case Items("list"):
            return [_adjust(item, type_.of) for item in value]
        case Items():
            return {key: _adjust(item, type_.of) for key, item in value.items()}
        case "int" | "long":
            return int(value)
        case _:
            return value
