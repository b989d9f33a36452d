"""Facts that follow from a URN: name and platform of its entity, and virtual aspects.

A virtual aspect is there without being stored. The key aspect always does. A default aspect does
until somebody writes another value; a read shows it at version "1", and its first value that is
stored is version 2, so that a writer who compared with the default never overwrites what another
one wrote meanwhile. (An aspect that is written together with its entity was never a default and
starts at 1.) Deleting a default aspect writes the default again.

Source: the default aspects that a DataHub 1.x server adds to new entities.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects import BROWSE_PATHS_V2, DATA_PLATFORM_INSTANCE
from mlcat_ingest.metadata.registry import ASPECTS, allows, edges, key_aspect, key_aspect_name
from mlcat_ingest.metadata.urn import FABRICS, KINDS, PREFIX, decoded_parts, raw_parts

PLATFORM: Final = f"{PREFIX}dataPlatform:"
"""The beginning of the URN of a platform; its name is the rest."""

DEFAULTED: Final = (BROWSE_PATHS_V2, DATA_PLATFORM_INSTANCE)
"""The aspects that entities have by default, those at least that may carry them."""

DEFAULT_STEP: Final = "Default"
"""The only step of the default browse path."""

DEFAULT_VERSION: Final = 1
"""The version at which reads show an aspect that is not stored."""


class Identity(NamedTuple):
    """The name inside a URN, and the names of its platform and environment, empty without one."""

    name: str
    platform: str
    environment: str

    @classmethod
    def of(cls, urn: str) -> "Identity":
        """Return the identity in `urn`, read leniently; of several parts the second is the name."""
        parts = _parts(urn)
        first, last = parts[0], parts[-1]
        return cls(
            name=parts[min(1, len(parts) - 1)],
            platform=first.removeprefix(PLATFORM) if first.startswith(PLATFORM) else "",
            environment=last if last in FABRICS else "",
        )


def _parts(urn: str) -> tuple[str, ...]:
    """Return the parts of `urn` decoded, or as they are where the kind is not known."""
    # Most URNs have nothing to decode, and then nothing about their kind needs to be known.
    if "%" in urn:
        with suppress(InvalidUrnError):
            return decoded_parts(urn)
    try:
        return raw_parts(urn)
    except InvalidUrnError:
        return (urn,)


def default_aspect(
    urn: str, entity_type: str, aspect: str, key: Mapping[str, Any] | None = None
) -> dict[str, Any] | None:
    """Return the default value of `aspect` of an entity, or None if it has no default.

    The value of the key aspect is read off the URN where it is not given.
    """
    if aspect not in DEFAULTED or entity_type not in KINDS or not allows(entity_type, aspect):
        return None
    if aspect == BROWSE_PATHS_V2:
        return {"path": [{"id": DEFAULT_STEP}]}
    platform = _platform(key if key is not None else key_aspect(urn)[1])
    return None if platform is None else {"platform": platform}


def _platform(key: Mapping[str, Any]) -> str | None:
    if "flow" in key:  # a data job runs where its flow does
        key = key_aspect(key["flow"])[1]
    if "orchestrator" in key:
        return f"{PLATFORM}{key['orchestrator']}"
    return key.get("platform")


def key_edges(urn: str, entity_type: str) -> tuple[tuple[str, str], ...]:
    """Return the edges that leave an entity because of what its URN names."""
    if key_aspect_name(entity_type) not in KEYS_WITH_EDGES:
        return ()
    return edges(*key_aspect(urn))


KEYS_WITH_EDGES: Final = frozenset(name for name, spec in ASPECTS.items() if spec.key and spec.type)
"""The key aspects that name other entities."""
