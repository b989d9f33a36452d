"""Writes as clients send them: proposals, their conditions, system metadata and patches.

The conditions are in the `headers` of a proposal, or of an aspect in the OpenAPI form. HTTP
headers of the same name are not read, as DataHub does not read them either.
Source: `MetadataChangeProposal` and `GenericAspect` of DataHub's Rest.li `/aspects` resource.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, get_args

from mlcat_ingest.catalog.errors import BadRequestError, InvalidProposalError
from mlcat_ingest.catalog.schema.values import Change, Write
from mlcat_ingest.catalog.web.http import json_object, json_type
from mlcat_ingest.errors import CodecError, InvalidUrnError
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.declaration import Field, Items, RecordType, Type
from mlcat_ingest.metadata.registry import ASPECTS, ENTITY_TYPES, implied_aspect
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.metadata.validate import problems_of

_CHANGES: Final[Mapping[str, Change]] = {change: change for change in get_args(Change)}
_NOT_PROPOSED: Final = frozenset({"DELETE", "RESTATE"})
"""The changes that DataHub's model names, and that its server refuses in a proposal."""
_TYPES: Final = frozenset(name.lower() for name in ENTITY_TYPES)
_JSON: Final = "application/json"
_PATCH: Final = "application/json-patch+json"
_RECORD_PREFIX: Final = "com.linkedin."


def _record(name: str, *required: str, **types: Type) -> RecordType:
    return RecordType(
        name, {key: Field(key, type_, key in required) for key, type_ in types.items()}
    )


MetadataChangeProposal: Final = _record(
    "MetadataChangeProposal",
    entityType="string",
    entityUrn="string",
    changeType=("UPSERT", "CREATE", "UPDATE", "DELETE", "PATCH", "RESTATE", "CREATE_ENTITY"),
    aspectName="string",
    # The bytes of its JSON text, in an envelope.
    aspect=_record("GenericAspect", value="bytes", contentType="string"),
    headers=Items("map", "string"),
    systemMetadata="any",
)
OneProposal: Final = _record(
    "OneProposal", "proposal", proposal=MetadataChangeProposal, **{"async": "string"}
)
ManyProposals: Final = _record(
    "ManyProposals",
    "proposals",
    proposals=Items("list", MetadataChangeProposal),
    **{"async": "string"},
)


def read_parameters(method: str, record: RecordType, given: Any) -> Mapping[str, Any]:
    """Return the parameters of an action, which `record` declares.

    Raises:
        BadRequestError: one is missing, or has another JSON type; the sentence names it.
    """
    parameters = json_object(given)
    for name, field in record.fields.items():
        if field.required and name not in parameters:
            raise BadRequestError(f"Parameter '{name}' is required")
    problems = problems_of(record, parameters)
    if problems:
        lines = "".join(f"ERROR :: {problem}\n" for problem in problems)
        raise BadRequestError(
            f"Parameters of method '{method}' failed validation with error '{lines}'"
        )
    return parameters


def _expect_object(value: Any, where: str) -> Mapping[str, Any]:
    """Return `value`, which must be a JSON object.

    Raises:
        InvalidProposalError: it is something else; the sentence says `where`.
    """
    if not isinstance(value, dict):
        raise InvalidProposalError(f"{where}: expected an object, not {json_type(value)}")
    return value


def read_proposal(proposal: Mapping[str, Any]) -> Write:
    """Return the write that a proposal means; the store checks its content.

    The JSON types of its fields have been checked.

    Raises:
        InvalidProposalError: the proposal is not understood; the sentence names the field.
        BadRequestError: its aspect has another content type.
    """
    urn = proposal.get("entityUrn")
    if not urn:
        raise InvalidProposalError("entityUrn: missing")
    entity_type = _entity_type(proposal, urn)
    named = proposal.get("changeType")
    if named is None:
        raise InvalidProposalError("changeType: missing")
    if named in _NOT_PROPOSED:
        raise InvalidProposalError(f"ChangeType not supported: [{named}]")
    change = _CHANGES[named]
    aspect, value = _content(proposal, entity_type, change)
    return make_write(
        urn,
        aspect,
        value,
        change,
        headers=proposal.get("headers", {}),
        system_metadata=proposal.get("systemMetadata"),
    )


def _entity_type(proposal: Mapping[str, Any], urn: str) -> str:
    named = proposal.get("entityType")
    if not named:
        raise InvalidProposalError("entityType: missing")
    if named.lower() not in _TYPES:
        raise InvalidProposalError(f"Failed to find entity with name {named} in EntityRegistry")
    try:
        entity_type = entity_type_of(urn)
    except InvalidUrnError as error:
        raise InvalidProposalError(f"entityUrn: {error}") from error
    if named.lower() != entity_type.lower():
        raise InvalidProposalError(
            f"URN entity type does not match MCP entity type. {entity_type} != {named}"
        )
    return entity_type


def _content(
    proposal: Mapping[str, Any], entity_type: str, change: Change
) -> tuple[str, Mapping[str, Any]]:
    """Return the name of the aspect, and its value or the patch of it."""
    name = proposal.get("aspectName")
    if name == "":
        raise InvalidProposalError("aspectName: empty")
    aspect = _expect_object(proposal.get("aspect"), "aspect")
    if change == "PATCH":
        return name or _implied_name(entity_type), patch_of(_json_of(aspect, (_PATCH, _JSON)))
    value = _json_of(aspect, (_JSON,))
    if not isinstance(value, dict):
        raise InvalidProposalError(
            f"aspect.value: expected the JSON text of an object, not of {json_type(value)}"
        )
    record = next(iter(value), "") if len(value) == 1 else ""
    if value is aspect and record.startswith(_RECORD_PREFIX) and isinstance(value[record], dict):
        named = aspects_of_record(record)
        if len(named) == 1 and name in {None, named[0]}:
            return named[0], value[record]
    return name or _implied_name(entity_type), value


