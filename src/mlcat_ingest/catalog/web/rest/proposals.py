"""Proposals as clients send them, read into writes.

Source: `MetadataChangeProposal` of DataHub's Rest.li `/aspects` resource.
"""

from collections.abc import Mapping
from typing import Any, Final, get_args

from mlcat_ingest.catalog.errors import InvalidProposalError
from mlcat_ingest.catalog.schema.values import Change, Write
from mlcat_ingest.catalog.web.params import json_type
from mlcat_ingest.catalog.web.rest.writes import make_write, patch_of
from mlcat_ingest.errors import CodecError, InvalidUrnError
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.registry import ASPECTS, implied_aspect
from mlcat_ingest.metadata.urn import entity_type_of

_CHANGES: Final[Mapping[str, Change]] = {change: change for change in get_args(Change)}
_JSON: Final = "application/json"
_PATCH: Final = "application/json-patch+json"
_RECORD_PREFIX: Final = "com.linkedin."


def read_proposal(proposal: Any, index: int = 0) -> Write:
    """Return the write that a proposal means; what the write says is checked by the store.

    Raises:
        InvalidProposalError: the proposal is not understood; the sentence names the field and
            `index` the proposal.
    """
    try:
        return _read(proposal)
    except InvalidProposalError as error:
        error.index = index
        raise


def _read(proposal: Any) -> Write:
    if not isinstance(proposal, dict):
        raise InvalidProposalError(f"a proposal must be an object, not {json_type(proposal)}")
    urn = _text(proposal, "entityUrn")
    if not urn:
        raise InvalidProposalError("entityUrn: missing")
    entity_type = _entity_type(proposal, urn)
    change = _change(proposal)
    aspect, value = _content(proposal, entity_type, change)
    return make_write(
        urn,
        aspect,
        value,
        change,
        headers=proposal.get("headers"),
        system_metadata=proposal.get("systemMetadata"),
    )


def _change(proposal: Mapping[str, Any]) -> Change:
    named = _text(proposal, "changeType") or "UPSERT"
    change = _CHANGES.get(named)
    if change is None:
        known = ", ".join(sorted(_CHANGES))
        raise InvalidProposalError(f"changeType: {named!r} is not supported; use one of {known}")
    return change


def _text(proposal: Mapping[str, Any], name: str) -> str | None:
    value = proposal.get(name)
    if value is not None and not isinstance(value, str):
        raise InvalidProposalError(f"{name}: expected a string, not {json_type(value)}")
    return value


def _entity_type(proposal: Mapping[str, Any], urn: str) -> str:
    try:
        entity_type = entity_type_of(urn)
    except InvalidUrnError as error:
        raise InvalidProposalError(f"entityUrn: {error}") from error
    named = _text(proposal, "entityType")
    if not named:
        raise InvalidProposalError("entityType: missing")
    if named.lower() != entity_type.lower():
        raise InvalidProposalError(
            f"entityType: {named!r}, but entityUrn names a {entity_type}: {urn}"
        )
    return entity_type


def _content(
    proposal: Mapping[str, Any], entity_type: str, change: Change
) -> tuple[str, Mapping[str, Any]]:
    """Return the name of the aspect, and its value or the patch of it."""
    name = _text(proposal, "aspectName")
    if change == "DELETE":
        # What goes away has to be named: a deletion implies nothing.
        if not name:
            raise InvalidProposalError("aspectName: missing, and a DELETE has to name it")
        return name, {}
    if change == "PATCH":
        value = patch_of(_json_of(proposal.get("aspect"), (_PATCH, _JSON)), "aspect.value")
        return name or _implied(entity_type), value
    value = _json_of(proposal.get("aspect"), (_JSON,))
    if not isinstance(value, dict):
        raise InvalidProposalError(
            f"aspect.value: expected the JSON text of an object, not of {json_type(value)}"
        )
    record = next(iter(value), "") if len(value) == 1 else ""
    if record.startswith(_RECORD_PREFIX) and isinstance(value[record], dict):
        named = aspects_of_record(record)
        if len(named) == 1 and name in {None, "", named[0]}:
            return named[0], value[record]
    return name or _implied(entity_type), value


def aspects_of_record(record: str) -> list[str]:
    """Return the names of the aspects whose values are of this record."""
    return [aspect for aspect, spec in ASPECTS.items() if spec.record == record]


def _implied(entity_type: str) -> str:
    name = implied_aspect(entity_type)
    if not name:
        raise InvalidProposalError(f"aspectName: missing, and nothing of {entity_type} implies it")
    return name


def _json_of(aspect: Any, content_types: tuple[str, ...]) -> Any:
    """Return the value of an aspect, whether it came as it is or as JSON text in an envelope."""
    if not isinstance(aspect, dict):
        raise InvalidProposalError(f"aspect: expected an object, not {json_type(aspect)}")
    if not (aspect.keys() <= {"value", "contentType"} and isinstance(aspect.get("value"), str)):
        return aspect
    content_type = aspect.get("contentType", content_types[0])
    if not isinstance(content_type, str) or content_type.partition(";")[0] not in content_types:
        raise InvalidProposalError(
            f"aspect.contentType: expected {content_types[0]!r}, not {content_type!r}"
        )
    try:
        return loads(aspect["value"])
    except CodecError as error:
        raise InvalidProposalError(f"aspect.value: {error}") from error
