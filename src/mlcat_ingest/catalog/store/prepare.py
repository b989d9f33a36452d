"""A write before it touches a table: validated, serialised, its edges extracted."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from typing import Any, Final, NamedTuple

from mlcat_ingest.catalog.errors import ComputedFieldError, InvalidProposalError
from mlcat_ingest.catalog.schema.values import Moment, Write, is_series, moment_of
from mlcat_ingest.catalog.store.patch import Patch, read_patch
from mlcat_ingest.errors import CodecError, DefinitionError, InvalidUrnError
from mlcat_ingest.metadata.aspects import IS_LATEST, OWNERSHIP, TEST_INFO, VERSION_PROPERTIES
from mlcat_ingest.metadata.codec import dumps, loads
from mlcat_ingest.metadata.registry import (
    ASPECTS,
    ENTITY_TYPES,
    allows,
    edges,
    key_aspect,
    key_aspect_name,
)
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.metadata.validate import AspectProblem, ProblemKind, adjusted_aspect
from mlcat_ingest.metadata_tests.definition import is_empty, read_definition

_PROPOSED: Final = frozenset({"CREATE", "UPDATE", "UPSERT"})
"""The changes whose values are looked at before anything is compared with the stored state."""

_CACHED_CHARS: Final = 250


class StorableValue(NamedTuple):
    """A value that may be stored: also as text, with the edges that are in it."""

    value: Mapping[str, Any]
    text: str
    edges: tuple[tuple[str, str], ...]


class PreparedWrite(NamedTuple):
    """A write that may be stored: nothing about it but the stored state can refuse it now.

    A patch is worked out on the stored state, so it has a `patch` and no `content`; a deletion
    has neither. An event of a timeseries has its `moment`.
    """

    write: Write
    entity_type: str
    is_key: bool = False
    content: StorableValue | None = None
    patch: Patch | None = None
    moment: Moment | None = None
    system_metadata: str | None = None


# The aspects of an entity come together.
@lru_cache(maxsize=1_000)
def check_urn(urn: str) -> str:
    """Return the entity type of `urn`, which must be one that this catalog can hold.

    Raises:
        InvalidUrnError: it is no URN, breaks a rule of its kind, or names an unknown entity type.
    """
    entity_type = entity_type_of(urn)
    if entity_type not in ENTITY_TYPES:
        raise InvalidUrnError(
            f"{entity_type!r} is not an entity type of this catalog"
            f"{_suggestion(entity_type, ENTITY_TYPES)}"
        )
    key_aspect(urn)
    if "\x00" in urn:
        raise InvalidUrnError(f"{urn!r} contains a NUL character")
    return entity_type


def _suggestion(name: str, names: Iterable[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def check_aspect_name(entity_type: str, aspect: str) -> None:
    """Check that an entity of `entity_type` may carry `aspect`.

    Raises:
        InvalidProposalError: it may not.
    """
    if not allows(entity_type, aspect):
        raise InvalidProposalError(f"Unknown aspect {aspect} for entity {entity_type}")


def prepare(write: Write) -> PreparedWrite:
    """Return `write` checked against the table of entity kinds, ready to be stored.

    Raises:
        InvalidProposalError: the URN, the aspect's name or a field of the aspect is wrong; the
            sentence names it.
    """
    try:
        entity_type = check_urn(write.urn)
    except InvalidUrnError as error:
        raise InvalidProposalError(f"entityUrn: {error}") from error
    aspect, change = write.aspect, write.change
    check_aspect_name(entity_type, aspect)
    is_key = aspect == key_aspect_name(entity_type)
    content = patch = moment = None
    if change == "PATCH":
        patch = _read_patch(write, is_key=is_key)
    elif change != "DELETE":
        if aspect == VERSION_PROPERTIES and change in _PROPOSED and IS_LATEST in write.value:
            sentence = "IsLatest should not be specified, this is a computed field."
            raise ComputedFieldError(write.urn, aspect, sentence)
        content = content_of(entity_type, aspect, write.value)
        moment = moment_of(aspect, write.value)
        if moment is not None and write.conditional:
            raise InvalidProposalError(f"{aspect}: a timeseries aspect does not support conditions")
    metadata = write.system_metadata
    return PreparedWrite(
        write,
        entity_type,
        is_key,
        content,
        patch,
        moment,
        dumps(metadata).decode() if metadata else None,
    )


def content_of(entity_type: str, aspect: str, value: Mapping[str, Any]) -> StorableValue:
    """Return the `value` of an aspect as it is stored, without unknown fields, with computed ones.

    Raises:
        InvalidProposalError: a field of it is wrong, or it has no faithful JSON form; the sentence
            names the field.
    """
    text = ""
    # A field that is not known may have no JSON form: it is not stored.
    with suppress(CodecError):
        text = dumps(value).decode()
    if 0 < len(text) <= _CACHED_CHARS:
        return _short_content(entity_type, aspect, text)
    return _content(entity_type, aspect, value, text)


# Short aspects, such as owners and browse paths, are the same for many entities.
@lru_cache(maxsize=1_000)
def _short_content(entity_type: str, aspect: str, text: str) -> StorableValue:
    return _content(entity_type, aspect, loads(text), text)


def _content(entity_type: str, aspect: str, sent: Mapping[str, Any], text: str) -> StorableValue:
    value, problems = adjusted_aspect(entity_type, aspect, sent)
    if problems:
        raise InvalidProposalError(_complaint(entity_type, aspect, problems))
    if aspect == TEST_INFO:
        _check_definition(value)
    elif aspect == OWNERSHIP:
        value = _with_owner_types(value)
    if not text or value is not sent:
        try:
            text = dumps(value).decode()
        except CodecError as error:
            raise InvalidProposalError(f"{aspect}: {error}") from error
    return StorableValue(value, text, edges(aspect, value))


def _with_owner_types(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an ownership with its owners by type; without owners a map stays as it was sent.

    Source: seen on a DataHub server 1.7; `OwnerTypeMap` of its metadata model.
    """
    types: dict[str, dict[str, None]] = {}
    for owner in value["owners"]:
        named = owner.get("typeUrn") or owner_type(owner["type"])
        types.setdefault(named, {})[owner["owner"]] = None
    by_type = {key: [*urns] for key, urns in types.items()}
    return {**value, "ownerTypes": by_type} if types else value


