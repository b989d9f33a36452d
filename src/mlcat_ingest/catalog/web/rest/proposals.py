"""Writes as clients send them: proposals, their conditions, system metadata and patches.

The conditions stand in the `headers` of a proposal, or of an aspect in the OpenAPI form. HTTP
headers of the same name are not read, as DataHub does not read them either.
Source: `MetadataChangeProposal` of DataHub's Rest.li `/aspects` resource.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, get_args

from mlcat_ingest.catalog.errors import AspectRefusedError, InvalidProposalError
from mlcat_ingest.catalog.schema.values import Change, Write
from mlcat_ingest.catalog.web.params import json_type
from mlcat_ingest.errors import CodecError, InvalidUrnError
from mlcat_ingest.metadata.codec import loads
from mlcat_ingest.metadata.registry import ASPECTS, implied_aspect
from mlcat_ingest.metadata.urn import entity_type_of

_CHANGES: Final[Mapping[str, Change]] = {change: change for change in get_args(Change)}
_JSON: Final = "application/json"
_PATCH: Final = "application/json-patch+json"
_RECORD_PREFIX: Final = "com.linkedin."


def expect_object(value: Any, where: str) -> Mapping[str, Any]:
    """Return `value`, which must be a JSON object.

    Raises:
        InvalidProposalError: it is something else; the sentence says `where`.
    """
    if not isinstance(value, dict):
        raise InvalidProposalError(f"{where}: expected an object, not {json_type(value)}")
    return value


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
            raise InvalidProposalError("aspectName: missing; a DELETE requires it")
        return name, {}
    if change == "PATCH":
        value = patch_of(_json_of(proposal.get("aspect"), (_PATCH, _JSON)), "aspect.value")
        return name or _implied_name(entity_type), value
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
    return name or _implied_name(entity_type), value


def aspects_of_record(record: str) -> list[str]:
    """Return the names of the aspects whose values are of this record."""
    return [aspect for aspect, spec in ASPECTS.items() if spec.record == record]


def _implied_name(entity_type: str) -> str:
    name = implied_aspect(entity_type)
    if not name:
        raise InvalidProposalError(f"aspectName: missing; it does not follow from {entity_type}")
    return name


def _json_of(aspect: Any, content_types: tuple[str, ...]) -> Any:
    """Return the value of an aspect, whether it came as it is or as JSON text in an envelope."""
    expect_object(aspect, "aspect")
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


def make_write(
    urn: str,
    aspect: str,
    value: Mapping[str, Any],
    change: Change,
    *,
    headers: Any = None,
    system_metadata: Any = None,
) -> Write:
    """Return a write whose `headers` and `system_metadata` are as a client sent them.

    Raises:
        InvalidProposalError: they are not understood; the sentence names the field.
    """
    conditions = _conditions(headers)
    none_match = conditions.get("if-none-match")
    if none_match not in {None, "*"}:
        raise InvalidProposalError(f"headers: If-None-Match may only be '*', not {none_match!r}")
    return Write(
        urn=urn,
        aspect=aspect,
        value=value,
        change=change,
        expected_version=conditions.get("if-version-match"),
        skip_if_exists=none_match == "*",
        system_metadata=_system_metadata(system_metadata),
        if_modified_since_ms=_instant_ms(conditions, "If-Modified-Since"),
        if_unmodified_since_ms=_instant_ms(conditions, "If-Unmodified-Since"),
    )


def read_items(
    where: str, items: Sequence[Any], read: Callable[[int, Any], list[Write]]
) -> tuple[list[Write], list[int]]:
    """Return what `read` makes of all `items`, and for each write the position of its item."""
    writes: list[Write] = []
    positions: list[int] = []
    for at, item in enumerate(items):
        with item_position(where, [at]):
            writes += read(at, item)
        positions += [at] * (len(writes) - len(positions))
    return writes, positions


@contextmanager
def item_position(where: str, items: Sequence[int] | None = None) -> Iterator[None]:
    """Say in every refusal of a write inside the block at which item of `where` it was.

    `items` has the position of the item that each write comes from, if an item may be several.
    """
    try:
        yield
    except AspectRefusedError:
        raise  # it names the entity and the aspect, in a form of its own
    except InvalidProposalError as error:
        at = error.index if items is None else items[error.index]
        raise type(error)(f"{where}[{at}]: {error}", index=at) from error


def patch_of(value: Any, where: str) -> Mapping[str, Any]:
    """Return a patch as its envelope; a bare list of operations is put into one.

    Raises:
        InvalidProposalError: it is neither a list nor an object.
    """
    if isinstance(value, list):
        return {"patch": value}
    if isinstance(value, dict):
        return value
    raise InvalidProposalError(f"{where}: expected a list or an object, not {json_type(value)}")


def _conditions(headers: Any) -> Mapping[str, str]:
    if headers is None:
        return {}
    if not isinstance(headers, dict) or not all(isinstance(v, str) for v in headers.values()):
        raise InvalidProposalError("headers: expected an object of strings")
    return {name.lower(): value for name, value in headers.items()}


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
    return None if value is None else expect_object(value, "systemMetadata")


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
_CLIENT: Final = "acryl-datahub"
_ESCAPE: Final = re.compile(r"\\u([0-9a-f]{4})")
_LONGER: Final = re.compile(r"\\u[123ef][0-9a-f]{4}")
# Headers and the properties of the system metadata are the deepest texts of an envelope.
_LEVELS: Final = 3


def unescape_envelope(proposal: Any) -> Any:
    """Return a proposal as it was before the client altered it; any other value as it is."""
    if not isinstance(proposal, dict) or not _is_from_client(proposal):
        return proposal
    envelope = {name: value for name, value in proposal.items() if name != "aspect"}
    return proposal | _each_text(envelope, _LEVELS)


def unescape(text: str) -> str:
    """Return `text` with every escape undone, or as it is where one of them is ambiguous."""
    if not text.isascii() or _LONGER.search(text) is not None:
        return text
    return _ESCAPE.sub(_undone, text)


def _undone(escape: re.Match[str]) -> str:
    code = int(escape[1], 16)
    # The client made escapes neither of ASCII nor of lone surrogates.
    return escape[0] if code < 0x80 or 0xD800 <= code < 0xE000 else chr(code)


def _is_from_client(proposal: Mapping[str, Any]) -> bool:
    metadata = proposal.get("systemMetadata")
    properties = metadata.get("properties") if isinstance(metadata, dict) else None
    return isinstance(properties, dict) and properties.get("clientId") == _CLIENT


def _each_text(value: Any, levels: int) -> Any:
    if isinstance(value, str):
        return unescape(value)
    if isinstance(value, dict) and levels:
        return {name: _each_text(item, levels - 1) for name, item in value.items()}
    return value
