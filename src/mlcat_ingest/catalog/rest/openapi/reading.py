"""Reading entities and aspects through OpenAPI v3."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mlcat_ingest.catalog.errors import BadRequestError, NotFoundError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.rest.endpoint import FLAG, WHOLE, Endpoint, Parameter, array, ref
from mlcat_ingest.catalog.rest.http import Call, Reply
from mlcat_ingest.catalog.rest.openapi.items import aspects_of, shown_aspect, shown_entity, urn_of
from mlcat_ingest.catalog.rest.openapi.paths import (
    Target,
    aspects_in,
    entity_type_in,
    target_of,
)
from mlcat_ingest.catalog.rest.openapi.writing import ASPECT, ENTITY_TYPE, SYSTEM, URN
from mlcat_ingest.catalog.rest.params import (
    json_list,
    json_object,
    query_flag,
    whole,
)
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.store.timeseries import Span, read_events
from mlcat_ingest.catalog.store.values import Event, StoredAspect

_REMOVED = Parameter(
    "includeSoftDelete", "Whether an entity that is marked as removed counts as one.", FLAG
)


class Reading:
    """The endpoints that read entities by their URNs."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Read `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoints."""
        many, one = "/openapi/v3/entity/{entityType}", "/openapi/v3/entity/{entityType}/{urn}"
        aspect = f"{one}/{{aspectName}}"
        entity_at, aspect_at = (ENTITY_TYPE, URN), (ENTITY_TYPE, URN, ASPECT)
        wanted = Parameter("aspects", "Only these, separated by commas or repeated.")
        version = Parameter("version", "0 for the latest, 1 for the oldest.", WHOLE)
        return (
            Endpoint(
                *("POST", f"{many}/batchGet", self.batch_get, {200: array(ref("Entity"))}, (404,)),
                (ENTITY_TYPE, SYSTEM),
                array(ref("EntityRead")),
                reads=True,
            ),
            Endpoint(
                *("GET", one, self.get, {200: ref("Entity")}, (404,)),
                (*entity_at, wanted, SYSTEM),
            ),
            Endpoint("HEAD", one, self.head, {204: None}, (404,), (*entity_at, _REMOVED)),
            Endpoint(
                *("GET", aspect, self.get_aspect, {200: ref("AspectValue")}, (404,)),
                (*aspect_at, version, SYSTEM),
            ),
            Endpoint("HEAD", aspect, self.head_aspect, {204: None}, (404,), aspect_at),
        )

    def get(self, call: Call) -> dict[str, Any]:
        """Read an entity with all its aspects, or with those named."""
        urn = target_of(call).urn
        names = aspects_in(call)
        found = self._store.get_many([urn], names).get(urn)
        if found is None:
            raise NotFoundError(f"{urn} is not in the catalog", what="ENTITY")
        return shown_entity(urn, found, with_system=query_flag(call.query, "systemMetadata"))

    def head(self, call: Call) -> Reply:
        """Say whether an entity exists; one marked as removed does only where that is asked for."""
        urn = target_of(call).urn
        found = self._store.get_many([urn], ["status"]).get(urn)
        removed = found is not None and "status" in found and found["status"].value.get("removed")
        if found is None or (removed and not query_flag(call.query, "includeSoftDelete")):
            raise NotFoundError(f"{urn} is not in the catalog", what="ENTITY")
        return Reply(204)

    def get_aspect(self, call: Call) -> dict[str, Any]:
        """Read one aspect of an entity, its latest version or an archived one, or newest event."""
        found = self._aspect(target_of(call), whole(call.query, "version"))
        with_system = query_flag(call.query, "systemMetadata")
        if isinstance(found, Event):
            shown: dict[str, Any] = {"value": found.value}
            return shown | ({"systemMetadata": found.system_metadata} if with_system else {})
        return shown_aspect(found, with_system=with_system)

    def head_aspect(self, call: Call) -> Reply:
        """Say whether an entity has an aspect."""
        self._aspect(target_of(call), 0)
        return Reply(204)

    def _aspect(self, target: Target, version: int) -> StoredAspect | Event:
        urn, name = target.urn, target.aspect or ""
        found: StoredAspect | Event | None = self._store.get_version(urn, name, version)
        if found is None and version == 0:
            # Of a series the newest event is what it is now.
            newest = partial(read_events, urns=[urn], span=Span(name), limit=1)
            found = next(iter(self._store.read(newest)[urn]), None)
        if found is None:
            which = f"version {version} of {target.aspect}" if version else target.aspect
            missing = "ASPECT" if self._store.exists([urn]) else "ENTITY"
            raise NotFoundError(f"{urn} has no {which}", what=missing)
        return found

    def batch_get(self, call: Call) -> list[dict[str, Any]]:
        """Read the named aspects of many entities of one type; without names, all of them.

        The header `If-Version-Match` of an aspect names the version to read.
        """
        entity_type = entity_type_in(call)
        items = json_list(call.json(), "the body", self._limits.batch_urns)
        wanted: dict[str, dict[str, int]] = {}
        for at, item in enumerate(items):
            urn = urn_of(item, at, entity_type)
            names = {
                name: _version(content, f"[{at}].{name}") for name, content in aspects_of(item)
            }
            # No names mean all aspects, whatever else asks for the same entity.
            known = wanted.setdefault(urn, names)
            wanted[urn] = known | names if known and names else {}
        union = None if not all(wanted.values()) else set().union(*wanted.values())
        found = self._store.get_many(list(wanted), union)
        with_system = query_flag(call.query, "systemMetadata")
        return [
            shown_entity(urn, self._chosen(urn, found[urn], names), with_system=with_system)
            for urn, names in wanted.items()
            if urn in found
        ]

    def _chosen(
        self, urn: str, aspects: Mapping[str, StoredAspect], versions: Mapping[str, int]
    ) -> Mapping[str, StoredAspect]:
        """Return those of `aspects` that are named, each in the version that is asked for."""
        if not versions:
            return aspects
        chosen: dict[str, StoredAspect] = {}
        for name in aspects.keys() & versions.keys():
            stored: StoredAspect | None = aspects[name]
            if versions[name] not in {0, aspects[name].version}:
                stored = self._store.get_version(urn, name, versions[name])
            if stored is not None:
                chosen[name] = stored
        return {name: chosen[name] for name in aspects if name in chosen}


def _version(content: Any, where: str) -> int:
    """Return the version of an aspect that a request for it names, 0 for the latest."""
    headers = json_object(content, where).get("headers") or {}
    named = {
        name.lower(): value for name, value in json_object(headers, f"{where}.headers").items()
    }
    try:
        return whole(named, "if-version-match")
    except BadRequestError as error:
        raise BadRequestError(f"{where}.headers.{error}") from error
