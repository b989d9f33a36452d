"""Reads a `TypedDict` of `metadata.aspects` at run time: its fields, types and markers."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, NotRequired, Required, get_args, get_origin, get_type_hints


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
