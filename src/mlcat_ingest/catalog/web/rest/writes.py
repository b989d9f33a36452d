"""What every form of a write has in common: its conditions, its system metadata, its patch.

The conditions stand in the `headers` of a proposal, or of an aspect in the OpenAPI form. HTTP
headers of the same name are not read, as DataHub does not read them either.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from mlcat_ingest.catalog.errors import AspectRefusedError, InvalidProposalError
from mlcat_ingest.catalog.schema.values import Change, Write
from mlcat_ingest.catalog.web.params import json_type
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import loads


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
    conditions = _lowered(headers)
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


@contextmanager
def placed(where: str, items: Sequence[int] | None = None) -> Iterator[None]:
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


def _lowered(headers: Any) -> Mapping[str, str]:
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
            f"headers: {name} has to be an instant such as 2026-01-31T12:00:00Z, not {text!r}"
        ) from error
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def _system_metadata(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str):
        # DataHub's command line sends it as JSON text.
        try:
            value = loads(value)
        except CodecError as error:
            raise InvalidProposalError(f"systemMetadata: {error}") from error
    if value is None or isinstance(value, dict):
        return value
    raise InvalidProposalError(f"systemMetadata: expected an object, not {json_type(value)}")
