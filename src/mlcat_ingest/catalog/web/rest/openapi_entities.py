"""OpenAPI v3: entities and their aspects, read, written and deleted by their URNs.

An item of a body is `{"urn": ..., "<aspect>": {"value": ...}, ...}`. A URN should be
percent-encoded in a path, so that `%2F` stands for a slash of its own. DataHub's client does not
encode it when it deletes, so a URN may also stand in the path as it is: slashes of its own then
look like those of the path, and escapes of its own like those of the encoding. Everything is
stored before it is acknowledged.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from mlcat_ingest.catalog.errors import (
    AspectRefusedError,
    BadRequestError,
    InvalidProposalError,
    NotFoundError,
    VersionConflictError,
)
from mlcat_ingest.catalog.limits import NAMES
from mlcat_ingest.catalog.schema.values import AspectVersion, Change, Direction, EdgeQuery, Write
from mlcat_ingest.catalog.store.prepare import check_aspect_name, check_urn
from mlcat_ingest.catalog.web.http import (
    Answer,
    RequestContext,
    Schema,
    check_count,
    decode_path,
    json_object,
    read_value,
    whole,
)
from mlcat_ingest.catalog.web.rest import json_schema as js
from mlcat_ingest.catalog.web.rest.endpoint import Endpoint, Parameter, Resource
from mlcat_ingest.catalog.web.rest.proposals import make_write, patch_of
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.codec import embedded
from mlcat_ingest.metadata.registry import ASPECTS, ENTITY_TYPES, allows, key_aspect_name
from mlcat_ingest.metadata.urn import PREFIX, entity_type_of, raw_parts

_ENTITY_PATH: Final = "/openapi/v3/entity/"
ENTITIES: Final = f"{_ENTITY_PATH}{{entityType}}"
ENTITY: Final = f"{ENTITIES}/{{urn}}"
ENTITY_ASPECT: Final = f"{ENTITY}/{{aspectName}}"

SHOWN: Final = (
    Parameter(
        "systemMetadata", "Whether to return system metadata.", {**js.FLAG, "default": False}
    ),
    Parameter("values", "Whether to return values.", {**js.FLAG, "default": True}),
)
_FROM_0: Final[Schema] = {**js.WHOLE, "default": 0}
_SOURCE: Final = {"eventSource": "openapi"}
_TYPES: Final = {name.lower(): name for name in ENTITY_TYPES}
_KNOWN_ASPECTS: Final = {name.lower(): name for name in ASPECTS}
# Characters that a part of a URN may hold in this spelling only.
_OWN_ESCAPE: Final = re.compile(rb"%2C|%28|%29|%25|%E2%90%9F")


@dataclass(frozen=True, slots=True)
class _Target:
    """The entity that a path names, or one aspect of it."""

    urn: str
    entity_type: str
    aspect: str | None = None


def _aspects_in(request: RequestContext) -> list[str] | None:
    """Return the names in the parameter `aspects`, in their own spelling; None if it is absent."""
    names = request.params.get("aspects")
    return None if names is None else [aspect_named(name) for name in names]


def entity_type_named(name: str) -> str:
    """Return the entity type of this name, in its own spelling; any case will do.

    Raises:
        NotFoundError: there is no such entity type.
    """
    entity_type = _TYPES.get(name.lower())
    if entity_type is None:
        raise NotFoundError(f"{name!r} is not an entity type")
    return entity_type


def aspect_named(name: str) -> str:
    """Return the aspect of this name, in its own spelling; any case will do for a known one."""
    return _KNOWN_ASPECTS.get(name.lower(), name)


def target_of(request: RequestContext) -> _Target:
    """Return the entity, or the aspect of one, that the path names.

    The entity type is that of the URN, not the one in the path. The last segment is the name of an
    aspect if the segments before it are a whole URN.

    Raises:
        NotFoundError: there is no URN in the path, or one that no entity can have.
        InvalidUrnError: the URN cannot be taken apart.
    """
    rest = request.raw_after(_ENTITY_PATH).partition(b"/")[2]
    head, slash, tail = rest.rpartition(b"/")
    if slash:
        with suppress(NotFoundError, InvalidUrnError):
            target = _entity_in(head)
            aspect = aspect_named(decode_path(tail))
            # A URN of several parts ends with a parenthesis; one of a single part may go on.
            if target.urn.endswith(")") or allows(target.entity_type, aspect):
                return replace(target, aspect=aspect)
    return _entity_in(rest)


def _entity_in(encoded: bytes) -> _Target:
    urn = decode_path(encoded)
    try:
        return _Target(urn, check_urn(urn))
    except InvalidUrnError as error:
        # Not encoded by the client: what reads like an escape belongs to the URN itself.
        own = decode_path(_OWN_ESCAPE.sub(lambda own: own[0].replace(b"%", b"%25"), encoded))
        with suppress(InvalidUrnError):
            return _Target(own, check_urn(own))
        if urn.startswith(PREFIX):
            raw_parts(urn)
        raise NotFoundError(str(error)) from error


def _urn_of(item: Any, at: int, check: Callable[[str], object]) -> str:
    """Return the URN of an item, which `check` accepts.

    Raises:
        BadRequestError: there is none, or `check` refuses it.
    """
    urn: str = read_value(json_object(item, f"[{at}]").get("urn"), js.TEXT, f"[{at}].urn")
    try:
        check(urn)
    except InvalidUrnError as error:
        raise BadRequestError(f"[{at}].urn: {error}") from error
    return urn


def _read_aspect(urn: str, aspect: str, content: Mapping[str, Any], change: Change) -> Write:
    """Return the write of one aspect, `{"value", "systemMetadata", "headers"}`.

    Raises:
        InvalidProposalError: it is not understood; the sentence names the field.
    """
    value = content["value"]
    try:
        return make_write(
            urn,
            aspect,
            patch_of(value) if change == "PATCH" else value,
            change,
            headers=content.get("headers", {}),
            system_metadata=_with_source(content.get("systemMetadata", {})),
        )
    except InvalidProposalError as error:
        raise InvalidProposalError(f"{aspect}.{error}") from error


def _with_source(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return system metadata with the kind of endpoint it came by, where it can hold it."""
    properties = metadata.get("properties")
    if not isinstance(properties, dict | None):
        return metadata
    return {**metadata, "properties": {**_SOURCE, **(properties or {})}}


