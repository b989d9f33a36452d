"""Which entity, and which aspect of it, a path of OpenAPI v3 names.

A URN should be percent-encoded in a path, so that `%2F` stands for a slash of its own. DataHub's
client does not encode it when it deletes, so a URN may also stand in the path as it is: slashes
of its own then look like those of the path, and escapes of its own like those of the encoding.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError, NotFoundError
from mlcat_ingest.catalog.store.prepare import check_aspect_name, check_urn
from mlcat_ingest.catalog.web.http import Call, decoded
from mlcat_ingest.catalog.web.params import query_list
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.registry import DECLARED, ENTITY_TYPES

ENTITY_PATH: Final = "/openapi/v3/entity/"

_TYPES: Final = {name.lower(): name for name in ENTITY_TYPES}
_ASPECTS: Final = {name.lower(): name for name in DECLARED}
# What a URN holds in this spelling because the characters may not stand in a part of it.
_OWN_ESCAPE: Final = re.compile(rb"%2C|%28|%29|%25|%E2%90%9F")


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: an entity, or one aspect of it."""

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


def entity_types_named(names: Collection[str], where: str) -> tuple[str, ...]:
    """Return the entity types of these names, sorted.

    Raises:
        BadRequestError: there is no such entity type; the sentence says `where`.
    """
    try:
        return tuple(sorted({entity_type_named(name) for name in names}))
    except NotFoundError as error:
        raise BadRequestError(f"{where}: {error}") from error


def target_of(call: Call) -> Target:
    """Return the entity, or the aspect of one, that the path names.

    The last segment is the name of an aspect if what stands before it is a whole URN.

    Raises:
        NotFoundError: the path names no entity type.
        BadRequestError: the URN is of another type, or the type has no such aspect.
        InvalidUrnError: there is no URN in the path.
    """
    entity_type = entity_type_in(call)
    rest = call.raw_after(ENTITY_PATH).partition(b"/")[2]
    head, slash, tail = rest.rpartition(b"/")
    if slash:
        urn, aspect = _sound(head, entity_type), aspect_named(decoded(tail))
        # A URN of several parts ends with a parenthesis; one of a single part may go on.
        if urn is not None and (urn.endswith(")") or _is_aspect(entity_type, aspect)):
            if not _is_aspect(entity_type, aspect):
                raise BadRequestError(f"{aspect!r} is not an aspect of {entity_type}")
            return Target(urn, entity_type, aspect)
    return Target(_urn_in(rest, entity_type), entity_type)


def _sound(encoded: bytes, entity_type: str) -> str | None:
    try:
        return _urn_in(encoded, entity_type)
    except (BadRequestError, InvalidUrnError):
        return None


def _urn_in(encoded: bytes, entity_type: str) -> str:
    urn = decoded(encoded)
    try:
        found = check_urn(urn)
    except InvalidUrnError as error:
        # Not encoded by the client: what reads like an escape belongs to the URN itself.
        urn = decoded(_OWN_ESCAPE.sub(lambda own: own[0].replace(b"%", b"%25"), encoded))
        try:
            found = check_urn(urn)
        except InvalidUrnError:
            raise error from None
    if found != entity_type:
        raise BadRequestError(f"{urn} is not a URN of a {entity_type}")
    return urn


def _is_aspect(entity_type: str, name: str) -> bool:
    try:
        check_aspect_name(entity_type, name)
    except InvalidProposalError:
        return False
    return True
