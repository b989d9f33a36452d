"""The registry: every aspect, and every entity type with what other modules read of it.

An entity type without aspects here is open: it may have any aspect, which is not checked.
Source: the entity registry of DataHub's metadata model 1.7.
"""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Final

from mlcat_ingest.metadata.aspects import (  # noqa: F401 - they declare aspects
    assets,
    common,
    declaration,
    governance,
    keys,
    ml,
    processes,
    untyped,
)
from mlcat_ingest.metadata.aspects.declaration import AspectSpec, Default, edges_of, fields
from mlcat_ingest.metadata.codec import JsonObject
from mlcat_ingest.metadata.urn import KINDS, check, entity_type_of

DECLARED: Final[Mapping[str, AspectSpec]] = MappingProxyType(declaration.DECLARED)
"""Name to aspect, those that DataHub's clients write on open entity types included."""

ASPECTS: Final[Mapping[str, AspectSpec]] = MappingProxyType(
    {name: spec for name, spec in DECLARED.items() if spec.entity_types}
)
"""Name to aspect, for every aspect of the entity types in `ENTITIES`."""


@dataclass(frozen=True, slots=True)
class EntityType:
    """One entity type. The parts of its URNs are in `urn.KINDS`.

    Attributes:
        entity_type: its name.
        properties: its main aspect, which a proposal means that names none.
        editable: the aspect in which people describe it in the catalog, if there is one.
        type_name: its object type in GraphQL.
        enum: its value of GraphQL's EntityType.
        sought: whether a search that names no entity types finds it.
        label: what the catalog's pages call one, if not by `entity_type`.
        shows_properties: whether its page shows the main aspect in words, not as JSON.
        aspects: all aspects that it may have; none if it is open.
    """

    entity_type: str
    properties: str | None = None
    editable: str | None = None
    type_name: str = "OtherEntity"
    enum: str = "OTHER"
    sought: bool = False
    label: str | None = None
    shows_properties: bool = False
    aspects: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """The aspect that is made of its URN."""
        return keys.CORP_USER_KEY if self.entity_type == "corpuser" else f"{self.entity_type}Key"


_NAME: Final = re.compile("[A-Za-z][A-Za-z0-9]{0,99}")
_TABLE: Final = Path(__file__).with_name("entity_types.csv")


def _read_table() -> Iterator[tuple[EntityType, bool]]:
    """Yield each entity type, and whether its aspects are checked.

    Those that are not are written by DataHub's clients; their aspects are kept whole. The others
    come first, in the order in which the catalog's overview lists them.
    """
    for row in csv.DictReader(_TABLE.read_text("utf-8").splitlines()):
        name, is_checked = row["entity_type"], row["checked"] == "yes"
        names = (n for n, spec in ASPECTS.items() if name in spec.entity_types)
        entity_type = EntityType(
            name,
            row["properties"] or None,
            row["editable"] or None,
            row["type_name"],
            row["enum"],
            row["sought"] == "yes",
            row["label"] or None,
            row["shows_properties"] == "yes",
            frozenset(names if is_checked else ()),
        )
        yield entity_type, is_checked


_ROWS: Final = tuple(_read_table())

ENTITIES: Final[Mapping[str, EntityType]] = MappingProxyType(
    {entity.entity_type: entity for entity, is_checked in _ROWS if is_checked}
)
"""Entity types whose aspects are known, by name."""

ENTITY_TYPES: Final[Mapping[str, EntityType]] = MappingProxyType(
    {entity.entity_type: entity for entity, _ in _ROWS}
)
"""Entity types by name, open ones included."""

KEY_ASPECTS: Final = frozenset(entity.key for entity in ENTITY_TYPES.values())
"""The aspects that are made of the URN. A server checks no condition on a write of one."""


def allows(entity_type: str, aspect_name: str) -> bool:
    """Return whether an entity of this type may have this aspect; open types may have any."""
    kind = ENTITIES.get(entity_type)
    return aspect_name in kind.aspects if kind else _NAME.fullmatch(aspect_name) is not None


def implied_aspect(entity_type: str) -> str | None:
    """Return the aspect that a proposal means which names none; None for an open type."""
    kind = ENTITIES.get(entity_type)
    return None if kind is None else kind.properties


def record_name(aspect_name: str) -> str | None:
    """Return the record name that reads answer an aspect under; None for an unknown aspect."""
    spec = DECLARED.get(aspect_name)
    return None if spec is None else spec.record


@lru_cache(maxsize=128)
def key_aspect_name(entity_type: str) -> str:
    """Return the name of the aspect that is made of the URN; of open types by convention."""
    kind = ENTITIES.get(entity_type)
    return f"{entity_type}Key" if kind is None else kind.key


def key_aspect(urn: str) -> tuple[str, dict[str, str]]:
    """Return the name and the value of the key aspect of `urn`.

    Parts are spelled as in the URN. Open types have the whole id as `id`.

    Raises:
        InvalidUrnError: `urn` is no URN, or breaks a rule of its kind.
    """
    parts = check(urn)
    entity_type = entity_type_of(urn)
    name = key_aspect_name(entity_type)
    if entity_type not in KINDS:
        return name, {"id": urn.split(":", 3)[3]}
    return name, dict(zip(fields(ASPECTS[name].type), parts, strict=True))


def defaults(aspect_name: str) -> JsonObject:
    """Return what the service fills in where an aspect leaves a field out, as a fresh value."""
    spec = ASPECTS.get(aspect_name)
    if spec is None or spec.type is None:
        return {}
    return {
        field.name: json.loads(marker.json)
        for field in fields(spec.type).values()
        for marker in field.markers
        if isinstance(marker, Default)
    }


def edges(aspect_name: str, value: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return the relationship and the destination URN of every edge in an aspect, each once.

    Values that are not of the declared shape are passed over.
    """
    spec = ASPECTS.get(aspect_name)
    if spec is None or spec.type is None:
        return ()
    found = edges_of(spec.type, value)
    return tuple(dict.fromkeys(found) if len(found) > 1 else found)