def entity_items(
    params: Mapping[str, Any], entities: Mapping[str, Mapping[str, AspectVersion]]
) -> list[dict[str, Any]]:
    """Return entities as reads answer them, with what `params` asks for."""
    with_system, with_values = params["systemMetadata"], params["values"]
    items: list[dict[str, Any]] = [{"urn": urn} for urn in entities]
    for item, aspects in zip(items, entities.values(), strict=True):
        for name, stored in aspects.items():
            item[name] = {"value": embedded(stored.text)} if with_values else {}
            if with_system:
                item[name]["systemMetadata"] = stored.wire_system_metadata()
            if with_system and with_values:
                item[name]["auditStamp"] = {"time": stored.modified_ms, "actor": stored.modified_by}
    return items


_NOT_FOUND: Final = Answer(404)
ASPECTS_SHOWN: Final = Parameter(
    "aspects", "Names of the aspects to return, separated by commas or repeated.", js.array(js.TEXT)
)


class EntityReads(Resource):
    """The endpoints that read entities by their URNs."""

    @Endpoint("GET", ENTITY, {200: js.ref("Entity")}, (404,), (ASPECTS_SHOWN, *SHOWN))
    def get(self, request: RequestContext) -> Answer:
        """Read the named aspects of one entity; without names, all of them."""
        target = target_of(request)
        names = _aspects_in(request)
        stored = self._store.get_many([target.urn], names or None)
        items = entity_items(
            request.params, {urn: aspects for urn, aspects in stored.items() if aspects}
        )
        return Answer(200, items[0]) if items else _NOT_FOUND

    @Endpoint("HEAD", ENTITY, {204: None}, (404,))
    def head(self, request: RequestContext) -> Answer:
        """Find out whether an entity exists and is not removed."""
        target = target_of(request)
        key = key_aspect_name(target.entity_type)
        stored = self._store.get_many([target.urn], [key, STATUS]).get(target.urn, {})
        removed = STATUS in stored and stored[STATUS].value.get("removed") is True
        return Answer(204) if key in stored and not removed else _NOT_FOUND

    @Endpoint("HEAD", ENTITY_ASPECT, {204: None}, (404,))
    def head_aspect(self, request: RequestContext) -> Answer:
        """Find out whether an entity has an aspect."""
        target = target_of(request)
        stored = self._store.get_version(target.urn, str(target.aspect), 0)
        return _NOT_FOUND if stored is None else Answer(204)

    @Endpoint(
        "GET",
        ENTITY_ASPECT,
        {200: js.ref("AspectValue")},
        (404,),
        (*SHOWN, Parameter("version", "Version of the aspect; 0 is the latest.", _FROM_0)),
    )
    def get_aspect(self, request: RequestContext) -> Answer:
        """Read one aspect of one entity, its latest version or an earlier one."""
        target = target_of(request)
        name = str(target.aspect)
        stored = self._store.get_version(target.urn, name, request.params["version"])
        if stored is None:
            return _NOT_FOUND
        return Answer(200, entity_items(request.params, {target.urn: {name: stored}})[0][name])

    @Endpoint(
        "POST",
        "/openapi/v3/entity/{entityType}/batchGet",
        {200: js.array(js.ref("Entity"))},
        (404,),
        SHOWN,
        js.array(js.ref("EntityRead")),
        reads=True,
    )
    def batch_get(self, request: RequestContext) -> list[dict[str, Any]]:
        """Read the named aspects of many entities; without names, all of them.

        The header `If-Version-Match` of an aspect names the version to read. Names of no aspect are
        ignored, and entities that have none of the aspects are left out.
        """
        body = request.json()
        # What is no list names no entity.
        items = body if isinstance(body, list) else []
        check_count(items, "items", self._limits.batch_urns)
        wanted: dict[str, Mapping[str, int]] = {}
        for at, item in enumerate(items):
            # A URN that no entity can have finds nothing.
            urn = _urn_of(item, at, raw_parts)
            names = _known_names(item, at, entity_type_of(urn))
            if known := wanted.setdefault(urn, names):
                wanted[urn] = {**known, **names}
        union = set().union(*wanted.values()) if all(wanted.values()) else None
        stored = self._store.get_many(list(wanted), union, values=request.params["values"])
        chosen = {
            urn: aspects
            for urn, names in wanted.items()
            if (aspects := self._chosen(urn, stored.get(urn, {}), names))
        }
        return entity_items(request.params, chosen)

    def _chosen(
        self, urn: str, aspects: Mapping[str, AspectVersion], versions: Mapping[str, int]
    ) -> Mapping[str, AspectVersion]:
        """Return those of `aspects` that are named, each in the version that is asked for."""
        if not versions:
            return aspects
        chosen = {
            name: stored
            if versions[name] in {0, stored.version}
            else self._store.get_version(urn, name, versions[name])
            for name, stored in aspects.items()
            if name in versions
        }
        return {name: stored for name, stored in chosen.items() if stored is not None}


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
    version = named.get("if-version-match")
    return 0 if version is None else whole(version, f"{where}.headers.if-version-match")


