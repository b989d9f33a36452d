"""The provenance of an entity: `mlcat.source` names its servers, comma-joined."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.errors import RecipeError
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.identity import is_another
from mlcat_ingest.metadata.proposal import CUSTOM, Aspect, Entity, custom_properties
from mlcat_ingest.metadata.reserved import SOURCE_KEY
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.applied import NOTHING, Base, fingerprint, fingerprints_in
from mlcat_ingest.pipeline.merge.rules import BORROWED, properties_aspect, version_set_of

_OF_ONE_STORE: Final = frozenset({"mlFeatureTable", "mlFeature", "mlPrimaryKey"})
"""Entities of feature stores: their URNs do not name the store, so two stores may share one."""


def stored_properties(urn: str, stored: StoredEntity) -> Aspect | None:
    """Return the stored properties aspect of an entity, None where it has none."""
    aspect = stored.get(properties_aspect(entity_type_of(urn)))
    return None if aspect is None else aspect.value


def custom_of(urn: str, stored: StoredEntity) -> Mapping[str, object]:
    """Return the custom properties of a stored entity, none where it has none."""
    return custom_properties(stored_properties(urn, stored) or NOTHING)


def is_removed(stored: StoredEntity) -> bool:
    """Return whether an entity is marked as removed in the catalog."""
    status = stored.get(STATUS)
    return status is not None and status.value.get("removed") is True


def marks_removed(entity: Entity) -> bool:
    """Return whether the source marks an entity as removed."""
    return entity.aspects.get(STATUS, NOTHING).get("removed") is True


def _goes_by_name(entity: Entity) -> bool:
    """Return whether an entity is a group or version: others have ids that nothing gets again."""
    return entity.entity_type == "mlModelGroup" or version_set_of(entity) is not None


def is_reused(entity: Entity, stored: StoredEntity) -> bool:
    """Return whether a group or version was made from another object of its name and source."""
    main = properties_aspect(entity.entity_type)
    if not _goes_by_name(entity):
        return False
    if main not in stored or main not in entity.aspects:
        return False
    before, now = stored[main].value, entity.aspects[main]
    sources = str(custom_properties(before).get(SOURCE_KEY)).split(",")
    return custom_properties(now).get(SOURCE_KEY) in sources and is_another(before, now)


def wrote_another(entity: Entity, ours: Base) -> bool:
    """Return whether a base is of another object of the name of a group or version.

    It keeps when that was made, whatever other recipes and tools have written since.
    """
    main = properties_aspect(entity.entity_type)
    field = "createdAt" if entity.entity_type == "mlModelGroup" else "date"
    made = entity.aspects.get(main, NOTHING).get(field)
    before = ours.get(main, NOTHING).get(field, "")
    if not (_goes_by_name(entity) and made and before):
        return False
    return fingerprint(made) not in fingerprints_in(before)


def with_all_sources(
    urn: str, fresh: Aspect, stored: Mapping[str, object], *, removed: bool = False
) -> Aspect:
    """Return properties `fresh` with the sources of the `stored` custom properties added.

    A feature store that its entity was `removed` from does not hold it any more.

    Raises:
        RecipeError: the entity comes from another server of the same type, or from another feature
            store, and the entries of the two would mix for ever.
    """
    ours = custom_properties(fresh).get(SOURCE_KEY)
    theirs = stored.get(SOURCE_KEY)
    if not isinstance(ours, str) or not isinstance(theirs, str) or ours == theirs:
        return fresh
    if entity_type_of(urn) in _OF_ONE_STORE:
        if not removed:
            refuse_second_store(urn, theirs, ours)
        return fresh
    if entity_type_of(urn) not in BORROWED:  # which the runs of many servers use
        _refuse_second_server(urn, _servers(theirs), _servers(ours))
    sources = ",".join(dict.fromkeys([*theirs.split(","), *ours.split(",")]))
    return {**fresh, CUSTOM: {**fresh[CUSTOM], SOURCE_KEY: sources}}


def refuse_second_store(urn: str, theirs: object, ours: str) -> None:
    """Return if a feature table, or what is in it, that is from `theirs` may be from `ours` too.

    Raises:
        RecipeError: these are two stores.
    """
    if isinstance(theirs, str) and set(theirs.split(",")) != {ours}:
        identity = theirs.partition(",")[0].partition(":")[2].rpartition(":")[0]
        raise RecipeError(
            f"two feature stores have the same name for {urn}: {theirs} and {ours}",
            hint="set `namespace_prefix` for one of them; if it is one store, moved or made again, "
            f"set `server_id` to {unquote(identity)}",
        )


def _refuse_second_server(
    urn: str, theirs: Mapping[str, set[str]], ours: Mapping[str, set[str]]
) -> None:
    for kind, servers in ours.items():
        if kind in theirs and not servers <= theirs[kind]:
            raise RecipeError(
                f"{urn} is in the catalog already, from another {kind} server "
                f"({', '.join(sorted(theirs[kind]))}; this one is {', '.join(sorted(servers))})",
                hint="for a second server set `instance: NAME` in the source's config "
                "(--instance with an MLflow URL); for the same server, moved, set "
                f"`server_id: {min(theirs[kind])}`",
            )


def _servers(text: str) -> dict[str, set[str]]:
    servers: dict[str, set[str]] = {}
    for item in text.split(","):
        kind, _, rest = item.partition(":")
        servers.setdefault(kind, set()).add(rest.rpartition(":")[0] or rest)
    return servers
