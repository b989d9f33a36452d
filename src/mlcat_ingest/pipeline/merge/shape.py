"""What the aspects' declared types say about merging: what is one value, and what must be there."""

from functools import cache
from typing import Any, Final

from mlcat_ingest.metadata.aspects.common import VERSION_PROPERTIES
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.metadata.registry import ASPECTS, implied_aspect
from mlcat_ingest.metadata.shapes import Field, fields
from mlcat_ingest.metadata.urn import entity_type_of

COMPUTED: Final = {name: spec.computed for name, spec in ASPECTS.items() if spec.computed}
"""Aspect to the fields that the service computes, and refuses in a proposal."""

SERVICE_OWN: Final = {
    name: spec.computed | spec.filled_in
    for name, spec in ASPECTS.items()
    if spec.computed or spec.filled_in
}
"""Aspect to the fields that the service fills in by itself."""

FIRST_WRITERS: Final = {name: spec.unowned for name, spec in ASPECTS.items() if spec.unowned}
"""Aspect to the fields that it needs and nobody owns: what is stored there stays."""


def without_computed(aspect_name: str, aspect: Aspect) -> Aspect:
    """Return a stored aspect without the fields that the service computes."""
    computed = COMPUTED.get(aspect_name, frozenset())
    if computed.isdisjoint(aspect):
        return aspect
    return {field: value for field, value in aspect.items() if field not in computed}


def version_set_of(entity: Entity) -> str | None:
    """Return the version set that an entity is a version of, or is itself; None for any other."""
    if entity_type_of(entity.urn) == "versionSet":
        return entity.urn
    return entity.aspects.get(VERSION_PROPERTIES, {}).get("versionSet")


@cache
def single_fields(aspect_name: str) -> frozenset[str]:
    """Return the fields of an aspect whose list or object is one value, not a collection."""
    declared = (
        field.name for field in _fields(aspect_name) if hasattr(field.hint, "__required_keys__")
    )
    return _one_value(aspect_name).union(declared)


@cache
def required_values(aspect_name: str) -> frozenset[str]:
    """Return the fields without which an aspect is not valid and for which no empty value stands.

    A required list is not among them, since it may be empty, unless it is one value.
    """
    return frozenset(
        field.name
        for field in _fields(aspect_name)
        if field.required
        and (
            getattr(field.hint, "__origin__", None) not in {list, dict}
            or field.name in _one_value(aspect_name)
        )
    )


@cache
def properties_aspect(entity_type: str) -> str | None:
    """Return the aspect of an entity type that has custom properties, None where none has."""
    name = implied_aspect(entity_type)
    if name is None or all(field.name != "customProperties" for field in _fields(name)):
        return None
    return name


def _one_value(aspect_name: str) -> frozenset[str]:
    spec = ASPECTS.get(aspect_name)
    return frozenset() if spec is None else spec.one_value


def _fields(aspect_name: str) -> tuple[Field, ...]:
    spec = ASPECTS.get(aspect_name)
    declared: Any = None if spec is None else spec.type
    return () if declared is None else tuple(fields(declared).values())
