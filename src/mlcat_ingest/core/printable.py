"""Text of foreign origin on one line of a terminal, a log or a report."""

import re
from typing import Final

# Terminal escapes, line breaks, direction overrides, half surrogates: names of sources are hostile.
_UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """Return `text` on one line, what a terminal would act on written as escapes."""
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