def aspects_of_record(record: str) -> list[str]:
    """Return the names of the aspects whose values are of this record."""
    return [aspect for aspect, spec in ASPECTS.items() if spec.record == record]


def _implied_name(entity_type: str) -> str:
    name = implied_aspect(entity_type)
    if not name:
        raise InvalidProposalError(f"aspectName: missing; it does not follow from {entity_type}")
    return name


def _json_of(aspect: Mapping[str, Any], content_types: tuple[str, ...]) -> Any:
    """Return the value of an aspect, whether it came as it is or as JSON text in an envelope."""
    if "contentType" not in aspect and aspect.keys() != {"value"}:
        return aspect
    if "value" not in aspect or "contentType" not in aspect:
        raise InvalidProposalError("aspect: it needs both value and contentType")
    content_type, text = aspect["contentType"], aspect["value"]
    if content_type not in content_types:
        raise BadRequestError(f"{content_type} content type is not supported")
    try:
        return loads(text if text.isascii() else text.encode("latin-1").decode("utf-8", "replace"))
    except CodecError as error:
        if _PATCH in content_types:
            raise BadRequestError(f"Invalid JSON Patch: {text[:200]}") from error
        raise InvalidProposalError(f"aspect.value: {error}") from error


def make_write(
    urn: str,
    aspect: str,
    value: Mapping[str, Any],
    change: Change,
    *,
    headers: Mapping[str, str],
    system_metadata: Any = None,
) -> Write:
    """Return a write whose `headers` and `system_metadata` are as a client sent them.

    Raises:
        InvalidProposalError: they are not understood; the sentence names the field.
    """
    conditions = {name.lower(): text for name, text in headers.items()}
    return Write(
        urn=urn,
        aspect=aspect,
        value=value,
        change=change,
        expected_version=conditions.get("if-version-match"),
        skip_if_exists=conditions.get("if-none-match") == "*",
        system_metadata=_system_metadata(system_metadata),
        if_modified_since_ms=_instant_ms(conditions, "If-Modified-Since"),
        if_unmodified_since_ms=_instant_ms(conditions, "If-Unmodified-Since"),
    )


def patch_of(value: Any) -> Mapping[str, Any]:
    """Return a patch as its envelope; a bare list of operations is put into one.

    Raises:
        BadRequestError: it is neither a list nor an object with one.
    """
    if isinstance(value, list):
        return {"patch": value}
    if isinstance(value, dict) and isinstance(value.get("patch"), list):
        return value
    raise BadRequestError(f"Invalid JSON Patch: {dumps(value).decode()[:200]}")


def _instant_ms(conditions: Mapping[str, str], name: str) -> int | None:
    """Return an instant of ISO 8601 in milliseconds since the epoch; without a zone it is UTC."""
    text = conditions.get(name.lower())
    if text is None:
        return None
    try:
        instant = datetime.fromisoformat(text)
        if instant.tzinfo is None:
            instant = instant.replace(tzinfo=UTC)
        since = instant - datetime(1970, 1, 1, tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidProposalError(
            f"headers: {name} must be a time such as 2026-01-31T12:00:00Z, not {text!r}"
        ) from error
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def _system_metadata(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        # DataHub's command line sends it as JSON text.
        try:
            value = loads(value)
        except CodecError as error:
            raise InvalidProposalError(f"systemMetadata: {error}") from error
    return None if value is None else _expect_object(value, "systemMetadata")


# `emit` and `emit_mcp` of DataHub's Python client replace every character beyond ASCII in the
# envelope of a proposal (its URN, its headers, its system metadata; not the aspect) by a backslash,
# a `u` and the lower-case hexadecimal digits of its code point: at least four, five or six beyond
# U+FFFF. Batches are sent as they are, so one entity would come to live under two URNs.
#
# How many digits belong to an escape is not always sure. This is what is undone:
# - Digits that begin with 0 are four: no escape has a leading zero beyond four digits.
# - Digits that begin with 4 to 9 or a to d are four: there are no characters from U+40000 to
#   U+DFFFF. That settles Chinese and Korean.
# - All others are four where no further digit follows. Where one does, as in `\u1f600`, which is
#   U+1F600 or U+1F60 before a `0`, nothing is undone in the whole text: the entity gets the name
#   that a real DataHub server would give it.
#
# A text that itself holds such an escape, backslash and all, cannot be told from an altered one.
# Only proposals that name this client are looked at.
_ESCAPE: Final = re.compile(r"\\u([0-9a-f]{4})")
_LONGER: Final = re.compile(r"\\u[123ef][0-9a-f]{4}")
# Headers and the properties of the system metadata are the deepest texts of an envelope.
_LEVELS: Final = 3


def unescape_envelope(proposal: Any) -> Any:
    """Return a proposal as it was before the client altered it; any other value as it is."""
    match proposal:
        case {"systemMetadata": {"properties": {"clientId": "acryl-datahub"}}}:
            envelope = {name: value for name, value in proposal.items() if name != "aspect"}
            return proposal | _each_text(envelope, _LEVELS)
        case _:
            return proposal


def _unescape(text: str) -> str:
    """Return `text` with every escape undone, or as it is where one of them is ambiguous."""
    if not text.isascii() or _LONGER.search(text) is not None:
        return text
    return _ESCAPE.sub(_undone, text)


def _undone(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    # The client made escapes neither of ASCII nor of lone surrogates.
    return escape[0] if code < 0x80 or 0xD800 <= code < 0xE000 else chr(code)


def _each_text(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return _unescape(value)
    if isinstance(value, dict) and levels:
        return {name: _each_text(item, levels - 1) for name, item in value.items()}
    return value
