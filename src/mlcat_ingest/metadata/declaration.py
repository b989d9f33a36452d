"""How an aspect is declared: once, with all that other modules read of it.

A declaration's value is the aspect's name on the wire, so that every module uses the constant. What
DataHub's model says of it is in two tables that are made of that model: `schema.csv` has the record
and the entity types of each aspect, `records.csv` the fields of each record.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import groupby, starmap
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, TypedDict, Unpack


@dataclass(frozen=True, slots=True)
class Edge:
    """The field holds the destinations of a relationship, of the entity types `kinds`.

    `at` names the field of the nested record that holds the URN, or a list of them, where the field
    itself holds a list of records. For an edge of lineage, `lineage` is the direction in which the
    destination lies.
    """

    relationship: str
    kinds: frozenset[str]
    at: str | None = None
    lineage: str | None = None


@dataclass(frozen=True, slots=True)
class Items:
    """A list, or a map from texts, whose items are `of` one type."""

    kind: Literal["list", "map"]
    of: "Type"


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record.

    The service fills the JSON text `default` in where the field is left out. `urns` are the entity
    types of the URNs in it, none for any; None where it holds other values.
    """

    name: str
    type: "Type"
    required: bool = False
    default: str | None = None
    urns: frozenset[str] | None = None
    edge: Edge | None = None


@dataclass(frozen=True, slots=True, eq=False)
class RecordType:
    """An object, by the fields that it may have; of a union exactly one is there."""

    name: str
    fields: Mapping[str, Field]
    is_union: bool = False


Type: TypeAlias = str | tuple[str, ...] | Items | RecordType
"""A scalar by its name in DataHub's model or `any`, the values of an enumeration, or parts."""


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
    def type(self) -> RecordType | None:
        """Its record, None where its value is kept whole."""
        return record_named(self.record) if self.typed else None


SCHEMA_FILE: Final = Path(__file__).with_name("schema.csv")
"""The table of all aspects of DataHub's model, which `tests/compat/releases/matrix.py` writes."""

RECORDS_FILE: Final = SCHEMA_FILE.with_name("records.csv")
"""The table of the records in them, which the same script writes."""


def _read_schema() -> Iterator[AspectSpec]:
    lines = SCHEMA_FILE.read_text("utf-8").splitlines()[1:]
    for name, record, entity_types, timeseries, key in csv.reader(lines):
        types = frozenset(entity_types.split())
        yield AspectSpec(name, record, types, timeseries == "yes", tuple(key.split()))


SCHEMA: Final = {spec.name: spec for spec in _read_schema()}
"""Name to aspect; what `aspects` declares is in it once that is imported, as `registry` does."""


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


class _FieldRow(NamedTuple):
    """A field of a record: a row of `records.csv`.

    Its type is a scalar or a record; `list` or `map` is before a type, `union` before several,
    `enum` before values, and `one` before a record of which exactly one field is there. Only a
    required field has no default. `urn` says that it holds URNs, of the types `destinations` where
    there are any; the rest is the edge that it is, if it is one.
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


def _rows(record: str) -> Iterator[_FieldRow]:
    return starmap(_FieldRow, csv.reader(_lines().get(record, ())))


_SCALARS: Final = frozenset({"string", "bytes", "boolean", "int", "long", "float", "double"})

OWN_URNS: Final[Mapping[str, frozenset[str]]] = {
    "com.linkedin.common.DataPlatformInstance.instance": frozenset({"dataPlatformInstance"}),
    "com.linkedin.common.DataPlatformInstance.platform": frozenset({"dataPlatform"}),
    "com.linkedin.common.Ownership.ownerTypes": frozenset(),
    # A class of URNs, but no type of entities.
    "com.linkedin.dataset.DatasetFieldMapping.destinationField": frozenset(),
    "com.linkedin.domain.DomainAssociation.domain": frozenset({"domain"}),
    "com.linkedin.incident.IncidentAssignee.actor": frozenset({"corpuser", "corpGroup"}),
    "com.linkedin.structured.StructuredPropertyValueAssignment.propertyUrn": frozenset(
        {"structuredProperty"}
    ),
    "com.linkedin.test.TestResult.test": frozenset({"test"}),
}
"""Entity types of URNs that DataHub's model leaves open."""

OWN_EDGES: Final = {
    "com.linkedin.ml.metadata.EvaluationData.evaluationData": "EvaluatedOn",
    "com.linkedin.ml.metadata.TrainingData.trainingData": "TrainedOn",
}
"""Relationships to the datasets of a model, which DataHub's model lacks."""


def choices(record: str, name: str) -> tuple[str, ...]:
    """Return the values that a field of a record, or each item of it, may have."""
    [words] = [row.type.split() for row in _rows(record) if row.field == name]
    return tuple(words[words.index("enum") + 1 :])


@cache
def record_named(name: str) -> RecordType:
    """Return a record of DataHub's model, by its name on the wire."""
    return RecordType(name, {row.field: _field(row) for row in _rows(name)})


def _field(row: _FieldRow) -> Field:
    place, urns, edge = f"{row.record}.{row.field}", None, None
    if row.relationship:
        kinds = frozenset(row.destinations.split())
        edge = Edge(row.relationship, kinds, row.at or None, row.lineage or None)
        urns = None if row.at else kinds
    elif place in OWN_EDGES:
        edge = Edge(OWN_EDGES[place], frozenset({"dataset"}), at="dataset")
    elif row.urn:
        kind = row.urn.removesuffix("Urn")
        urns = frozenset([kind[0].lower() + kind[1:]] if kind else row.destinations.split())
    default = None if row.default in {"", "null"} else row.default
    urns = OWN_URNS.get(place, urns)
    return Field(row.field, _type(row.type.split()), row.default == "", default, urns, edge)


def _type(words: list[str]) -> Type:
    kind, *of = words
    match kind:
        case "list" | "map":
            return Items(kind, _type(of))
        case "enum":
            return tuple(of)
        case "union":
            return RecordType("", {name: Field(name, _type([name])) for name in of}, is_union=True)
        case "one":
            return replace(record_named(of[0]), is_union=True)
        case _ if kind in _lines():
            return record_named(kind)
        case _:
            # An enumeration in a union, or a record of no field.
            return kind if kind in _SCALARS else "any"


@cache
def _edge_fields(record: RecordType) -> tuple[tuple[str, Edge | None, RecordType | None], ...]:
    """Return the fields of `record` with edges: each with one, or with a record that has some."""
    found: list[tuple[str, Edge | None, RecordType | None]] = []
    for member in record.fields.values():
        if member.edge is not None:
            found.append((member.name, member.edge, None))
        nested = member.type
        if isinstance(nested, Items) and nested.kind == "list":
            nested = nested.of
        if isinstance(nested, RecordType) and _edge_fields(nested):
            found.append((member.name, None, nested))
    return tuple(found)


def edges_of(record: RecordType, value: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the relationship and the URN of each edge in a value of `record`."""
    for name, edge, nested in _edge_fields(record):
        for item in _items(value.get(name)):
            if nested is not None:
                yield from edges_of(nested, item) if isinstance(item, dict) else ()
            elif edge is not None:
                urns = item
                if edge.at is not None:
                    urns = item.get(edge.at) if isinstance(item, dict) else None
                yield from (
                    (edge.relationship, urn) for urn in _items(urns) if isinstance(urn, str)
                )


def declared_edges(record: RecordType) -> Iterator[Edge]:
    """Yield the edges that `record` declares, those of nested records included."""
    for _, edge, nested in _edge_fields(record):
        if edge is not None:
            yield edge
        if nested is not None:
            yield from declared_edges(nested)


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
