"""How fields are named in filters, sorts and facets: one spelling for each."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from mlcat_ingest.metadata.aspects.common import BROWSE_PATHS_V2, SUB_TYPES

_ALIASES: Final[Mapping[str, str]] = {
    "entityType": "_entityType",
    "entity": "_entityType",
    "env": "origin",
    BROWSE_PATHS_V2: "browsePathV2",
    SUB_TYPES: "typeNames",
    "createdAt": "created",
    "lastModifiedAt": "lastModified",
}
_FIGURES: Final[Mapping[str, str]] = {
    "metrics": "metrics",
    "trainingMetrics": "metrics",
    "onlineMetrics": "onlineMetrics",
    "hyperParams": "hyperParams",
    "hyperParameters": "hyperParams",
    "params": "hyperParams",
}


class FieldName(NamedTuple):
    """A field, and where it is a kind of figures the literal `name` of one: `metrics`, `auc`."""

    field: str
    name: str | None = None


def field_name(spelled: str) -> FieldName:
    """Return which field is meant; `.keyword` behind it changes nothing."""
    kind, dot, name = spelled.partition(".")
    if dot and name and kind in _FIGURES:
        return FieldName(_FIGURES[kind], name)
    bare = spelled.removesuffix(".keyword")
    return FieldName(_ALIASES.get(bare, bare))
