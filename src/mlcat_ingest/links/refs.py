"""References to features, as runs and their models spell them."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from mlcat_ingest.metadata.urn import PREFIX

_VERSION: Final = re.compile(r"@(?:v\d+|latest)?$", re.IGNORECASE)
_FEATURE_URN: Final = f"{PREFIX}mlFeature:("


class Ref(NamedTuple):
    """A feature by the names of its table and its own.

    Without a `namespace`, `table` is either a full name or one without its namespace. `asked_as`
    are names that the table goes by in columns, beside its own.
    """

    table: str
    feature: str
    namespace: str | None = None
    asked_as: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the reference as a message spells it."""
        name = f"{self.table}:{self.feature}"
        return name if self.namespace is None else f"{self.namespace}.{name}"

    @property
    def columns(self) -> Iterator[str]:
        """The names that a column of this feature may have in what a store returned."""
        yield self.feature
        for table in (self.table, *self.asked_as):
            yield f"{table}__{self.feature}"


def feast_ref(text: str, project: str | None) -> Ref | None:
    """Return what `view[@vN]:feature` refers to; None for what is no reference."""
    asked, colon, feature = text.strip().partition(":")
    view = _VERSION.sub("", asked)
    if not (view and colon and feature):
        return None
    return Ref(view, feature, project, () if asked == view else (asked,))


def table_ref(text: str) -> Ref | None:
    """Return what `namespace.table:feature` refers to; None for what is no reference."""
    table, colon, feature = text.strip().partition(":")
    return Ref(table, feature) if table and colon and feature else None


def is_feature_urn(text: str) -> bool:
    """Return whether `text` looks like the URN of a feature."""
    return text.startswith(_FEATURE_URN) and text.endswith(")")


def entries(text: str) -> Iterator[str]:
    """Yield the entries of a list, split at commas and line ends that are in no parentheses."""
    depth = start = 0
    for at, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "\n" or (character == "," and depth <= 0):
            depth = 0
            yield from filter(None, [text[start:at].strip()])
            start = at + 1
    yield from filter(None, [text[start:].strip()])
