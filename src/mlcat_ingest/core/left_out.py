"""Objects of a source that the catalog does not hold, by kind; read, reported and verified."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.core.text import plural

_KINDS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class KindCount:
    """The number of objects of one kind, a noun, that a source has and that are not read.

    None where they are not counted. There may be more than `count` where that is not `exact`.
    """

    kind: str
    count: int | None
    exact: bool = True


def not_counted_text(kinds: Sequence[str]) -> str:
    """Return in a few words which kinds are not counted; there is one at least."""
    shown = [f"{kind}s" for kind in kinds[:_KINDS_SHOWN]]
    further = len(kinds) - len(shown)
    more = f" and {plural(further, 'more kind')}" if further else ""
    return f"not counted: {', '.join(shown)}{more}"
