"""How entity types appear in GraphQL."""

from typing import Final

from mlcat_ingest.metadata.registry import ENTITY_TYPES as _ALL
from mlcat_ingest.metadata.registry import EntityType

KINDS: Final = {name: kind for name, kind in _ALL.items() if kind.enum != "OTHER"}
"""Entity types that have a name in GraphQL."""

ENTITY_TYPES: Final = {kind.enum: name for name, kind in KINDS.items()}
"""Value of EntityType to entity type; OTHER and RESTRICTED stand for none."""

SOUGHT: Final = frozenset(name for name, kind in KINDS.items() if kind.sought)
"""The entity types of a search that names none."""


def kind_of(entity_type: str) -> EntityType:
    """Return the form of an entity type; one that has no name in GraphQL is an OTHER."""
    return KINDS.get(entity_type) or EntityType(entity_type)
