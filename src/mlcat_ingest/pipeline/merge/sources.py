"""`mlcat.source`: the set of the servers that an entity comes from, comma-joined."""

from collections.abc import Mapping
from typing import Any, Final

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.pipeline.merge.base import NOTHING

SOURCE_KEY: Final = "mlcat.source"
"""Custom property naming the sources of an entity: `<type>:<server>:<workspace>`, comma-joined."""

CUSTOM: Final = "customProperties"
"""The field of a properties aspect that holds what has no field of its own, the base too."""


def custom_properties(properties: Aspect) -> Mapping[str, Any]:
    """Return the custom properties of a properties aspect, none where they are no object."""
    found = properties.get(CUSTOM)
    return found if isinstance(found, dict) else NOTHING


def with_all_sources(urn: str, fresh: Aspect, stored: Mapping[str, Any]) -> Aspect:
    """Return properties `fresh` with the sources of the `stored` custom properties added.

    Raises:
        RecipeError: the entity comes from another server of the same type, and the entries of two
            servers would mix for ever.
    """
    ours = custom_properties(fresh).get(SOURCE_KEY)
    theirs = stored.get(SOURCE_KEY)
    if not isinstance(ours, str) or not isinstance(theirs, str) or ours == theirs:
        return fresh
    _refuse_second_server(urn, _servers(theirs), _servers(ours))
    joined = ",".join(dict.fromkeys([*theirs.split(","), *ours.split(",")]))
    return {**fresh, CUSTOM: {**fresh[CUSTOM], SOURCE_KEY: joined}}


def _refuse_second_server(
    urn: str, theirs: Mapping[str, set[str]], ours: Mapping[str, set[str]]
) -> None:
    for kind, servers in ours.items():
        if kind in theirs and not servers <= theirs[kind]:
            raise RecipeError(
                f"{urn} was written from another {kind} server "
                f"({', '.join(sorted(theirs[kind]))}, now {', '.join(sorted(servers))})",
                hint="set `instance` in the source's config so that the names differ, "
                "or `server_id` if it is the same server",
            )


def _servers(text: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for item in text.split(","):
        kind, _, rest = item.partition(":")
        found.setdefault(kind, set()).add(rest.rpartition(":")[0] or rest)
    return found
