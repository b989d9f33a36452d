"""An aspect without one of the entities that it refers to; pure."""

from collections.abc import Mapping
from typing import Any, Final, get_args, get_origin

from mlcat_ingest.metadata.aspects.markers import Edge, UrnOf
from mlcat_ingest.metadata.registry import ASPECTS
from mlcat_ingest.metadata.shapes import bare, fields
from mlcat_ingest.metadata.urn import entity_type_of

_GONE: Final = object()


def without(aspect: str, value: Mapping[str, Any], urn: str) -> dict[str, Any] | None:
    """Return an aspect with every reference to `urn` taken out.

    References are the fields that the aspect's declaration marks as such; who made an entry is
    none. What cannot be without the reference goes with it: an entry of a list, and in the end
    the whole aspect, for which None stands.
    """
    spec = ASPECTS.get(aspect)
    if spec is None or spec.type is None:
        return dict(value)
    left = _record(spec.type, value, urn, None)
    return None if left is _GONE else left


def _record(record: Any, value: Mapping[str, Any], urn: str, at: Edge | None) -> Any:
    """Return a record without `urn`, or `_GONE`; `at` says which of its fields is the edge."""
    left = dict(value)
    for field in fields(record).values():
        if field.name not in left:
            continue
        is_end = at is not None and at.at == field.name
        markers = (*field.markers, at) if is_end else field.markers
        kept = _value(field.hint, markers, left[field.name], urn)
        if kept is not _GONE:
            left[field.name] = kept
        elif field.required or is_end:
            return _GONE
        else:
            del left[field.name]
    return left


def _value(hint: Any, markers: tuple[object, ...], value: Any, urn: str) -> Any:
    if isinstance(value, str):
        return _GONE if value == urn and any(_refers(mark, urn) for mark in markers) else value
    if isinstance(value, list) and get_origin(hint) is list:
        item, of_item = bare(get_args(hint)[0])
        cleaned = (_value(item, (*of_item, *markers), one, urn) for one in value)
        return [one for one in cleaned if one is not _GONE]
    if isinstance(value, dict) and hasattr(hint, "__required_keys__"):
        at = next((mark for mark in markers if isinstance(mark, Edge) and mark.at), None)
        return _record(hint, value, urn, at)
    return value


def _refers(marker: object, urn: str) -> bool:
    if isinstance(marker, Edge):
        return True
    return isinstance(marker, UrnOf) and entity_type_of(urn) in marker.kinds
