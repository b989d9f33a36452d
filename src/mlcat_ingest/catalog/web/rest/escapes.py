r"""Undoes what DataHub's Python client does to text in proposals that it sends one by one.

`emit` and `emit_mcp` of the client replace every character beyond ASCII in the envelope of a
proposal (its URN, its headers, its system metadata; not the aspect) by a backslash, a `u` and the
lower-case hexadecimal digits of its code point: at least four, five or six beyond U+FFFF. Batches
are sent as they are, so one entity would come to live under two URNs.

How many digits belong to an escape is not always sure. This is what is undone:

- Digits that begin with 0 are four: no escape has a leading zero beyond four digits.
- Digits that begin with 4 to 9 or a to d are four: there are no characters from U+40000 to
  U+DFFFF. That settles Chinese and Korean.
- All others are four where no further digit follows. Where one does, as in `\u1f600`, which is
  U+1F600 or U+1F60 before a `0`, nothing is undone in the whole text: the entity gets the name
  that a real DataHub server would give it.

A text that itself holds such an escape, backslash and all, cannot be told from an altered one.
Only proposals that name this client are looked at.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

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
    # The client made escapes neither of ASCII nor of halves of a surrogate pair.
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
