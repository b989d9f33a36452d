"""Reads a `TypedDict` of `metadata.aspects` at run time: its fields, types, markers and edges."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import (
    Annotated,
    Any,
    NotRequired,
    Required,
    TypeAlias,
    get_args,
    get_origin,
    get_type_hints,
)

from mlcat_ingest.metadata.aspects.markers import Edge


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a record: `hint` is its bare type, `markers` what `Annotated` adds to it."""

    name: str
    required: bool
    hint: Any
    markers: tuple[object, ...] = ()


def bare(hint: Any) -> tuple[Any, tuple[object, ...]]:
    """Return `hint` without `Required`, `NotRequired` and `Annotated`, and the markers it had."""
    markers: tuple[object, ...] = ()
    while (origin := get_origin(hint)) in (Annotated, Required, NotRequired):
        if origin is Annotated:
            markers = (*hint.__metadata__, *markers)
        hint = get_args(hint)[0]
    return hint, markers


@cache
def fields(record: Any) -> Mapping[str, Field]:
    """Return the fields of the `TypedDict` class `record`, in the order they are declared."""
    hints = get_type_hints(record, include_extras=True)
    return {
        name: Field(name, name in record.__required_keys__, *bare(hint))
        for name, hint in hints.items()
    }


EdgeFinder: TypeAlias = Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]]


@cache
def edge_finders(record: Any) -> tuple[EdgeFinder, ...]:
    """Return what finds the edges in a value of `record`, each as relationship and URN."""
    found: list[EdgeFinder] = []
    for field in fields(record).values():
        found.extend(
            _edge_finder(field.name, marker) for marker in field.markers if isinstance(marker, Edge)
        )
        nested = _nested_record(field.hint)
        if nested is not None and (inner := edge_finders(nested)):
            found.append(_nested_finder(field.name, inner))
    return tuple(found)


def edge_markers(record: Any) -> Iterator[Edge]:
    """Yield the edges that `record` declares, those of nested records included."""
    for field in fields(record).values():
        yield from (marker for marker in field.markers if isinstance(marker, Edge))
        nested = _nested_record(field.hint)
        if nested is not None:
            yield from edge_markers(nested)


def _nested_record(hint: Any) -> Any:
    """Return the record class behind a field, or behind the items of its list."""
    item = hint.__args__[0] if getattr(hint, "__origin__", None) is list else hint
    return item if hasattr(item, "__required_keys__") else None


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _edge_finder(name: str, marker: Edge) -> EdgeFinder:
    def find(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for item in _items(value.get(name)):
            held = item
            if marker.at is not None:
                held = item.get(marker.at) if isinstance(item, Mapping) else None
            for urn in _items(held):
                if isinstance(urn, str):
                    yield marker.relationship, urn

    return find


def _nested_finder(name: str, inner: tuple[EdgeFinder, ...]) -> EdgeFinder:
    def find(value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        for item in _items(value.get(name)):
            if isinstance(item, Mapping):
                for finder in inner:
                    yield from finder(item)

    return find
