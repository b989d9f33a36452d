"""URNs: how an entity's identity is spelled, read and checked.

A URN is a plain `str` everywhere; this module builds and reads them. Our own entities (the ML
kinds) percent-encode ``,`` ``(`` ``)`` ``%``, U+241F and control characters in a part, so that
every name survives. All other kinds follow the rule of the DataHub SDK, which encodes only
``,`` ``(`` ``)`` and U+241F and never ``%``: with any other spelling they would not join to what
other tools write. A foreign name that holds a literal ``%2C`` therefore reads as one with a comma.

The text is the identity: what others wrote is kept as it is, never taken apart and put together
again, because one name can be spelled in several ways.

Source: `UrnValidationUtil.java` with `STRICT_URN_VALIDATION_ENABLED`, as DataHub's compose files
set it. A server leaves out a proposal whose URN breaks a rule, and acknowledges it all the same, so
`check` is at least as strict.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import InvalidUrnError

MAX_URN_BYTES: Final = 512
"""Longest URN in bytes, counted after URL-encoding, that a DataHub server accepts."""

MAX_URN_CHARS: Final = 500
"""Longest URN in characters: the width of the column in a DataHub server's database."""

FABRICS: Final = frozenset(
    {
        *("DEV", "TEST", "QA", "UAT", "EI", "PRE", "STG", "NON_PROD", "PROD", "CORP"),
        *("RVW", "PRD", "TST", "SIT", "SBX", "SANDBOX", "CERT"),
    }
)
"""The 17 environments (`FabricType`) that the third part of a model's or dataset's URN may name."""

PREFIX: Final = "urn:li:"

_SHAPE = re.compile("urn:li:([A-Za-z][A-Za-z0-9]*):.", re.DOTALL)
_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."
_OWN_UNSAFE = re.compile("[,()%\x00-\x1f\x7f-\x9f\u2028\u2029\u241f]")
_FOREIGN_UNSAFE = re.compile("[,()\u241f]")
_REFERENCE_UNSAFE = re.compile("[()\u241f]")
_FOREIGN_ESCAPES = re.compile("%2C|%28|%29|%E2%90%9F")


class UrnPart(Enum):
    """The content of one part of a URN."""

    NAME = "name"
    FABRIC = "environment"
    PLATFORM = "dataPlatform"
    DATA_FLOW = "dataFlow"


_ASSET = (UrnPart.PLATFORM, UrnPart.NAME, UrnPart.FABRIC)
_OF_PLATFORM = (UrnPart.PLATFORM, UrnPart.NAME)
_PAIR = (UrnPart.NAME, UrnPart.NAME)

OWN_KINDS: Final[Mapping[str, tuple[UrnPart, ...]]] = {
    **dict.fromkeys(("mlModel", "mlModelGroup", "mlModelDeployment"), _ASSET),
    **dict.fromkeys(("mlFeature", "mlPrimaryKey"), _PAIR),
    "mlFeatureTable": _OF_PLATFORM,
}
"""The entity types whose URNs encode every unsafe character, with their parts."""

_SINGLE_KINDS = (
    *("agentSkill", "aiAgent", "api", "container", "corpGroup", "corpuser", "dataPlatform"),
    *("dataProcessInstance", "document", "domain", "glossaryTerm", "service"),
    *("structuredProperty", "tag", "test"),
)

KINDS: Final[Mapping[str, tuple[UrnPart, ...]]] = {
    **OWN_KINDS,
    "dataset": _ASSET,
    "dataPlatformInstance": _OF_PLATFORM,
    "dataFlow": (UrnPart.NAME, UrnPart.NAME, UrnPart.NAME),
    "dataJob": (UrnPart.DATA_FLOW, UrnPart.NAME),
    "versionSet": _PAIR,
    **dict.fromkeys(_SINGLE_KINDS, (UrnPart.NAME,)),
}
"""The parts of the URNs of each entity type that this package builds."""


def encode_own(text: str) -> str:
    """Return `text` as one part of a URN of ours, every unsafe character percent-encoded."""
    if _OWN_UNSAFE.search(text) is None:
        return text
    return _OWN_UNSAFE.sub(lambda match: quote(match[0], safe=""), text)


