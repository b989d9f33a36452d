"""The latest activity, for the first page: runs, failing tests, changes, ingestions, tasks."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mlcat_ingest.catalog.schema.values import Direction
from mlcat_ingest.catalog.search.request import Condition, Criterion
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import list_tasks
from mlcat_ingest.catalog.web.ui.changes import latest_changes
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
from mlcat_ingest.catalog.web.ui.text import entity_href

_RUNS: Final = 10
_RECIPES: Final = 10
_TESTS: Final = 10
_METRICS: Final = "metrics."
_OF_MACHINE: Final = re.compile(r"metrics\.system/|time|duration|latency|epoch", re.IGNORECASE)
"""Metrics of the machine, or of the progress, that say little about a model."""


def activity(store: Store) -> Mapping[str, object]:
    """Return the latest runs, tests that fail, changes, run of each recipe, and the tasks.

    Of the tests the `PAGE_ROWS` newest are looked at.

    Cost: some forty SQL statements, whatever the number of entities.
    """
    recipes = recipes_page(store, 0, _RECIPES)
    tasks, _ = store.read(lambda connection: list_tasks(connection, 0, 0))
    return {
        "runs": _recent_runs(store),
        "tests": _failing_tests(store),
        "changes": latest_changes(store),
        "recipes": recipes,
        "tasks": tasks,
    }


def _recent_runs(store: Store) -> Listing:
    """Return the newest models that have the status of a run, each with a metric that most have."""
    with_status = Criterion("status", condition=Condition.EXISTS)
    request = replace(newest("mlModel", 0, _RUNS), any_of=((with_status,),))
    rows = rows_of(store, [hit.urn for hit in store.search(request).hits])
    pages = store.related_entities(
        [row.urn for row in rows], ["MemberOf"], Direction.OUTGOING, count=1
    )
    groups = {urn: page.entities[0].urn for urn, page in pages.items() if page.entities}
    names = names_of(store, list(groups.values()))
    links = {urn: Piece(names[group], entity_href(group)) for urn, group in groups.items()}
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
