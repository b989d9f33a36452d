"""Size limits: of one batch, and of the search index of a DataHub server.

Before v1.7 a text of more than 32,766 bytes takes the whole entity out of the index, and only the
first 1,000 custom properties of an entity are searched.

Source: `SearchDocumentTransformer.java`, `FieldExtractor.java`.
"""

from typing import Final

from mlcat_ingest.core.text import plural, truncation
from mlcat_ingest.metadata.entries import COLLECTIONS
from mlcat_ingest.metadata.proposal import CUSTOM, Aspect, Entity, Note, custom_properties
from mlcat_ingest.metadata.reserved import OWN_PREFIX
from mlcat_ingest.pipeline.merge.rules import properties_aspect

MAX_TEXT_BYTES: Final = 32_766
"""Longest text that the index takes as one term, in bytes of UTF-8."""

MAX_PROPERTIES: Final = 1_000
"""Custom properties of one entity that are searched, those of others among them."""

_TEXT: Final = "description"


def with_short_text(fresh: Aspect, notes: list[Note]) -> Aspect:
    """Return a properties aspect whose description the index takes."""
    text = fresh.get(_TEXT)
    if not isinstance(text, str):
        return fresh
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= MAX_TEXT_BYTES:
        return fresh
    notes.append(Note("truncated", f"{_TEXT}: {plural(len(data), 'byte')}"))
    ending = truncation(len(text))
    kept = data[: MAX_TEXT_BYTES - len(ending.encode())].decode("utf-8", "ignore")
    return {**fresh, _TEXT: kept + ending}


def without_surplus(fresh: Aspect, merged: Aspect, base_key: str, notes: list[Note]) -> Aspect:
    """Return `fresh` without the last custom properties that are too many in `merged`.

    The base under `base_key` counts too. Properties of others stay, and so do our own about the
    entity.
    """
    in_catalog = custom_properties(merged)
    surplus = len(in_catalog) + (base_key not in in_catalog) - MAX_PROPERTIES
    if surplus <= 0:
        return fresh
    custom = custom_properties(fresh)
    left_out = [key for key in custom if not key.startswith(OWN_PREFIX)][-surplus:]
    if not left_out:
        return fresh
    notes.append(
        Note(
            "properties_left_out",
            f"{len(left_out):,} of {plural(len(custom), 'property', 'properties')}",
        )
    )
    kept = {key: value for key, value in custom.items() if key not in {*left_out}}
    return {**fresh, CUSTOM: kept}


_COLLECTIONS: Final = frozenset(COLLECTIONS)

HEAVIEST: Final = 11_000
"""Entries in one chunk, and in one batch; 200 runs of 20 parameters and 20 metrics have 10,800."""


def weight_of(entity: Entity) -> int:
    """Return how many entries the lists and maps of an entity's properties aspect have."""
    properties = entity.aspects.get(properties_aspect(entity.entity_type))
    if properties is None:
        return 0
    return sum([len(value) for value in properties.values() if type(value) in _COLLECTIONS])