_DIRECTIONS: Final = [direction.value for direction in Direction]


class RelationshipReads(Resource):
    """The endpoint that reads relationships, in the shape of `RelatedEntitiesResult` of DataHub."""

    @Endpoint(
        "GET",
        "/openapi/relationships/v1/",
        {
            200: js.record(
                *("start", "count", "total", "entities"),
                start=js.WHOLE,
                count=js.WHOLE,
                total=js.WHOLE,
                entities=js.array(
                    js.record(*("urn", "relationshipType"), urn=js.URN, relationshipType=js.TEXT)
                ),
            )
        },
        parameters=(
            Parameter("urn", "URN of the entity.", js.URN, required=True),
            Parameter(
                "direction",
                "OUTGOING: to what the entity refers to; INCOMING: to what refers to it.",
                {**js.TEXT, "enum": _DIRECTIONS},
                required=True,
            ),
            Parameter(
                "relationshipTypes",
                "Names of relationships, repeated or separated by commas.",
                js.array(js.TEXT),
                required=True,
            ),
            Parameter("start", "How many to skip.", _FROM_0),
            Parameter("count", "How many to return at most.", {**js.WHOLE, "default": 200}),
        ),
    )
    def get_related(self, request: RequestContext) -> dict[str, Any]:
        """Read a page of the entities at the other end of an entity's relationships.

        Removed ones are there too. `count` of the answer is the length of its page: the client
        asks for pages until one is empty.
        """
        params = request.params
        urn, start = params["urn"], params["start"]
        raw_parts(urn)
        query = EdgeQuery(
            params["relationshipTypes"],
            Direction(params["direction"]),
            start,
            min(params["count"], self._limits.page_size),
        )
        page = self._store.related_entities([urn], query)[urn]
        entities = [
            {"urn": other.urn, "relationshipType": other.relationship} for other in page.entities
        ]
        return {"start": start, "count": len(entities), "total": page.total, "entities": entities}


