"""Reading entities through OpenAPI v3, many at once."""

from collections.abc import Mapping, Sequence
from typing import Any

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.limits import Limits
from mlcat_ingest.catalog.schema.values import AspectVersion
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.http import Call
from mlcat_ingest.catalog.web.params import (
    json_list,
    json_object,
    query_flag,
    whole,
)
from mlcat_ingest.catalog.web.rest.endpoint import CONNECTOR, Endpoint, array, ref
from mlcat_ingest.catalog.web.rest.openapi.items import aspects_of, shown_entity, urn_of
from mlcat_ingest.catalog.web.rest.openapi.paths import entity_type_in
from mlcat_ingest.catalog.web.rest.openapi.writing import ENTITY_TYPE, SYSTEM


class EntityReads:
    """The endpoint that reads entities by their URNs."""

    def __init__(self, store: Store, limits: Limits) -> None:
        """Read `store`."""
        self._store = store
        self._limits = limits

    def endpoints(self) -> Sequence[Endpoint]:
        """Return the endpoint."""
        return (
            Endpoint(
                "POST",
                "/openapi/v3/entity/{entityType}/batchGet",
                self.batch_get,
                {200: array(ref("Entity"))},
                (404,),
                (ENTITY_TYPE, SYSTEM),
                array(ref("EntityRead")),
                reads=True,
                client=CONNECTOR,
            ),
        )

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
        self, urn: str, aspects: Mapping[str, AspectVersion], versions: Mapping[str, int]
    ) -> Mapping[str, AspectVersion]:
        """Return those of `aspects` that are named, each in the version that is asked for."""
        if not versions:
            return aspects
        chosen: dict[str, AspectVersion] = {}
        for name in aspects.keys() & versions.keys():
            stored: AspectVersion | None = aspects[name]
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
