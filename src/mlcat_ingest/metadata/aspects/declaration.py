"""How an aspect is declared: once, with all that other modules read of it.

A declaration's value is the aspect's name on the wire, so that every module uses the constant. What
DataHub's model says of it is in two tables that are made of that model: `schema.csv` has the record
and the entity types of each aspect, `records.csv` the fields of each record.

A record is a `TypedDict`, made of the table when it is first asked for. Markers of its `Annotated`
fields give widths, defaults, edges and URN kinds.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from itertools import groupby, starmap
from pathlib import Path
from types import GenericAlias
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypedDict,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)


@dataclass(frozen=True, slots=True)
class UrnOf:
    """The text (or each text of the list) is a URN, of one of these `types` where any are given."""

    types: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The entity types, which `types` separates by blanks."""
        return tuple(self.types.split())


@dataclass(frozen=True, slots=True)
class Edge:
    """The field holds the destinations of a relationship, of the entity types `types`.

    `at` names the field of the nested record that holds the URN, or a list of them, where the field
    itself holds a list of records. For an edge of lineage, `lineage` is the direction in which the
    destination lies.
    """

    relationship: str
    types: str = ""
    _: KW_ONLY
    at: str | None = None
    lineage: str | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The entity types, which `types` separates by blanks."""
        return tuple(self.types.split())


@dataclass(frozen=True, slots=True)
class Default:
    """The service fills this JSON text in where the field is left out; null is refused."""

    json: str


@dataclass(frozen=True, slots=True)
class Bits:
    """How wide a signed integer may be."""

    width: Literal[32, 64]


class OneOf:
    """The object has exactly one of its keys: a union that is wrapped by the name of its type."""


class Bytes:
    """The text stands for bytes, one a character, so that it has none above U+00FF."""


ATTRIBUTION: Final = "attribution\u241fsource"
"""The key field for the source of an entry; U+241F leads into a nested object."""

AUDIT_STAMP: Final = "com.linkedin.common.AuditStamp"
"""The record of a moment and who caused it."""


class SearchField(NamedTuple):
    """A searchable field: its path in the aspect, and what people filter on and see.

    Its words are indexed in `column` (None: nowhere). A `keyword` is also indexed as it is, to
    filter on and to count; a name in a filter that is no URN may be one of `entity_types`.
    """

    path: str
    field: str
    column: Literal["description", "tags"] | None = None
    keyword: bool = True
    entity_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AspectSpec:
    """One aspect.

    Attributes:
        name: its name on the wire.
        record: the record name that reads answer it under.
        entity_types: the entity types that may have it.
        timeseries: whether it is a series of events; all others hold one value a version.
        key: the fields of a key aspect, in the order of the URN's parts.
        rules: its unions and references, as `schema.csv` has them.
        typed: whether it is checked as its record; else its value is kept as it comes, whole.
        merge_keys: list of records to the fields, separated by blanks, that make two of its entries
            the same. Lists that are not named are keyed by each record's whole value.
        patch_keys: path of an array to the key fields of its entries, none for an array of texts;
            None where a server has no template for patches, which then bring keys of their own.
        one_value: lists that are one value, since their order is their meaning.
        computed: fields that the service computes: they are never sent, and never compared.
        unowned: further fields without an owner: the stored value stays.
        yields: texts and records that people write, too: a value that is not ours stays.
        curated: the list whose entries people add in the catalog; it moves with a renamed group.
        searched: its searchable fields.
        edge_fields: relationship to the field that people search by it under, if that is not the
            field of an aspect that describes its entity.
    """

    name: str
    record: str
    entity_types: frozenset[str]
    timeseries: bool
    key: tuple[str, ...]
    rules: tuple[str, ...]
    typed: bool = False
    merge_keys: Mapping[str, str] = field(default_factory=dict)
    patch_keys: Mapping[str, str] | None = None
    one_value: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()
    unowned: frozenset[str] = frozenset()
    yields: frozenset[str] = frozenset()
    curated: str | None = None
    searched: tuple[SearchField, ...] = ()
    edge_fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def type(self) -> type | None:
        """Its `TypedDict`, None where its value is kept whole."""
        return record_type(self.record) if self.typed else None


SCHEMA_FILE: Final = Path(__file__).parents[1] / "schema.csv"
"""The table of all aspects of DataHub's model, which `tests/compat/releases/matrix.py` writes."""

