"""The first page, and the lists of entities of one kind."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from mlcat_ingest.catalog.search.order import ADDED
from mlcat_ingest.catalog.search.request import SearchRequest, SortKey
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui import queries
from mlcat_ingest.catalog.web.ui.rows import PAGE_ROWS, EntityList, ListRow, pager, rows_of
from mlcat_ingest.catalog.web.ui.text import KIND_LABELS, kind_name

_PROMINENT: Final = ("mlModelGroup", "mlModel", "mlFeatureTable", "mlFeature", "test")
_LATEST_GROUPS: Final = 20
_COUNTS: Final = SearchRequest(count=0, facets=("_entityType",), facet_values=1_000)


@dataclass(frozen=True, slots=True)
class KindCount:
    """How many entities of one kind there are, and where they are listed."""

    label: str
    count: int
    href: str


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A model group with the number of its models."""

    row: ListRow
    models: int


@dataclass(frozen=True, slots=True)
class Home:
    """The first page: counts of the ML kinds, counts of the others, the latest groups."""

    kinds: tuple[KindCount, ...]
    other_kinds: tuple[KindCount, ...]
    groups: tuple[GroupRow, ...]
    all_groups: int

    @property
    def empty(self) -> bool:
        """Whether nothing was written yet that a reader came for."""
        return not any(kind.count for kind in self.kinds)


@dataclass(frozen=True, slots=True)
class ListPage:
    """A list of entities of one kind."""

    title: str
    listing: EntityList


def home(store: Store) -> Home:
    """Return the first page.

    Cost: a dozen SQL statements; what is counted is counted already.
    """
    (counted,) = store.search(_COUNTS).facets
    counts = dict(counted.counts)
    latest = store.search(_newest("mlModelGroup", 0, _LATEST_GROUPS))
    urns = [hit.urn for hit in latest.hits]
    sizes = store.read(lambda connection: queries.sizes(connection, urns, "MemberOf"))
    return Home(
        kinds=tuple(_kind(name, counts.get(name, 0)) for name in _PROMINENT),
        other_kinds=tuple(
            _kind(name, count) for name, count in sorted(counts.items()) if name not in _PROMINENT
        ),
        groups=tuple(GroupRow(row, sizes.get(row.urn, 0)) for row in rows_of(store, urns)),
        all_groups=latest.total,
    )


def _newest(entity_type: str, start: int, count: int) -> SearchRequest:
    return SearchRequest(
        entity_types=frozenset({entity_type}),
        sort=(SortKey("created", descending=True), SortKey(ADDED, descending=True)),
        start=start,
        count=count,
    )


def _kind(entity_type: str, count: int) -> KindCount:
    label = kind_name(entity_type, plural=count != 1)
    return KindCount(label, count, f"/kind/{quote(entity_type, safe='')}")


def kind_page(store: Store, entity_type: str, start: int) -> ListPage | None:
    """Return a page of the entities of one kind, the newest first; None for an unknown kind."""
    page = store.search(_newest(entity_type, start, PAGE_ROWS))
    if not page.total and entity_type not in KIND_LABELS:
        return None
    path = f"/kind/{quote(entity_type, safe='')}"
    rows = rows_of(store, [hit.urn for hit in page.hits])
    part = pager(page.total, start, len(rows), lambda at: f"{path}?start={at}")
    return ListPage(kind_name(entity_type, plural=True), EntityList(tuple(rows), part))
