"""The latest activity, for the first page: runs, failing metadata tests, ingestions and tasks."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from mlcat_ingest.catalog.schema.values import Direction
from mlcat_ingest.catalog.search.request import Condition, Criterion
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.tasks import list_tasks
from mlcat_ingest.catalog.web.ui.facts import Piece
from mlcat_ingest.catalog.web.ui.ingestion import recipes_page
from mlcat_ingest.catalog.web.ui.lists import (
    PAGE_ROWS,
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


@dataclass(frozen=True, slots=True)
class RecentRun:
    """A run with its group, and the name and value of one metric, one that most runs here have."""

    row: ListRow
    group: Piece | None
    metric: tuple[str, str] | None


def activity(store: Store) -> Mapping[str, object]:
    """Return the latest runs, the failing tests, the latest run of each recipe, and the tasks.

    Of the tests the `PAGE_ROWS` newest are looked at.

    Cost: some thirty SQL statements, whatever the number of entities.
    """
    recipes = recipes_page(store, 0, _RECIPES)
    tasks, _ = store.read(lambda connection: list_tasks(connection, 0, 0))
    return {
        "runs": list(_recent_runs(store)),
        "tests": list(_failing_tests(store)),
        "recipes": recipes,
        "tasks": tasks,
    }


def _recent_runs(store: Store) -> Iterator[RecentRun]:
    """Yield the newest models that have the status of a run."""
    with_status = Criterion("status", condition=Condition.EXISTS)
    request = replace(newest("mlModel", 0, _RUNS), any_of=((with_status,),))
    rows = rows_of(store, [hit.urn for hit in store.search(request).hits])
    pages = store.related_entities(
        [row.urn for row in rows], ["MemberOf"], Direction.OUTGOING, count=1
    )
    groups = {urn: page.entities[0].urn for urn, page in pages.items() if page.entities}
    names = names_of(store, list(groups.values()))
    metrics = Counter(name for row in rows for name in _metrics(row))

    def rank(name: str) -> tuple[bool, int, str]:
        return _OF_MACHINE.search(name) is not None, -metrics[name], name

    for row in rows:
        group = groups.get(row.urn)
        main = min(_metrics(row), key=rank, default=None)
        yield RecentRun(
            row,
            None if group is None else Piece(names[group], entity_href(group)),
            None if main is None else (main.removeprefix(_METRICS), row.shown(main)),
        )


def _metrics(row: ListRow) -> Iterable[str]:
    return [name for name in row.numbers if name.startswith(_METRICS)]


def _failing_tests(store: Store) -> Iterator[tuple[Piece, str, str]]:
    """Yield the tests that fail on most entities: name, failing and passing entities."""
    tests: Sequence[str] = [hit.urn for hit in store.search(newest("test", 0, PAGE_ROWS)).hits]
    counts = outcome_counts(store, tests)
    failing = sorted((urn for urn in tests if counts[urn][0]), key=lambda urn: -counts[urn][0])
    names = names_of(store, failing[:_TESTS])
    for urn, name in names.items():
        failed, passed = counts[urn]
        yield Piece(name, entity_href(urn, tab="failing")), counted(failed), counted(passed)