RECORDS_FILE: Final = SCHEMA_FILE.with_name("records.csv")
"""The table of the records in them, which the same script writes."""


def _read_schema() -> Iterator[AspectSpec]:
    lines = SCHEMA_FILE.read_text("utf-8").splitlines()[1:]
    for name, record, entity_types, timeseries, *lists in csv.reader(lines):
        key, rules = (tuple(one.split()) for one in lists)
        types = frozenset(entity_types.split())
        yield AspectSpec(name, record, types, timeseries == "yes", key, rules)


SCHEMA: Final = {spec.name: spec for spec in _read_schema()}
"""Name to aspect, with what the modules imported so far declare; `registry.ASPECTS` has all."""


class _AspectFacts(TypedDict, total=False):
    """The fields of `AspectSpec` that a declaration may add."""

    merge_keys: Mapping[str, str]
    patch_keys: Mapping[str, str]
    one_value: frozenset[str]
    computed: frozenset[str]
    unowned: frozenset[str]
    yields: frozenset[str]
    curated: str
    searched: tuple[SearchField, ...]
    edge_fields: Mapping[str, str]


def aspect(name: str, *, typed: bool = True, **facts: Unpack[_AspectFacts]) -> str:
    """Declare what this package knows of an aspect of the schema, and return its name."""
    SCHEMA[name] = replace(SCHEMA[name], typed=typed, **facts)
    return name


class _Row(NamedTuple):
    """A field of a record: a row of `records.csv`.

    Its type is a scalar, a record, `list` or `map` before a type, or `enum` or `union` before
    several. Only a required field has no default. `urn` is the kind of a URN in it, the rest the
    edge that it is, if it is one.
    """

    record: str
    field: str
    type: str
    default: str
    urn: str
    relationship: str
    destinations: str
    at: str
    lineage: str


@cache
def _lines() -> Mapping[str, list[str]]:
    """Return the lines of each record in the table; few records are asked for."""
    lines = RECORDS_FILE.read_text("utf-8").splitlines()[1:]
    return {name: [*group] for name, group in groupby(lines, lambda line: line.partition(",")[0])}


def _rows(record: str) -> Iterator[_Row]:
    return starmap(_Row, csv.reader(_lines()[record]))


_TYPED_DICT: Final[Any] = TypedDict
_LITERAL: Final[Any] = Literal
_ANNOTATED: Final[Any] = Annotated
_SCALARS: Final[Mapping[str, Any]] = {
    "string": str,
    "bytes": Annotated[str, Bytes],
    "boolean": bool,
    "int": Annotated[int, Bits(32)],
    "long": int,
    "float": float,
    "double": float,
}

MORE_MARKERS: Final[Mapping[str, UrnOf | Edge]] = {
    "com.linkedin.common.DataPlatformInstance.instance": UrnOf("dataPlatformInstance"),
    "com.linkedin.common.DataPlatformInstance.platform": UrnOf("dataPlatform"),
    "com.linkedin.common.Ownership.ownerTypes": UrnOf(),
    "com.linkedin.domain.DomainAssociation.domain": UrnOf("domain"),
    "com.linkedin.incident.IncidentAssignee.actor": UrnOf("corpuser corpGroup"),
    "com.linkedin.ml.metadata.EvaluationData.evaluationData": Edge(
        "EvaluatedOn", "dataset", at="dataset"
    ),
    "com.linkedin.ml.metadata.TrainingData.trainingData": Edge(
        "TrainedOn", "dataset", at="dataset"
    ),
    "com.linkedin.structured.StructuredPropertyValueAssignment.propertyUrn": UrnOf(
        "structuredProperty"
    ),
    "com.linkedin.test.TestResult.test": UrnOf("test"),
}
"""What DataHub's model leaves open: the entity types of a URN, and two edges that pages follow."""


