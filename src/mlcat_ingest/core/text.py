"""Text that several layers make alike."""

import re
from typing import Final

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """Return a count with its noun in the number that agrees: "1 event", "2,000 events"."""
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def whole_characters(text: str) -> str:
    """Return `text` with U+FFFD for every lone surrogate, for names in URNs."""
    return text if text.isprintable() else _SURROGATE.sub("\ufffd", text)
