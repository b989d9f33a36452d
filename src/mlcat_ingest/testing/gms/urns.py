"""The rules of URNs for whose breach GMS leaves a proposal out.

Source: UrnValidationUtil.java and EntityKeyUtils.java of the DataHub server.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import quote_plus

from mlcat_ingest.metadata.urn import KINDS, UrnPart
from mlcat_ingest.testing.gms.profile import GmsProfile

_LONGEST: Final = 512
_SEPARATOR: Final = "\u241f"
_WITHOUT_LIMIT: Final = "schemaField"


def is_valid(urn: str, profile: GmsProfile) -> bool:
    """Return whether a server with `profile` stores what a proposal for `urn` brings."""
    scheme, _, rest = urn.partition("urn:li:")
    entity_type, _, key = rest.partition(":")
    if scheme or not entity_type or not key:
        return False
    parts = list(_parts(key))
    return (
        urn.strip() == urn
        and _SEPARATOR not in urn
        and (entity_type == _WITHOUT_LIMIT or len(quote_plus(urn, safe="*")) <= _LONGEST)
        and _fits_key(entity_type, parts, profile)
        and not (profile.strict_urns and _is_loose(parts))
    )


def _fits_key(entity_type: str, parts: Sequence[str], profile: GmsProfile) -> bool:
    kind = KINDS.get(entity_type)
    if kind is None:
        return True
    return len(parts) == len(kind.parts) and all(
        part is not UrnPart.FABRIC or text in profile.environments
        for part, text in zip(kind.parts, parts, strict=True)
    )


def _is_loose(parts: Sequence[str]) -> bool:
    """Return whether a part holds a raw comma or parenthesis; a nested URN may."""
    return any(
        not part.startswith("urn:li:")
        and "%28" not in part
        and "%29" not in part
        and any(character in part for character in "(),")
        for part in parts
    )


def _parts(key: str) -> Iterator[str]:
    """Yield the parts of a key; a comma inside of nested parentheses separates nothing."""
    if not (key.startswith("(") and key.endswith(")")):
        yield key
        return
    depth = begin = 0
    inner = key[1:-1]
    for at, character in enumerate(inner):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            yield inner[begin:at]
            begin = at + 1
    yield inner[begin:]