_ASYNC: Final = Parameter(
    "async",
    "Status 202 instead of 200; the write is synchronous in both cases.",
    {**js.FLAG, "default": True},
)


_ONE: Final = js.aspect_write(js.OBJECT)
_WRITES: Final[Mapping[Change, Schema]] = {
    "UPSERT": js.array(js.entity_schema(_ONE)),
    "PATCH": js.array(js.entity_schema(js.aspect_write(js.ref("Patch")))),
}
_WRITTEN: Final[Mapping[int, Schema]] = dict.fromkeys((200, 202), js.array(js.ref("Entity")))


class EntityWrites(Resource):
    """The endpoints that change entities."""

    @Endpoint("POST", ENTITIES, _WRITTEN, (404, 412), (_ASYNC, *SHOWN), _WRITES["UPSERT"])
    def write(self, request: RequestContext) -> Answer:
        """Write aspects of entities of one type, all of them or none.

        As on a DataHub server, `createIfNotExists` and `createEntityIfNotExists` do not act here.
        """
        return self._write_many(request, "UPSERT")

    @Endpoint("PATCH", ENTITIES, _WRITTEN, (404, 412), (_ASYNC, *SHOWN), _WRITES["PATCH"])
    def patch(self, request: RequestContext) -> Answer:
        """Edit aspects of entities of one type, all of them or none; made where missing."""
        return self._write_many(request, "PATCH")

    @Endpoint(
        "POST",
        ENTITY_ASPECT,
        {200: js.ref("Entity")},
        (404, 412),
        (
            *SHOWN,
            Parameter(
                "createIfNotExists",
                "Whether to refuse one that exists.",
                {**js.FLAG, "default": True},
            ),
        ),
        _ONE,
    )
    def write_aspect(self, request: RequestContext) -> dict[str, Any]:
        """Write one aspect of one entity, which is new unless `createIfNotExists=false`."""
        return self._write_one(
            request,
            read_value(request.json(), _ONE),
            "CREATE" if request.params["createIfNotExists"] else "UPSERT",
        )

    @Endpoint("PATCH", ENTITY_ASPECT, {200: js.ref("Entity")}, (404,), SHOWN, js.ref("Patch"))
    def patch_aspect(self, request: RequestContext) -> dict[str, Any]:
        """Edit one aspect of one entity; it is made where missing."""
        return self._write_one(request, {"value": json_object(request.json())}, "PATCH")

    @Endpoint(
        "DELETE",
        ENTITY,
        {200: None},
        (404,),
        (
            Parameter(
                "aspects", "Names of the aspects to delete, separated by commas.", js.array(js.TEXT)
            ),
            Parameter("clear", "Whether to keep the entity itself.", js.FLAG),
        ),
    )
    def delete(self, request: RequestContext) -> Answer:
        """Delete an entity with all it has, or some of its aspects."""
        target = target_of(request)
        names = _aspects_in(request)
        for name in names or ():
            check_aspect_name(target.entity_type, name)
        if request.params.get("clear"):
            key = key_aspect_name(target.entity_type)
            stored = self._store.get_many([target.urn], names).get(target.urn, {})
            names = [name for name in stored if name != key]
        if names is None:
            self._store.delete(target.urn)
        else:
            self._delete_aspects(target.urn, names)
        return Answer()

    @Endpoint("DELETE", ENTITY_ASPECT, {200: None}, (404,))
    def delete_aspect(self, request: RequestContext) -> Answer:
        """Delete one aspect of one entity; with its key aspect the whole entity."""
        target = target_of(request)
        if target.aspect is not None and allows(target.entity_type, target.aspect):
            self._delete_aspects(target.urn, [target.aspect])
        return Answer()

    def _delete_aspects(self, urn: str, names: Sequence[str]) -> None:
        self._store.write([Write(urn, name, change="DELETE") for name in names])

    def _write_one(self, request: RequestContext, content: Any, change: Change) -> dict[str, Any]:
        target = target_of(request)
        write = _read_aspect(target.urn, str(target.aspect), content, change)
        try:
            self._store.write([write])
        except VersionConflictError as error:
            if write.conditional:
                raise
            # What exists is no failed condition here: a 400.
            raise AspectRefusedError(error.urn, error.aspect, error.sentence) from error
        return self._stored_items(request, [write], whole=())[0]

    def _write_many(self, request: RequestContext, change: Change) -> Answer:
        entity_type = entity_type_named(request.path["entityType"])
        items = read_value(request.json(), _WRITES[change])
        check_count(items, "items", self._limits.batch_urns)

        def read(at: int, item: Mapping[str, Any]) -> list[Write]:
            urn = _urn_of(item, at, check_urn)
            if entity_type_of(urn) != entity_type:
                raise BadRequestError(f"[{at}].urn: {urn} is not a URN of a {entity_type}")
            aspects = ((name, content) for name, content in item.items() if name != "urn")
            return [
                _read_aspect(urn, aspect_named(name), content, change) for name, content in aspects
            ]

        writes = [write for at, item in enumerate(items) for write in read(at, item)]
        check_count(writes, "aspects", self._limits.proposals)
        # The answer reads them, and nothing may be refused once it is written.
        check_count({write.aspect for write in writes}, "names of aspects", NAMES)
        urns = {write.urn for write in writes}
        known = self._store.exists(urns)
        self._store.write(writes)
        whole = urns if change == "PATCH" else urns - known
        status = 202 if request.params["async"] else 200
        return Answer(status, self._stored_items(request, writes, whole=whole))

    def _stored_items(
        self, request: RequestContext, writes: Sequence[Write], *, whole: Collection[str]
    ) -> list[dict[str, Any]]:
        """Return what is stored now: of the entities in `whole` all, else what `writes` wrote."""
        names: dict[str, set[str]] = {}
        for write in writes:
            names.setdefault(write.urn, set()).add(write.aspect)
        stored = self._store.get_many(list(names))
        aspects = {
            urn: {
                name: aspect
                for name, aspect in stored.get(urn, {}).items()
                if urn in whole or name in written
            }
            for urn, written in names.items()
        }
        entities = {item["urn"]: item for item in entity_items(request.params, aspects)}
        for write in writes:
            # Events are not stored as aspects, so they are shown as they came.
            if write.change != "PATCH":
                entities[write.urn].setdefault(write.aspect, {"value": write.value})
        return list(entities.values())
