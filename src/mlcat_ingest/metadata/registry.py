"""The registry: every aspect, and every entity type with what other modules read of it.

Source: the entity registry of DataHub's metadata model, in `schema.csv`.
"""

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import mlcat_ingest.metadata.aspects  # noqa: F401 - it declares aspects
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.codec import JsonObject
from mlcat_ingest.metadata.declaration import SCHEMA, AspectSpec, Field, RecordType, edges_of
from mlcat_ingest.metadata.urn import check, entity_type_of

ASPECTS: Final[Mapping[str, AspectSpec]] = MappingProxyType(SCHEMA)
"""Name to aspect."""


@dataclass(frozen=True, slots=True)
class EntityType:
    """One entity type. The parts of its URNs are in `urn.KINDS`.

    Attributes:
        entity_type: its name.
        key: the aspect that is made of its URN.
        aspects: all aspects that it may have.
        properties: its main aspect, which a proposal means that names none.
        editable: the aspect in which people describe it in the catalog, if there is one.
        type_name: its object type in GraphQL.
        enum: its value of GraphQL's EntityType.
        sought: whether a search that names no entity types finds it.
        label: what the catalog's pages call one, if not by `entity_type`.
        shows_properties: whether its page shows the main aspect in words, not as JSON.
    """

    entity_type: str
    key: str = ""
    aspects: frozenset[str] = frozenset()
    properties: str | None = None
    editable: str | None = None
    type_name: str = "OtherEntity"
    enum: str = "OTHER"
    sought: bool = False
    label: str | None = None
    shows_properties: bool = False


def _read_entity_types() -> dict[str, EntityType]:
    """Return each entity type, first those with a form of their own, in the overview's order."""
    keys = {spec.entity_types: name for name, spec in ASPECTS.items() if spec.key}
    table = Path(__file__).with_name("entity_types.csv").read_text("utf-8")
    forms: dict[str, dict[str, Any]] = {
        row.pop("entity_type"): {
            field: text == "yes" if field in {"sought", "shows_properties"} else text or None
            for field, text in row.items()
        }
        for row in csv.DictReader(table.splitlines())
    }
    aspects: dict[str, set[str]] = {name: set() for name in forms}
    for spec in ASPECTS.values():
        for name in spec.entity_types:
            aspects.setdefault(name, set()).add(spec.name)
    return {
        name: EntityType(name, keys[frozenset({name})], frozenset(names), **forms.get(name, {}))
        for name, names in aspects.items()
    }


ENTITY_TYPES: Final[Mapping[str, EntityType]] = MappingProxyType(_read_entity_types())
"""Entity types by name."""

KEY_ASPECTS: Final = frozenset(entity.key for entity in ENTITY_TYPES.values())
"""The aspects that are made of the URN. A server checks no condition on a write of one."""


def allows(entity_type: str, aspect_name: str) -> bool:
    """Return whether an entity of this type may have this aspect."""
    kind = ENTITY_TYPES.get(entity_type)
    return kind is not None and aspect_name in kind.aspects


def implied_aspect(entity_type: str) -> str | None:
    """Return the aspect that a proposal means which names none; None where it has to name one."""
    kind = ENTITY_TYPES.get(entity_type)
    return None if kind is None else kind.properties


@lru_cache(maxsize=128)
def key_aspect_name(entity_type: str) -> str:
    """Return the name of the aspect that is made of the URN; of unknown types by convention."""
    kind = ENTITY_TYPES.get(entity_type)
    return f"{entity_type}Key" if kind is None else kind.key


def key_aspect(urn: str) -> tuple[str, dict[str, str]]:
    """Return the name and the value of the key aspect of `urn`, its parts spelled as in the URN.

    Raises:
        InvalidUrnError: `urn` is no URN, breaks a rule of its kind, or has too few or many parts.
    """
    parts = check(urn)
    name = key_aspect_name(entity_type_of(urn))
    names = ASPECTS[name].key if name in ASPECTS else ("id",)
    if len(parts) != len(names):
        raise InvalidUrnError(f"{urn!r} does not have {plural(len(names), 'part')}")
    return name, dict(zip(names, parts, strict=True))


def record_of(aspect_name: str) -> RecordType | None:
    """Return the record of an aspect, None where there is none or its value is kept whole."""
    spec = ASPECTS.get(aspect_name)
    return None if spec is None else spec.type


def declared_fields(aspect_name: str) -> Mapping[str, Field]:
    """Return the fields of an aspect by name, none where its value is kept whole."""
    record = record_of(aspect_name)
    return {} if record is None else record.fields


def defaults(aspect_name: str) -> JsonObject:
    """Return what the service fills in where an aspect leaves a field out, as a fresh value."""
    return {
        field.name: json.loads(field.default)
        for field in declared_fields(aspect_name).values()
        if field.default is not None
    }


def edges(aspect_name: str, value: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the relationship and the destination URN of every edge in an aspect, each once.

    Values that are not of the declared shape are passed over.
    """
    record = record_of(aspect_name)
    return () if record is None else tuple(dict.fromkeys(edges_of(record, value)))
