"""The passport of a model, read from a catalog service by the versions that it keeps."""

from collections.abc import Collection, Mapping
from functools import partial
from http import HTTPStatus
from typing import Any

from mlcat_ingest.client.base import Reads
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import CatalogRequestError, RecipeError
from mlcat_ingest.metadata.aspects import ML_MODEL_PROPERTIES, STATUS, VERSION_PROPERTIES
from mlcat_ingest.metadata.passport import (
    MOST_VERSIONS,
    Kept,
    KeptVersion,
    Passport,
    date_of,
    passport,
    writer_text,
)
from mlcat_ingest.metadata.registry import ENTITY_TYPES
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.merge.provenance import is_removed
from mlcat_ingest.workflows.explain import explain


def read_passport(catalog: Reads, urn: str, on_ms: int | None = None) -> Passport:
    """Return the passport of the model `urn`, as it is now, or as it was at `on_ms`.

    Raises:
        RecipeError: `urn` is no model, or the catalog keeps no versions.
        CatalogRequestError: the catalog does not have the model, or did not have it then.
        MlcatError: it cannot be read.

    Cost: a request for each version of its aspects, for each entity that it is made from, and one
    for each 200 versions of its registered model.
    """
    if entity_type_of(urn) != "mlModel":
        hint = "a card is of a run, or of a version of a registered model"
        raise RecipeError(f"{urn} is no model", hint=hint)
    if not isinstance(catalog, CatalogClient):
        raise RecipeError("the catalog keeps no versions", hint="set `sink` to a catalog service")
    entries = explain(catalog, urn, ENTITY_TYPES["mlModel"].aspects).entries
    claims = {(one.aspect, one.field, one.entry or ""): ", ".join(one.recipes) for one in entries}
    siblings = _siblings(catalog, urn)
    made = passport(urn, partial(kept_versions, catalog), on_ms, claims, siblings)
    if on_ms is not None and all(one != urn for one, *_ in made.made_from):
        why = "; ".join(made.unknown) or "its first version is younger"
        message = f"the catalog does not know {urn} at {date_of(on_ms)}: {why}"
        raise CatalogRequestError(message, status=HTTPStatus.NOT_FOUND, urn=urn)
    return made


def _siblings(catalog: CatalogClient, urn: str) -> dict[str, str]:
    """Return the other live versions of the registered model, with what they are sorted by."""
    read = [ML_MODEL_PROPERTIES, VERSION_PROPERTIES, STATUS]
    own = catalog.read_many([urn], read).get(urn, {})
    if VERSION_PROPERTIES not in own or ML_MODEL_PROPERTIES not in own:
        return {}
    version_set = own[VERSION_PROPERTIES].value.get("versionSet")
    groups = own[ML_MODEL_PROPERTIES].value.get("groups") or ()
    members = (urns for group in groups for urns in catalog.search.members(group))
    return {
        one: str(version.value.get("sortId"))
        for urns in members
        for one, stored in catalog.read_many(urns, read[1:]).items()
        # A group that people make can have the versions of other models.
        if (version := stored.get(VERSION_PROPERTIES)) and not is_removed(stored)
        if one != urn and version.value.get("versionSet") == version_set
    }


def kept_versions(catalog: CatalogClient, urn: str, aspects: Collection[str] | None) -> Kept:
    """Return the versions that the catalog keeps of each of `aspects`, or all, of an entity.

    The newest `MOST_VERSIONS` of each are read.
    """
    wanted = dict.fromkeys(sorted(aspects or ENTITY_TYPES[entity_type_of(urn)].aspects), 0)
    kept: dict[str, list[KeptVersion]] = {}
    for _ in range(MOST_VERSIONS):
        read = catalog.read_versions(urn, wanted)
        wanted = {}
        for name, envelope in read.items():
            version = _version(name, envelope)
            of_aspect = kept.setdefault(name, [])
            if of_aspect and version.number >= of_aspect[-1].number:
                continue  # not the version that was asked for
            of_aspect.append(version)
            if version.number > 1:
                wanted[name] = version.number - 1
        if not wanted:
            break
    return kept


def _version(aspect: str, envelope: Mapping[str, Any]) -> KeptVersion:
    system = envelope.get("systemMetadata") or {}
    stamp = envelope.get("auditStamp") or system.get("aspectModified") or {}
    writer = writer_text(aspect, str(stamp.get("actor") or ""), system)
    value = envelope.get("value") or {}
    return KeptVersion(int(system.get("version") or 0), value, stamp.get("time"), writer)
