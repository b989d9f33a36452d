"""Version sets: an entity is linked as the newest version of one, or unlinked.

This is for clients that leave the order of versions to the catalog; which version is the latest
is computed on write, see `store.version_sets`. Source: `linkAssetVersion` and
`unlinkAssetVersion` of DataHub's GraphQL API.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError, NotFoundError
from mlcat_ingest.catalog.schema.values import UNKNOWN_ACTOR, Direction, Write
from mlcat_ingest.catalog.store.store import Store, now_ms
from mlcat_ingest.metadata.aspects.common import VERSION_PROPERTIES, VERSION_SET_PROPERTIES
from mlcat_ingest.metadata.registry import allows, key_aspect, key_aspect_name
from mlcat_ingest.metadata.urn import entity_type_of

_GENERATED: Final = "ALPHANUMERIC_GENERATED_BY_DATAHUB"
_FIRST: Final = "AAAAAAAA"
_MOST_VERSIONS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Version:
    """What is said of a version when it is linked; the source's time is in ms, UTC."""

    label: str
    comment: str | None = None
    source_created_ms: int | None = None
    source_created_by: str | None = None


def link(store: Store, version_set: str, urn: str, version: Version) -> None:
    """Make `urn` the newest version of `version_set`, which is made where it is missing.

    Raises:
        BadRequestError: the set is for entities of another type, or `urn` is in a set already.
        NotFoundError: `urn` is not in the catalog.
        InvalidProposalError: another version was linked at the same time.
    """
    _check_set(version_set, urn)
    found = store.get_many([version_set, urn], {VERSION_SET_PROPERTIES, VERSION_PROPERTIES})
    if urn not in found:
        raise NotFoundError(f"{urn} is not in the catalog")
    linked = found[urn].get(VERSION_PROPERTIES)
    if linked is not None:
        raise BadRequestError(f"{urn} is a version of {linked.value['versionSet']} already")
    held = found.get(version_set, {}).get(VERSION_SET_PROPERTIES)
    scheme = _GENERATED if held is None else held.value["versioningScheme"]
    latest = None if held is None else held.value["latest"]
    value = _version_value(version_set, version, scheme, _sort_id(store, scheme, latest, version))
    store.write([Write(urn, VERSION_PROPERTIES, value, "CREATE")])


def unlink(store: Store, version_set: str | None, urn: str) -> str:
    """Take `urn` out of its version set and return the set; without versions, that is deleted.

    Raises:
        BadRequestError: `urn` is in no set, or in another than `version_set` (None: any).
        VersionConflictError: the entity or the set was changed at the same time.
    """
    linked = store.get_many([urn], {VERSION_PROPERTIES}).get(urn, {}).get(VERSION_PROPERTIES)
    named = None if linked is None else linked.value["versionSet"]
    if linked is None or named is None or version_set not in {None, named}:
        raise BadRequestError(f"{urn} is not a version of {version_set or 'anything'}")
    leaving = Write(urn, VERSION_PROPERTIES, change="DELETE", expected_version=str(linked.version))
    store.write([leaving, *_after_leaving(store, named, urn)])
    return str(named)


def _check_set(version_set: str, urn: str) -> None:
    if entity_type_of(version_set) != "versionSet":
        raise BadRequestError(f"{version_set!r} is not the URN of a version set")
    entity_type = entity_type_of(urn)
    if not allows(entity_type, VERSION_PROPERTIES):
        raise BadRequestError(f"{entity_type} entities have no versions")
    meant = key_aspect(version_set)[1]["entityType"]
    if meant != entity_type:
        raise BadRequestError(f"{version_set} is a set of {meant} entities, not of {entity_type}")


def _version_value(
    version_set: str, version: Version, scheme: str, sort_id: str
) -> Mapping[str, Any]:
    value: dict[str, Any] = {
        "versionSet": version_set,
        "version": {"versionTag": version.label},
        "sortId": sort_id,
        "versioningScheme": scheme,
        "metadataCreatedTimestamp": {"time": now_ms(), "actor": UNKNOWN_ACTOR},
    }
    if version.comment is not None:
        value["comment"] = version.comment
    if version.source_created_ms is not None:
        actor = version.source_created_by or UNKNOWN_ACTOR
        value["sourceCreatedTimestamp"] = {"time": version.source_created_ms, "actor": actor}
    return value


def _sort_id(store: Store, scheme: str, latest: str | None, version: Version) -> str:
    """Return what sorts the new version behind the latest, or is its own order by the scheme."""
    if scheme != _GENERATED:
        return version.label
    found = (
        store.get_many([latest], {VERSION_PROPERTIES}).get(latest, {}) if latest is not None else {}
    )
    return (
        next_sort_id(found[VERSION_PROPERTIES].value["sortId"])
        if VERSION_PROPERTIES in found
        else _FIRST
    )


def next_sort_id(sort_id: str) -> str:
    """Return the text after `sort_id`, counted in capital letters: `AAAZ` leads to `AABA`."""
    kept = sort_id.rstrip("Z")
    if not kept or not ("A" <= kept[-1] < "Z"):
        return f"{sort_id}A"
    return kept[:-1] + chr(ord(kept[-1]) + 1) + "A" * (len(sort_id) - len(kept))


def _after_leaving(store: Store, version_set: str, urn: str) -> list[Write]:
    """Return what becomes of a set once `urn` is no longer in it."""
    held = (
        store.get_many([version_set], {VERSION_SET_PROPERTIES})
        .get(version_set, {})
        .get(VERSION_SET_PROPERTIES)
    )
    if held is None or held.value["latest"] != urn:
        return []
    page = store.related([version_set], {"VersionOf"}, Direction.INCOMING, 0, _MOST_VERSIONS)
    others = {end.urn for end in page[version_set].entities} - {urn}
    found = store.get_many(others, {VERSION_PROPERTIES})
    order = {
        other: str(aspects[VERSION_PROPERTIES].value["sortId"])
        for other, aspects in found.items()
        if VERSION_PROPERTIES in aspects
    }
    if not order:
        return [Write(version_set, key_aspect_name("versionSet"), change="DELETE")]
    newest = max(order, key=order.__getitem__)
    value = {**held.value, "latest": newest}
    return [Write(version_set, VERSION_SET_PROPERTIES, value, expected_version=str(held.version))]