def encode_foreign(text: str) -> str:
    """Return `text` as one part of a URN that others write too, encoded as the SDK does it."""
    if _FOREIGN_UNSAFE.search(text) is None:
        return text
    return _FOREIGN_UNSAFE.sub(lambda match: quote(match[0], safe=""), text)


def encoded_bytes(text: str) -> int:
    """Return how many bytes `text` has at most once URL-encoded.

    Encoders differ over ``~``, ``*`` and the space; each of them counts as three bytes here.

    Raises:
        InvalidUrnError: `text` holds a lone surrogate.
    """
    try:
        raw = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidUrnError(f"{text!r} holds a lone surrogate") from error
    return len(raw) + 2 * len(raw.translate(None, _UNRESERVED))


def build(entity_type: str, *parts: str) -> str:
    """Return the URN of `entity_type` with `parts` (decoded text; nested URNs as they are).

    Raises:
        InvalidUrnError: the kind is unknown, a part is empty or of the wrong kind, or the URN has
            more than 512 bytes once URL-encoded.
    """
    roles = _roles_of(entity_type)
    if len(parts) != len(roles):
        raise InvalidUrnError(
            f"a URN of {entity_type} has {plural(len(roles), 'part')}, not {len(parts)}"
        )
    encode = encode_own if entity_type in OWN_KINDS else encode_foreign
    spelled = [
        encode(part) if role is UrnPart.NAME else part
        for role, part in zip(roles, parts, strict=True)
    ]
    body = spelled[0] if len(spelled) == 1 else f"({','.join(spelled)})"
    urn = f"{PREFIX}{entity_type}:{body}"
    _check_parts(urn, roles, tuple(spelled))
    _check_width(urn)
    return urn


def check(urn: str, *, reference: bool = False) -> tuple[str, ...]:
    """Return the parts of `urn` verbatim, still encoded, once they are known to be sound.

    An entity type that is not in `KINDS` has to keep the rules for all URNs only. A `reference`,
    a URN in an aspect that names no entity to write, may have a comma in its only part, and more
    than 500 characters.

    Raises:
        InvalidUrnError: `urn` is no URN, or breaks a rule of its kind.
    """
    entity_type = entity_type_of(urn)
    raw = raw_parts(urn)
    if not reference:
        _check_width(urn)
    roles = KINDS.get(entity_type)
    unsafe = _REFERENCE_UNSAFE if reference and len(raw) == 1 else _FOREIGN_UNSAFE
    if roles is None:
        for part in raw:
            if not part.startswith(PREFIX):
                _check_name(urn, part, unsafe)
        _check_whole(urn)
        return raw
    if len(raw) != len(roles) or (len(raw) == 1 and urn.endswith(f":({raw[0]})")):
        raise InvalidUrnError(f"{_quote(urn)} does not have {plural(len(roles), 'part')}")
    _check_parts(urn, roles, raw, unsafe)
    return raw


@lru_cache(maxsize=2_000)
def entity_type_of(urn: str) -> str:
    """Return the entity type that `urn` names.

    Raises:
        InvalidUrnError: `urn` does not read `urn:li:<entity type>:<id>`.
    """
    match = _SHAPE.match(urn)
    if match is None:
        raise InvalidUrnError(f"{_quote(urn)} is not a URN", hint="urn:li:<entity type>:<id>")
    return match[1]


def by_entity_type(urns: Iterable[str]) -> dict[str, list[str]]:
    """Return `urns`, each once, by the entity type that they name; raises as `entity_type_of`."""
    by_type: dict[str, list[str]] = {}
    for urn in dict.fromkeys(urns):
        by_type.setdefault(entity_type_of(urn), []).append(urn)
    return by_type


@lru_cache(maxsize=1_000)
def raw_parts(urn: str) -> tuple[str, ...]:
    """Return the parts of `urn` verbatim, still encoded; commas inside parentheses do not split.

    Raises:
        InvalidUrnError: `urn` is not a URN, is too long, or its parentheses do not match.
    """
    if len(urn) > MAX_URN_BYTES:
        raise InvalidUrnError(f"{_quote(urn)} has more than {MAX_URN_BYTES} bytes")
    body = urn[len(PREFIX) + len(entity_type_of(urn)) + 1 :]
    if not body.startswith("("):
        return (body,)
    if not body.endswith(")"):
        raise InvalidUrnError(f"{_quote(urn)} has unbalanced parentheses")
    inner = body[1:-1]
    if "(" not in inner and ")" not in inner:
        return tuple(inner.split(","))
    return _split_nested(urn, inner)


