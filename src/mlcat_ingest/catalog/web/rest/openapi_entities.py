"""Entities as OpenAPI v3 names them in a path, takes them in a body, and shows them in an answer.

An item of a body is `{"urn": ..., "<aspect>": {"value": ...}, ...}`. A URN should be
percent-encoded in a path, so that `%2F` stands for a slash of its own. DataHub's client does not
encode it when it deletes, so a URN may also stand in the path as it is: slashes of its own then
look like those of the path, and escapes of its own like those of the encoding.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError, NotFoundError
from mlcat_ingest.catalog.schema.values import AspectVersion, Change, Write
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.web.http import Call, decode_path
from mlcat_ingest.catalog.web.params import json_object, json_type, query_flag, query_list
from mlcat_ingest.catalog.web.rest.endpoint import FLAG, Parameter
from mlcat_ingest.catalog.web.rest.proposals import expect_object, make_write, patch_of
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.registry import DECLARED, ENTITY_TYPES, allows
from mlcat_ingest.metadata.urn import PREFIX, raw_parts

ENTITY_PATH: Final = "/openapi/v3/entity/"
ENTITIES: Final = f"{ENTITY_PATH}{{entityType}}"
ENTITY: Final = f"{ENTITIES}/{{urn}}"
ENTITY_ASPECT: Final = f"{ENTITY}/{{aspectName}}"

ENTITY_TYPE: Final = Parameter("entityType", "The entity type.", place="path", required=True)
URN: Final = Parameter("urn", "URN of the entity, percent-encoded.", place="path", required=True)
ASPECT: Final = Parameter("aspectName", "Name of the aspect.", place="path", required=True)
SYSTEM: Final = Parameter("systemMetadata", "Whether to return system metadata.", FLAG)
_TYPES: Final = {name.lower(): name for name in ENTITY_TYPES}
_ASPECTS: Final = {name.lower(): name for name in DECLARED}
# What a URN holds in this spelling because the characters may not stand in a part of it.
_OWN_ESCAPE: Final = re.compile(rb"%2C|%28|%29|%25|%E2%90%9F")


@dataclass(frozen=True, slots=True)
class Target:
    """The entity that a path names, or one aspect of it."""

    urn: str
    entity_type: str
    aspect: str | None = None


def aspects_in(call: Call) -> list[str] | None:
    """Return the names in the parameter `aspects`, in their own spelling; None if it is absent."""
    names = query_list(call.query, "aspects")
    return None if names is None else [aspect_named(name) for name in names]


def entity_type_in(call: Call) -> str:
    """Return the entity type that the path names.

    Raises:
        NotFoundError: it is not an entity type.
    """
    return entity_type_named(call.path["entityType"])


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
    return _ASPECTS.get(name.lower(), name)


def target_of(call: Call) -> Target:
    """Return the entity, or the aspect of one, that the path names.

    The URN says of which type it is, whatever type the path names. The last segment is the name
    of an aspect if what stands before it is a whole URN.

    Raises:
        NotFoundError: there is no URN in the path, or one that no entity can have.
        InvalidUrnError: the URN cannot be taken apart.
    """
    rest = call.raw_after(ENTITY_PATH).partition(b"/")[2]
    head, slash, tail = rest.rpartition(b"/")
    if slash:
        with suppress(NotFoundError, InvalidUrnError):
            target = _entity_in(head)
            aspect = aspect_named(decode_path(tail))
            # A URN of several parts ends with a parenthesis; one of a single part may go on.
            if target.urn.endswith(")") or allows(target.entity_type, aspect):
                return replace(target, aspect=aspect)
    return _entity_in(rest)


def _entity_in(encoded: bytes) -> Target:
    urn = decode_path(encoded)
    try:
        return Target(urn, check_urn(urn))
    except InvalidUrnError as error:
        # Not encoded by the client: what reads like an escape belongs to the URN itself.
        own = decode_path(_OWN_ESCAPE.sub(lambda own: own[0].replace(b"%", b"%25"), encoded))
        with suppress(InvalidUrnError):
            return Target(own, check_urn(own))
        if urn.startswith(PREFIX):
            raw_parts(urn)
        raise NotFoundError(str(error)) from error


_SOURCE: Final = {"eventSource": "openapi"}


def urn_of(item: Any, at: int, entity_type: str) -> str:
    """Return the URN of an item, which has to be of `entity_type`.

    Raises:
        BadRequestError: there is none, or it is of another type.
    """
    urn = json_object(item, f"[{at}]").get("urn")
    if not isinstance(urn, str):
        raise BadRequestError(f"[{at}].urn: expected a string, not {json_type(urn)}")
    try:
        found = check_urn(urn)
    except InvalidUrnError as error:
        raise BadRequestError(f"[{at}].urn: {error}") from error
    if found != entity_type:
        raise BadRequestError(f"[{at}].urn: {urn} is not a URN of a {entity_type}")
    return urn


def aspects_of(item: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the name and the content of every aspect of an item; an aspect of null is none."""
    for name, content in item.items():
        if name != "urn" and content is not None:
            yield aspect_named(name), content


def read_aspect(urn: str, aspect: str, content: Any, change: Change) -> Write:
    """Return the write of one aspect, `{"value", "systemMetadata", "headers"}`.

    Raises:
        InvalidProposalError: it is not understood; the sentence names the field.
    """
    value = expect_object(content, aspect).get("value")
    value = patch_of(value) if change == "PATCH" else expect_object(value, f"{aspect}.value")
    try:
        return make_write(
            urn,
            aspect,
            value,
            change,
            headers=content.get("headers"),
            system_metadata=_with_source(content.get("systemMetadata")),
        )
    except InvalidProposalError as error:
        raise InvalidProposalError(f"{aspect}.{error}") from error


def _with_source(metadata: Any) -> Any:
    """Return system metadata with the kind of endpoint it came by, where it can hold it."""
    if metadata is None:
        return {"properties": _SOURCE}
    if not isinstance(metadata, dict):
        return metadata
    properties = metadata.get("properties")
    if properties is not None and not isinstance(properties, dict):
        return metadata
    return {**metadata, "properties": {**_SOURCE, **(properties or {})}}


def entity_items(
    query: QueryParams, entities: Mapping[str, Mapping[str, AspectVersion]]
) -> list[dict[str, Any]]:
    """Return entities as reads answer them, with system metadata where `query` asks for it.

    Raises:
        BadRequestError: its parameter is neither true nor false.
    """
    with_system = query_flag(query, "systemMetadata")
    items: list[dict[str, Any]] = [{"urn": urn} for urn in entities]
    for item, aspects in zip(items, entities.values(), strict=True):
        for name, stored in aspects.items():
            item[name] = {"value": stored.value}
            if with_system:
                item[name]["systemMetadata"] = stored.wire_system_metadata()
                item[name]["auditStamp"] = {"time": stored.modified_ms, "actor": stored.modified_by}
    return items
