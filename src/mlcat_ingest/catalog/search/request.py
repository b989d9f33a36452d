"""Requests and pages of a search, as plain values, and the cursors of a scroll."""

import base64
import binascii
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.errors import CodecError
from mlcat_ingest.metadata.codec import canonical, loads

MATCH_ALL: Final = "*"
"""The query that every entity matches."""


class Condition(Enum):
    """How a criterion compares a field with its values; the names are those of DataHub's API."""

    EQUAL = "EQUAL"
    IEQUAL = "IEQUAL"
    IN = "IN"
    CONTAIN = "CONTAIN"
    START_WITH = "START_WITH"
    END_WITH = "END_WITH"
    EXISTS = "EXISTS"
    GREATER_THAN = "GREATER_THAN"
    GREATER_THAN_OR_EQUAL_TO = "GREATER_THAN_OR_EQUAL_TO"
    LESS_THAN = "LESS_THAN"
    LESS_THAN_OR_EQUAL_TO = "LESS_THAN_OR_EQUAL_TO"


@dataclass(frozen=True, slots=True)
class Criterion:
    """One condition on one field; it holds where any of `values` satisfies it.

    `field` is a name such as `platform`, `origin`, `_entityType`, `tags`, `owners`, `removed`,
    `customProperties` (values of the form `key=value`), `metrics.auc` or `hyperParams.max_depth`;
    a `.keyword` suffix means the same field.
    """

    field: str
    values: tuple[str, ...] = ()
    condition: Condition = Condition.EQUAL
    negated: bool = False


Alternatives = tuple[tuple[Criterion, ...], ...]
"""Lists of criteria of which one has to hold, every criterion in it."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """One field to sort by: `urn`, `name`, `created`, `lastModified`, `metrics.auc`, ..."""

    field: str
    descending: bool = False


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search.

    Attributes:
        query: words; the last one matches as a prefix. `*` or nothing matches every entity.
        entity_types: only entities of these types; None means of all but the data platforms, which
            every catalog has from the start.
        any_of: alternatives, each a list of criteria that hold together; no alternatives, or an
            alternative without criteria, match everything.
        sort: fields to sort by; without any, by rank, and entities of equal rank by age.
        start: how many results to pass over.
        count: most results to return.
        scroll: whether this is a page of a scroll. Its order is one that no other write changes,
            and its pages lead to each other: by `sort`, or else by how well the words fit (the
            whole name, the beginning of it, a word in it, ...) and by age.
        after: the `next_scroll` of the page before, to go on from it; `start` is then 0.
        highlight: whether `matched` is worked out for each hit.
        facets: fields whose values are counted over everything that matches.
        facet_values: most values of a facet.
        include_removed: whether entities marked as removed are found as well.
        only_latest: whether versions that are known not to be the latest of their set are left out.
    """

    query: str = MATCH_ALL
    entity_types: frozenset[str] | None = None
    any_of: Alternatives = ()
    sort: tuple[SortKey, ...] = ()
    start: int = 0
    count: int = 10
    scroll: bool = False
    after: str | None = None
    highlight: bool = True
    facets: tuple[str, ...] = ()
    facet_values: int = 20
    include_removed: bool = False
    only_latest: bool = False

    def cursor(self, place: Sequence[Any]) -> str:
        """Return the cursor of the page behind `place`, the sort values of an entity."""
        return base64.urlsafe_b64encode(canonical([self._checksum(), *place])).decode()

    def place(self, values: int) -> list[Any]:
        """Return the place in the cursor `after`: as many sort values as `values`.

        Raises:
            BadRequestError: it is no cursor, or that of another search.
        """
        try:
            place = loads(base64.b64decode(self.after or "", altchars=b"-_", validate=True))
        except (CodecError, binascii.Error, ValueError) as error:
            raise BadRequestError("invalid scroll id; use one that a search returned") from error
        if not isinstance(place, list) or len(place) != values + 1 or place[0] != self._checksum():
            raise BadRequestError("the scroll id belongs to another search; repeat that search")
        if not all(map(_is_sortable, place)):
            raise BadRequestError("invalid scroll id; use one that a search returned")
        return place[1:]

    def _checksum(self) -> int:
        """Return a number that all pages of one scroll share, and other searches hardly ever."""
        types = sorted(self.entity_types or ())
        search = (self.query, types, self.any_of, self.sort, self.include_removed)
        return zlib.crc32(repr(search).encode("utf-8", "replace"))


@dataclass(frozen=True, slots=True)
class Hit:
    """An entity that was found; `matched` names the fields, and their texts, that the words hit."""

    urn: str
    matched: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Facet:
    """How often each value of `field` occurs among all that matched, most frequent first."""

    field: str
    counts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class SearchPage:
    """One page of results.

    `total` counts all that match. `next_scroll` leads to the page of a scroll after this one; it
    is None where this page is the last, or its order is one that a scroll cannot go on in. After a
    `full_scan` every entity was compared, since no index answers the filter.
    """

    total: int
    hits: tuple[Hit, ...] = ()
    facets: tuple[Facet, ...] = ()
    next_scroll: str | None = None
    full_scan: bool = False


def _is_sortable(value: Any) -> bool:
    """Return whether a column can be compared with `value`; anybody may make up a scroll id."""
    if isinstance(value, int):
        return not isinstance(value, bool) and -(2**63) <= value < 2**63
    return isinstance(value, str | float | None)