def owner_type(name: str) -> str:
    """Return the URN of one of DataHub's own types of owners: `TECHNICAL_OWNER`."""
    return f"urn:li:ownershipType:__system__{name.lower()}"


def _read_patch(write: Write, *, is_key: bool) -> Patch:
    if is_key:
        raise InvalidProposalError(f"{write.aspect}: cannot be patched, as it follows from the URN")
    if is_series(write.aspect):
        raise InvalidProposalError(f"{write.aspect}: a timeseries aspect cannot be patched")
    return read_patch(write.aspect, write.value)


def _complaint(entity_type: str, aspect: str, problems: Iterable[AspectProblem]) -> str:
    """Return the problems of a value in a server's words; those of URNs only without others."""
    wrong = [problem for problem in problems if problem.kind is ProblemKind.RECORD]
    opening = f"Failed to validate record with class {ASPECTS[aspect].record}: "
    if not wrong:
        wrong = list(problems)
        opening = f"Invalid format for aspect: {entity_type}\n Cause: "
    return opening + "".join(f"ERROR :: {problem}\n" for problem in wrong)


def _check_definition(test_info: Mapping[str, Any]) -> None:
    definition = test_info.get("definition", {}).get("json")
    if is_empty(definition):
        return
    try:
        read_definition(definition)
    except DefinitionError as error:
        problems = "; ".join(f"definition.json: {problem}" for problem in error.problems[:5])
        raise InvalidProposalError(f"{TEST_INFO}: {problems}") from error
