"""Aspects that are there without being stored: they follow from the URN.

The key aspect always does. A default aspect does until somebody writes another value; a read
shows it at version "1", and its first value that is stored is version 2, so that a writer who
compared with the default never overwrites what another one wrote meanwhile. (An aspect that is
written together with its entity was never a default and starts at 1.) Deleting a default aspect
writes the default again.

Source: the default aspects that a DataHub 1.x server adds to new entities.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mlcat_ingest.metadata.aspects.common import BROWSE_PATHS_V2, DATA_PLATFORM_INSTANCE
from mlcat_ingest.metadata.aspects.markers import Edge
from mlcat_ingest.metadata.registry import ASPECTS, ENTITIES, edges, key_aspect, key_aspect_name
from mlcat_ingest.metadata.shapes import fields

DEFAULTED: Final = (BROWSE_PATHS_V2, DATA_PLATFORM_INSTANCE)
"""The aspects that entities have by default, those at least that may carry them."""

DEFAULT_VERSION: Final = 1
"""The version at which reads show an aspect that is not stored."""

_PLATFORM_PREFIX = "urn:li:dataPlatform:"


def default_aspect(
    urn: str, entity_type: str, aspect: str, key: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return what `aspect` of an entity is while nobody wrote it; None where that is nothing.

    The value of the key aspect is read off the URN where it is not given.
    """
    kind = ENTITIES.get(entity_type)
    if aspect not in DEFAULTED or kind is None or aspect not in kind.aspects:
        return None
    if aspect == BROWSE_PATHS_V2:
        return {"path": [{"id": "Default"}]}
    platform = _platform(key if key is not None else key_aspect(urn)[1])
    return None if platform is None else {"platform": platform}


def _platform(key: Mapping[str, Any]) -> str | None:
    if "flow" in key:  # a data job runs where its flow does
        key = key_aspect(key["flow"])[1]
    if "orchestrator" in key:
        return f"{_PLATFORM_PREFIX}{key['orchestrator']}"
    return key.get("platform")


def key_edges(urn: str, entity_type: str) -> tuple[tuple[str, str], ...]:
    """Return the edges that leave an entity because of what its URN names."""
    if key_aspect_name(entity_type) not in KEYS_WITH_EDGES:
        return ()
    return tuple(edges(*key_aspect(urn)))


def _with_edges() -> Iterator[str]:
    for kind in ENTITIES.values():
        markers = (m for f in fields(ASPECTS[kind.key].type).values() for m in f.markers)
        if any(isinstance(marker, Edge) for marker in markers):
            yield kind.key


KEYS_WITH_EDGES: Final = frozenset(_with_edges())
"""The key aspects that name other entities."""
