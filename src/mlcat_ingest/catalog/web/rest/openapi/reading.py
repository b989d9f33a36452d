"""Reading entities through OpenAPI v3 by their URNs."""

from collections.abc import Mapping
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.schema.values import AspectVersion
from mlcat_ingest.catalog.web.http import Answer, Call
from mlcat_ingest.catalog.web.params import (
    check_count,
    json_object,
    json_type,
    whole,
)
from mlcat_ingest.catalog.web.rest.endpoint import (
    CONNECTOR,
    INTERFACE,
    WHOLE,
    Endpoint,
    Parameter,
    Resource,
    array,
    ref,
)
from mlcat_ingest.catalog.web.rest.openapi.items import (
    ASPECT,
    ENTITY,
    ENTITY_ASPECT,
    ENTITY_TYPE,
    SYSTEM,
    URN,
    aspect_named,
    aspects_in,
    entity_items,
    target_of,
)
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.registry import allows
from mlcat_ingest.metadata.urn import entity_type_of, raw_parts

_NOT_FOUND: Final = Answer(404)
_ASPECTS: Final = Parameter(
    "aspects", "Names of the aspects to return, separated by commas or repeated."
)


class EntityReads(Resource):
    """The endpoints that read entities by their URNs."""

    @Endpoint(
        "GET",
        ENTITY,
        {200: ref("Entity")},
        (404,),
        (ENTITY_TYPE, URN, _ASPECTS, SYSTEM),
        client=INTERFACE,
    )
    def get(self, call: Call) -> Answer:
        """Read the named aspects of one entity; without names, all of them."""
        target = target_of(call)
        names = aspects_in(call)
        found = self._store.get_many([target.urn], names or None)
        items = entity_items(call.query, {urn: held for urn, held in found.items() if held})
        return Answer(200, items[0]) if items else _NOT_FOUND

    @Endpoint(
        "GET",
        ENTITY_ASPECT,
        {200: ref("AspectValue")},
        (404,),
        (
            *(ENTITY_TYPE, URN, ASPECT, SYSTEM),
            Parameter("version", "Version of the aspect. Default: 0, the latest.", WHOLE),
        ),
        client=INTERFACE,
    )
    def get_aspect(self, call: Call) -> Answer:
        """Read one aspect of one entity, its latest version or an earlier one."""
        target, version = target_of(call), whole(call.query, "version")
        name = str(target.aspect)
        stored = self._store.get_version(target.urn, name, version)
        if stored is None:
            return _NOT_FOUND
        return Answer(200, entity_items(call.query, {target.urn: {name: stored}})[0][name])

    @Endpoint(
        "POST",
        "/openapi/v3/entity/{entityType}/batchGet",
        {200: array(ref("Entity"))},
        (404,),
        (ENTITY_TYPE, SYSTEM),
        array(ref("EntityRead")),
        reads=True,
        client=CONNECTOR,
    )
    def batch_get(self, call: Call) -> list[dict[str, Any]]:
        """Read the named aspects of many entities; without names, all of them.

        The header `If-Version-Match` of an aspect names the version to read. Names of no aspect are
        ignored, and entities that have none of the aspects are left out.
        """
        body = call.json()
        # What is no list names no entity.
        items = body if isinstance(body, list) else []
        check_count(items, "items", self._limits.batch_urns)
        wanted: dict[str, Mapping[str, int]] = {}
        for at, item in enumerate(items):
            urn = _urn_of(item, at)
            names = _known_names(item, at, entity_type_of(urn))
            if known := wanted.setdefault(urn, names):
                wanted[urn] = {**known, **names}
        union = set().union(*wanted.values()) if all(wanted.values()) else None
        found = self._store.get_many(list(wanted), union)
        chosen = {
            urn: held
            for urn, names in wanted.items()
            if (held := self._chosen(urn, found.get(urn, {}), names))
        }
        return entity_items(call.query, chosen)

    def _chosen(
        self, urn: str, aspects: Mapping[str, AspectVersion], versions: Mapping[str, int]
    ) -> Mapping[str, AspectVersion]:
        """Return those of `aspects` that are named, each in the version that is asked for."""
        if not versions:
            return aspects
        chosen: dict[str, AspectVersion] = {}
        for name in aspects:
            if name in versions:
                version = versions[name]
                is_current = version in {0, aspects[name].version}
                stored = (
                    aspects[name] if is_current else self._store.get_version(urn, name, version)
                )
                if stored is not None:
                    chosen[name] = stored
        return chosen


def _urn_of(item: Any, at: int) -> str:
    """Return the URN of an item, whatever its type; one that no entity can have finds nothing.

    Raises:
        BadRequestError: there is none, or it cannot be taken apart.
    """
    urn = json_object(item, f"[{at}]").get("urn")
    if not isinstance(urn, str):
        raise BadRequestError(f"[{at}].urn: expected a string, not {json_type(urn)}")
    try:
        raw_parts(urn)
    except InvalidUrnError as error:
        raise BadRequestError(f"[{at}].urn: {error}") from error
    return urn


def _known_names(item: Mapping[str, Any], at: int, entity_type: str) -> dict[str, int]:
    """Return the aspects that an item names, those that its type can have, and their versions."""
    named = ((aspect_named(name), content) for name, content in item.items() if name != "urn")
    return {
        name: _version(content, f"[{at}].{name}")
        for name, content in named
        if allows(entity_type, name)
    }


def _version(content: Any, where: str) -> int:
    """Return the version of an aspect that a request for it names, 0 for the latest."""
    headers = content.get("headers") if isinstance(content, dict) else None
    if headers is None:
        return 0
    named = {
        name.lower(): value for name, value in json_object(headers, f"{where}.headers").items()
    }
    try:
        return whole(named, "if-version-match")
    except BadRequestError as error:
        raise BadRequestError(f"{where}.headers.{error}") from error