def choices(record: str, name: str) -> tuple[str, ...]:
    """Return the values that a field of a record, or each item of it, may have."""
    [words] = [row.type.split() for row in _rows(record) if row.field == name]
    return tuple(words[words.index("enum") + 1 :])


@cache
def record_type(name: str) -> type:
    """Return the `TypedDict` of a record of DataHub's model, by its name on the wire."""
    members = {row.field: _hint(row) for row in _rows(name)}
    made: type = _TYPED_DICT(name.rpartition(".")[2], members)
    return made


def _hint(row: _Row) -> Any:
    markers: list[Any] = []
    if row.default not in {"", "null"}:
        markers.append(Default(row.default))
    if (more := MORE_MARKERS.get(f"{row.record}.{row.field}")) is not None:
        markers.append(more)
    elif row.relationship:
        edge = Edge(
            row.relationship, row.destinations, at=row.at or None, lineage=row.lineage or None
        )
        markers.append(edge)
    elif row.urn:
        kind = row.urn.removesuffix("Urn")
        markers.append(UrnOf(kind[:1].lower() + kind[1:]))
    hint = _type(row.type.split())
    for marker in markers:
        hint = _ANNOTATED[hint, marker]
    return hint if row.default == "" else NotRequired[hint]


def _type(words: list[str]) -> Any:
    kind, *of = words
    match kind:
        case "list":
            return GenericAlias(list, (_type(of),))
        case "map":
            return GenericAlias(dict, (str, _type(of)))
        case "enum":
            return _LITERAL[tuple(of)]
        case "union":
            members = {name: _type([name]) for name in of}
            return _ANNOTATED[_TYPED_DICT("Union", members, total=False), OneOf]
        case _:
            return _SCALARS.get(kind) or record_type(kind)


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: `hint` is its bare type, `markers` what `Annotated` adds to it."""

    name: str
    required: bool
    hint: object
    markers: tuple[object, ...] = ()


def bare(hint: object) -> tuple[object, tuple[object, ...]]:
    """Return `hint` without `Required`, `NotRequired` and `Annotated`, and the markers it had."""
    markers: tuple[object, ...] = ()
    while get_origin(hint) in (Annotated, Required, NotRequired):
        hint, *added = get_args(hint)
        markers = (*added, *markers)
    return hint, markers


def required_keys(record: object) -> frozenset[str] | None:
    """Return the keys that a `TypedDict` class requires, None for any other type."""
    return getattr(record, "__required_keys__", None)


@cache
def fields(record: object) -> Mapping[str, Field]:
    """Return the fields of the `TypedDict` class `record`, in the order they are declared."""
    hints = get_type_hints(record, include_extras=True)
    required = required_keys(record) or frozenset()
    return {name: Field(name, name in required, *bare(hint)) for name, hint in hints.items()}


@cache
def _edge_fields(record: object) -> tuple[tuple[str, Edge | None, object], ...]:
    """Return the fields of `record` with edges: each with one, or with a record that has some."""
    found: list[tuple[str, Edge | None, object]] = []
    for member in fields(record).values():
        markers = (marker for marker in member.markers if isinstance(marker, Edge))
        found += [(member.name, marker, None) for marker in markers]
        nested = get_args(member.hint)[0] if get_origin(member.hint) is list else member.hint
        if required_keys(nested) is not None and _edge_fields(nested):
            found.append((member.name, None, nested))
    return tuple(found)


def edges_of(record: object, value: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the relationship and the URN of each edge in a value of `record`."""
    for name, marker, nested in _edge_fields(record):
        for item in _items(value.get(name)):
            if marker is None:
                yield from edges_of(nested, item) if isinstance(item, dict) else ()
                continue
            urns = item
            if marker.at is not None:
                urns = item.get(marker.at) if isinstance(item, dict) else None
            yield from ((marker.relationship, urn) for urn in _items(urns) if isinstance(urn, str))


def edge_markers(record: object) -> Iterator[Edge]:
    """Yield the edges that `record` declares, those of nested records included."""
    for _, marker, nested in _edge_fields(record):
        yield from edge_markers(nested) if marker is None else (marker,)


def _items(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value]
