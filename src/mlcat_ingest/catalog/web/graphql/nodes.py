"""The values that resolvers pass on: entities, and records inside their aspects."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mlcat_ingest.catalog.web.graphql.loader import Cohort, Pick
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.registry import ENTITY_TYPES as _ALL
from mlcat_ingest.metadata.registry import EntityType
from mlcat_ingest.metadata.urn import entity_type_of, raw_parts

KINDS: Final = {name: kind for name, kind in _ALL.items() if kind.enum != "OTHER"}
"""Entity types that have a name in GraphQL."""

ENTITY_TYPES: Final = {kind.enum: name for name, kind in KINDS.items()}
"""Value of EntityType to entity type; OTHER and RESTRICTED stand for none."""

SOUGHT: Final = frozenset(name for name, kind in KINDS.items() if kind.sought)
"""The entity types of a search that names none."""


def kind_of(entity_type: str) -> EntityType:
    """Return the form of an entity type; one that has no name in GraphQL is an OTHER."""
    return KINDS.get(entity_type) or EntityType(entity_type)


class Node:
    """An entity, by its URN; it need not exist."""

    __slots__ = ("_parts", "cohort", "kind", "urn")

    def __init__(self, urn: str, kind: EntityType, cohort: Cohort) -> None:
        """Stand for the entity `urn`, found among `cohort`."""
        self.urn = urn
        self.kind = kind
        self.cohort = cohort
        self._parts: tuple[str, ...] | None = None

    def part(self, index: int) -> str:
        """Return a part of the URN verbatim; the last one where there are fewer."""
        if self._parts is None:
            try:
                self._parts = raw_parts(self.urn)
            except InvalidUrnError:
                self._parts = (self.urn,)
        return self._parts[min(index, len(self._parts) - 1)]

    def aspect(self, name: str | None) -> Mapping[str, Any] | None:
        """Return a stored aspect's value, or None; None names no aspect."""
        stored = self.cohort.aspect(self.urn, name) if name else None
        return None if stored is None else stored.value

    def record(self, name: str | None) -> "Record | None":
        """Return a stored aspect as a record, or None."""
        value = self.aspect(name)
        return None if value is None else Record(self, value)

    def references(self, aspect: str, field: str, pick: Pick, urns: Iterable[str]) -> "list[Node]":
        """Return the entities `urns`, which are those that `field` of this entity refers to."""
        cohort = self.cohort.child(aspect, field, pick)
        return [node for urn in urns if (node := node_of(urn, cohort)) is not None]


class Record:
    """A JSON object inside an aspect of `node`; its fields are read by their own names."""

    __slots__ = ("node", "value")

    def __init__(self, node: Node, value: Mapping[str, Any]) -> None:
        """Stand for `value`, a part of what is stored about `node`."""
        self.node = node
        self.value = value


def node_of(urn: str, cohort: Cohort) -> Node | None:
    """Return the entity `urn`, one of `cohort`, or None where it is no URN."""
    try:
        return Node(urn, kind_of(entity_type_of(urn)), cohort)
    except InvalidUrnError:
        return None
