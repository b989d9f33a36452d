"""The first page: counts of entities, and the latest runs, failing tests, changes, ingestions."""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final

from mlcat_ingest.catalog.schema.values import Direction, EdgeQuery
from mlcat_ingest.catalog.search.request import Condition, Criterion, SearchRequest
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import list_tasks
from mlcat_ingest.catalog.web.ui.changes import ChangesPage, latest_changes
from mlcat_ingest.catalog.web.ui.facts import Piece
from mlcat_ingest.catalog.web.ui.ingestion import recipes_page
from mlcat_ingest.catalog.web.ui.lists import (
    CREATED,
    DURATION,
    NAME,
    PAGE_ROWS,
    RUN_STATE,
    ListColumn,
    Listing,
    ListRow,
    counted,
    names_of,
    newest,
    outcome_counts,
    rows_of,
)
from mlcat_ingest.catalog.web.ui.text import entity_href, kind_href, kind_name

_PROMINENT: Final = ("mlModelGroup", "mlModel", "mlFeatureTable", "mlFeature", "test")
_PROMINENT_IF_ANY: Final = ("service", "api", "agentSkill", "aiAgent", "document")
_COUNTS: Final = SearchRequest(count=0, facets=("_entityType",), facet_values=1_000)
_REMOVED: Final = replace(
    _COUNTS, any_of=((Criterion("removed", ("true",)),),), include_removed=True
)
_RUNS: Final = 10
_RECIPES: Final = 10
_TESTS: Final = 10
_METRICS: Final = "metrics."
_OF_MACHINE: Final = re.compile(r"metrics\.system/|time|duration|latency|epoch", re.IGNORECASE)
"""Metrics of the machine, or of the progress, that say little about a model."""


@dataclass(frozen=True, slots=True)
class _KindCount:
    """A kind of entities: how many there are, and where they are listed."""

    label: str
    count: int
    href: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _HomePage:
    """The first page."""

    kinds: Annotated[Sequence[_KindCount], "the ML kinds"]
    other_kinds: Sequence[_KindCount]
    empty: Annotated[bool, "whether there is no entity of an ML kind"]
    changes: Annotated[ChangesPage, "those of the last day"]
    runs: Annotated[Listing, "the latest runs"]
    tests: Annotated[Listing, "the metadata tests that fail on most entities"]
    recipes: Annotated[Listing, "recipes, each with its latest run"]
    tasks: Annotated[int, "how many index tasks there are"]


def home(store: Store) -> _HomePage:
    """Return the first page. Of the tests the `PAGE_ROWS` newest are looked at.

    Cost: some forty SQL statements, whatever the number of entities.
    """
    counts, removed = (dict(store.search(one).facets[0].counts) for one in (_COUNTS, _REMOVED))

    def kind(name: str) -> _KindCount:
        count = counts.get(name, 0)
        label = kind_name(name, plural=count != 1)
        label += f", {removed[name]:,} removed" if name in removed else ""
        return _KindCount(label, count, kind_href(name))

    prominent = (*_PROMINENT, *filter(counts.get, _PROMINENT_IF_ANY))
    return _HomePage(
        kinds=[*map(kind, prominent)],
        other_kinds=[*map(kind, sorted(counts.keys() - prominent))],
        empty=counts.keys().isdisjoint(prominent),
        changes=latest_changes(store),
        runs=_recent_runs(store),
        tests=_failing_tests(store),
        recipes=recipes_page(store, 0, _RECIPES),
        tasks=store.read(list_tasks, 0, 0)[0],
    )


def _recent_runs(store: Store) -> Listing:
    """Return the newest models that have the status of a run, each with a metric that most have."""
    with_status = Criterion("status", condition=Condition.EXISTS)
    request = replace(newest("mlModel", 0, _RUNS), any_of=((with_status,),))
    rows = rows_of(store, [hit.urn for hit in store.search(request).hits])
    membership = EdgeQuery(["MemberOf"], Direction.OUTGOING, count=1)
    pages = store.related_entities([row.urn for row in rows], membership)
    groups = {urn: page.entities[0].urn for urn, page in pages.items() if page.entities}
    of = {row.urn: row for row in rows_of(store, list(groups.values()))}
    # Two servers may have groups of one name.
    texts = {urn: " / ".join(filter(None, (row.place, row.name))) for urn, row in of.items()}
    links = {urn: Piece(texts[group], of[group].href) for urn, group in groups.items()}
    metrics = Counter(name for row in rows for name in _metrics(row))

    def rank(name: str) -> tuple[bool, int, str]:
        return _OF_MACHINE.search(name) is not None, -metrics[name], name

    def main_metric(row: ListRow) -> tuple[str, str] | None:
        main = min(_metrics(row), key=rank, default=None)
        return None if main is None else (main.removeprefix(_METRICS), row.shown(main))

    group = ListColumn("Group", lambda row: links.get(row.urn), "link")
    metric = ListColumn("Metric", main_metric, "named")
    return Listing(rows, (NAME, RUN_STATE, group, metric, DURATION, CREATED))


def _metrics(row: ListRow) -> Iterable[str]:
    return [name for name in row.numbers if name.startswith(_METRICS)]


def _failing_tests(store: Store) -> Listing:
    """Return the tests that fail on most entities."""
    tests: Sequence[str] = [hit.urn for hit in store.search(newest("test", 0, PAGE_ROWS)).hits]
    counts = outcome_counts(store, tests)
    failing = sorted((urn for urn in tests if counts[urn][0]), key=lambda urn: -counts[urn][0])
    names = names_of(store, failing[:_TESTS])
    columns = (
        ListColumn("Name", lambda row: Piece(row[1], entity_href(row[0], tab="failing")), "link"),
        ListColumn("Failing", lambda row: ("bad", counted(counts[row[0]][0])), "badge", "number"),
        ListColumn("Passing", lambda row: counted(counts[row[0]][1]), css="number"),
    )
    return Listing([*names.items()], columns)
