"""Reads a `TypedDict` of `metadata.aspects` at run time: its fields, types, markers and edges."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    NotRequired,
    Required,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

from mlcat_ingest.metadata.aspects.declaration import Edge


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


EdgeFinder: TypeAlias = Callable[[object], Iterator[tuple[str, str]]]


def edges_of(record: object, value: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the relationship and the URN of the edges in a value of `record`."""
    for name, find in _edge_finders(record):
        if name in value:
            yield from find(value[name])


@cache
def _edge_finders(record: object) -> tuple[tuple[str, EdgeFinder], ...]:
    """Return the fields of `record` with edges, each with what finds these in its value."""
    finders: list[tuple[str, EdgeFinder]] = []
    for field in fields(record).values():
        markers = (marker for marker in field.markers if isinstance(marker, Edge))
        finders.extend((field.name, _edge_finder(marker)) for marker in markers)
        nested = _nested_record(field.hint)
        if nested is not None and _edge_finders(nested):
            finders.append((field.name, _nested_finder(nested)))
    return tuple(finders)


def edge_markers(record: object) -> Iterator[Edge]:
    """Yield the edges that `record` declares, those of nested records included."""
    for field in fields(record).values():
        yield from (marker for marker in field.markers if isinstance(marker, Edge))
        nested = _nested_record(field.hint)
        if nested is not None:
            yield from edge_markers(nested)


def _nested_record(hint: object) -> object:
    """Return the record class behind a field, or behind the items of its list."""
    item = get_args(hint)[0] if get_origin(hint) is list else hint
    return None if required_keys(item) is None else item


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _edge_finder(marker: Edge) -> EdgeFinder:
    def find(value: object) -> Iterator[tuple[str, str]]:
        for item in _items(value):
            urns = item
            if marker.at is not None:
                urns = item.get(marker.at) if isinstance(item, Mapping) else None
            for urn in _items(urns):
                if isinstance(urn, str):
                    yield marker.relationship, urn

    return find


def _nested_finder(record: object) -> EdgeFinder:
    def find(value: object) -> Iterator[tuple[str, str]]:
        for item in _items(value):
            if isinstance(item, Mapping):
                yield from edges_of(record, item)

    return find
