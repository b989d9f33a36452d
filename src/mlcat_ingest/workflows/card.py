"""The passport of a model, read from a catalog service by the versions that it keeps."""

from collections.abc import Mapping
from typing import Any

from mlcat_ingest.client.base import Reads
from mlcat_ingest.client.rest.client import CatalogClient
from mlcat_ingest.errors import CatalogRequestError, RecipeError
from mlcat_ingest.metadata.passport import (
    MOST_VERSIONS,
    Kept,
    KeptVersion,
    Passport,
    date_of,
    passport,
    related,
    writer_text,
)
from mlcat_ingest.metadata.registry import ENTITY_TYPES
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.workflows.explain import explain

_MODEL = "mlModel"
_NOT_FOUND = 404


def read_passport(catalog: Reads, urn: str, on_ms: int | None = None) -> Passport:
    """Return the passport of the model `urn`, as it is now, or as it was at `on_ms`.

    Raises:
        RecipeError: `urn` is no model, or the catalog keeps no versions.
        CatalogRequestError: the catalog does not have the model, or did not have it then.
        MlcatError: it cannot be read.

    Cost: a request for each version of its aspects, for each entity that it is made from.
    """
    if entity_type_of(urn) != _MODEL:
        raise RecipeError(
            f"{urn} is no model", hint="a card is of a run, or of a version of a registered model"
        )
    if not isinstance(catalog, CatalogClient):
        raise RecipeError("the catalog keeps no versions", hint="set `sink` to a catalog service")
    explanation = explain(catalog, urn, sorted(ENTITY_TYPES[_MODEL].aspects))
    claims = {
        (entry.aspect, entry.field, entry.entry or ""): ", ".join(entry.recipes)
        for entry in explanation.entries
    }
    subject = _kept(catalog, urn)
    others = {one: _kept(catalog, one) for one in related(subject)}
    made = passport(urn, {urn: subject, **others}, on_ms, claims)
    if on_ms is not None and all(one != urn for one, _, _ in made.made_from):
        known = "; ".join(made.unknown) or "its first version is younger"
        raise CatalogRequestError(
            f"the catalog does not know {urn} at {date_of(on_ms)}: {known}",
            status=_NOT_FOUND,
            urn=urn,
        )
    return made


def _kept(catalog: CatalogClient, urn: str) -> Kept:
    """Return the versions that the catalog keeps of each aspect of an entity, the newest first."""
    wanted = dict.fromkeys(sorted(ENTITY_TYPES[entity_type_of(urn)].aspects), 0)
    kept: dict[str, list[KeptVersion]] = {}
    for _ in range(MOST_VERSIONS):
        found = catalog.read_versions(urn, wanted)
        for name, envelope in found.items():
            kept.setdefault(name, []).append(_version(name, envelope))
        wanted = {name: kept[name][-1].number - 1 for name in found if kept[name][-1].number > 1}
        if not wanted:
            break
    return kept


def _version(aspect: str, envelope: Mapping[str, Any]) -> KeptVersion:
    system = envelope.get("systemMetadata") or {}
    stamp = envelope.get("auditStamp") or system.get("aspectModified") or {}
    return KeptVersion(
        int(system.get("version") or 1),
        envelope.get("value") or {},
        stamp.get("time"),
        writer_text(aspect, str(stamp.get("actor") or ""), system),
    )
