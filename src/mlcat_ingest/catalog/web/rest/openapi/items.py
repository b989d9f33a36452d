"""Entities as OpenAPI v3 writes and shows them: `{"urn": ..., "<aspect>": {"value": ...}, ...}`."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError
from mlcat_ingest.catalog.schema.values import AspectVersion, Change, Write
from mlcat_ingest.catalog.store.prepare import check_urn
from mlcat_ingest.catalog.web.params import json_object, json_type
from mlcat_ingest.catalog.web.rest.openapi.paths import aspect_named
from mlcat_ingest.catalog.web.rest.writes import make_write, patch_of
from mlcat_ingest.errors import InvalidUrnError

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
    if not isinstance(content, dict):
        raise InvalidProposalError(f"{aspect}: expected an object, not {json_type(content)}")
    value = content.get("value")
    if change == "PATCH":
        value = patch_of(value, f"{aspect}.value")
    elif not isinstance(value, dict):
        raise InvalidProposalError(f"{aspect}.value: expected an object, not {json_type(value)}")
    try:
        write = make_write(
            urn,
            aspect,
            value,
            change,
            headers=content.get("headers"),
            system_metadata=_with_source(content.get("systemMetadata")),
        )
    except InvalidProposalError as error:
        raise InvalidProposalError(f"{aspect}.{error}") from error
    return write


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


def shown_aspect(stored: AspectVersion, *, with_system: bool) -> dict[str, Any]:
    """Return an aspect as reads show it."""
    shown: dict[str, Any] = {"value": stored.value}
    return shown | ({"systemMetadata": stored.wire_system_metadata()} if with_system else {})


def shown_entity(
    urn: str, aspects: Mapping[str, AspectVersion], *, with_system: bool
) -> dict[str, Any]:
    """Return an entity as reads show it."""
    return {
        "urn": urn,
        **{name: shown_aspect(stored, with_system=with_system) for name, stored in aspects.items()},
    }
