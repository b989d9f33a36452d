"""How an aspect is declared: once, beside its record, with all that other modules read of it.

A declaration's value is the aspect's name on the wire, so that every module uses the constant. The
record's name, the entity types and what else DataHub's model says are in `schema.csv`.

Markers of `Annotated` fields give widths, defaults, edges and URN kinds. The type checker reads the
declarations in this package, and so do `metadata.validate` and `metadata.shapes` at run time.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NotRequired,
    Required,
    TypeAlias,
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
    itself holds a list of records. People search by it under the field's own name where it is in an
    aspect that describes its entity, else under `search`. For an edge of lineage,
    `lineage` is the direction in which the destination lies. An edge that DataHub's model lacks is
    `ours`: pages and deletions follow it, lineage does not.
    """

    relationship: str
    types: str = ""
    _: KW_ONLY
    at: str | None = None
    search: str | None = None
    lineage: Literal["upstream", "downstream"] | None = None
    ours: bool = False

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


Millis: TypeAlias = int
"""Milliseconds since 1970-01-01 UTC."""

Int32: TypeAlias = Annotated[int, Bits(32)]
AnyUrn: TypeAlias = Annotated[str, UrnOf()]

EMPTY_MAP: Final = Default("{}")
EMPTY_LIST: Final = Default("[]")


ATTRIBUTION: Final = "attribution\u241fsource"
"""The key field for the source of an entry; U+241F leads into a nested object."""


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
        type: its `TypedDict`; without one its value is kept as it comes, whole.
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
    """

    name: str
    record: str
    entity_types: frozenset[str]
    timeseries: bool
    key: tuple[str, ...]
    rules: tuple[str, ...]
    type: type | None
    merge_keys: Mapping[str, str] = field(default_factory=dict)
    patch_keys: Mapping[str, str] | None = None
    one_value: frozenset[str] = frozenset()
    computed: frozenset[str] = frozenset()
    unowned: frozenset[str] = frozenset()
    yields: frozenset[str] = frozenset()
    curated: str | None = None
    searched: tuple[SearchField, ...] = ()


SCHEMA_FILE: Final = Path(__file__).parents[1] / "schema.csv"
"""The table of all aspects of DataHub's model, which `tests/compat/releases/matrix.py` writes."""


def _read_schema() -> Iterator[AspectSpec]:
    lines = SCHEMA_FILE.read_text("utf-8").splitlines()[1:]
    for name, record, entity_types, timeseries, *lists in csv.reader(lines):
        key, rules = (tuple(one.split()) for one in lists)
        types = frozenset(entity_types.split())
        yield AspectSpec(name, record, types, timeseries == "yes", key, rules, None)


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


def aspect(name: str, typed: type | None = None, **facts: Unpack[_AspectFacts]) -> str:
    """Declare what this package knows of an aspect of the schema, and return its name."""
    SCHEMA[name] = replace(SCHEMA[name], type=typed, **facts)
    return name


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