def _split_nested(urn: str, inner: str) -> tuple[str, ...]:
    cuts = [-1]
    depth = 0
    for at, char in enumerate(inner):
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
        if char == "," and depth == 0:
            cuts.append(at)
    if depth:
        raise InvalidUrnError(f"{_quote(urn)} has unbalanced parentheses")
    ends = [*cuts[1:], len(inner)]
    return tuple(inner[cut + 1 : end] for cut, end in zip(cuts, ends, strict=True))


def decoded_parts(urn: str) -> tuple[str, ...]:
    """Return the parts of `urn`, decoded; nested URNs stay text.

    Raises:
        InvalidUrnError: `urn` is no URN of a known kind, or breaks a rule of its kind.
    """
    entity_type = entity_type_of(urn)
    roles = _roles_of(entity_type)
    decode = unquote if entity_type in OWN_KINDS else _decode_foreign
    return tuple(
        decode(part) if role is UrnPart.NAME else part
        for role, part in zip(roles, check(urn), strict=True)
    )


def _decode_foreign(part: str) -> str:
    return _FOREIGN_ESCAPES.sub(lambda match: unquote(match[0]), part)


def _roles_of(entity_type: str) -> tuple[UrnPart, ...]:
    roles = KINDS.get(entity_type)
    if roles is None:
        raise InvalidUrnError(f"{entity_type!r} is not an entity type with a known URN shape")
    return roles


def _check_parts(
    urn: str,
    roles: tuple[UrnPart, ...],
    raw: tuple[str, ...],
    unsafe: re.Pattern[str] = _FOREIGN_UNSAFE,
) -> None:
    for role, part in zip(roles, raw, strict=True):
        if not part:
            raise InvalidUrnError(f"{_quote(urn)} has an empty part")
        if role is UrnPart.NAME:
            _check_name(urn, part, unsafe)
        elif role is UrnPart.FABRIC:
            if part not in FABRICS:
                hint = f"one of {', '.join(sorted(FABRICS))}"
                raise InvalidUrnError(f"{_quote(part)} is not an environment", hint=hint)
        else:
            _check_nested(part, role.value)
    _check_whole(urn)


def _check_name(urn: str, part: str, unsafe: re.Pattern[str]) -> None:
    if unsafe.search(part) is not None:
        raise InvalidUrnError(f"{_quote(urn)} holds a reserved character: {part!r}")


@lru_cache(maxsize=256)
def _check_nested(urn: str, entity_type: str) -> None:
    if entity_type_of(urn) != entity_type:
        raise InvalidUrnError(f"{_quote(urn)} is not a URN of a {entity_type}")
    check(urn)


def _check_whole(urn: str) -> None:
    # Java trims control characters too, Python other kinds of white space.
    if urn[-1] <= " " or urn[-1].isspace():
        raise InvalidUrnError(f"{_quote(urn)} ends with white space")
    if (len(urn) * 3 > MAX_URN_BYTES or not urn.isascii()) and encoded_bytes(urn) > MAX_URN_BYTES:
        raise InvalidUrnError(f"{_quote(urn)} has more than {MAX_URN_BYTES} bytes URL-encoded")


def _check_width(urn: str) -> None:
    if len(urn) > MAX_URN_CHARS:
        raise InvalidUrnError(f"{_quote(urn)} has more than {MAX_URN_CHARS} characters")


def _quote(urn: str) -> str:
    return repr(urn) if len(urn) <= MAX_URN_BYTES else f"{urn[:80]!r}…"


def data_platform(name: str) -> str:
    """Return the URN of a data platform."""
    return build("dataPlatform", name)


def dataset(platform: str, name: str, env: str) -> str:
    """Return the URN of a dataset on the platform named `platform`, as the SDK spells it."""
    return build("dataset", data_platform(platform), name, env)
