"""The part of the metadata model that each release of DataHub's server lacks.

It stands in `releases.json`, which `tests/compat/releases/matrix.py` writes from the SDKs of the
releases; a server acknowledges what it lacks and does not store it.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from mlcat_ingest.metadata.registry import ASPECTS

FILE: Final = "releases.json"
"""The file beside this module."""


@dataclass(frozen=True, slots=True)
class Release:
    """The model of one release.

    Attributes:
        sdk: the version of the SDK that the model was read from.
        server: the server's release that has this model; None for an SDK that runs ahead of its
            server.
        environments: the environments that exist.
        aspects: what it lacks of the aspects that entity types may have, as `mlModel.container`.
        fields: what it lacks of the fields of other aspects, as `ownership.owners.attribution`.
    """

    sdk: str
    server: str | None
    environments: frozenset[str]
    aspects: frozenset[str]
    fields: frozenset[str]

    @property
    def lacks(self) -> frozenset[str]:
        """Its missing aspects, and its missing fields for each entity type of their aspect."""
        return self.aspects.union(*map(_with_entity_types, self.fields))


@cache
def releases() -> tuple[Release, ...]:
    """Return the releases of the file, oldest first."""
    text = files(__package__).joinpath(FILE).read_text(encoding="utf-8")
    sets = ("environments", "aspects", "fields")
    return tuple(
        Release(one["sdk"], one["server"], *(frozenset(one[name]) for name in sets))
        for one in json.loads(text)
    )


def server_release(version: str) -> Release:
    """Return the release of a server, as `v1.0.0`.

    Raises:
        KeyError: it is not among those of the file.
    """
    return {one.server: one for one in releases()}[version]


def known_part(value: Any, place: str, lacks: frozenset[str]) -> Any:
    """Return the part of `value`, which stands at `place`, that a server stores.

    Fields are trimmed at every depth. Source: IgnoreUnknownMutator.java.
    """
    if isinstance(value, Mapping):
        return {
            key: known_part(one, f"{place}.{key}", lacks)
            for key, one in value.items()
            if f"{place}.{key}" not in lacks
        }
    if isinstance(value, list):
        return [known_part(one, place, lacks) for one in value]
    return value


def _with_entity_types(field: str) -> Iterator[str]:
    aspect = field.partition(".")[0]
    yield from (f"{entity_type}.{field}" for entity_type in ASPECTS[aspect].entity_types)
