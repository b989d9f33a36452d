"""How SQLite goes about a search, which decides whether it takes milliseconds or minutes."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from sqlalchemy import event

from benchmarks.catalog_entities import mixed
from mlcat_ingest.catalog.schema.values import Write
from mlcat_ingest.catalog.search.language import read_query
from mlcat_ingest.catalog.search.request import Condition, Criterion, SearchRequest, SortKey
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.lists import newest
from support.catalog_store import open_store

ABOVE = Criterion("metrics.metric_00", ("0.5",), Condition.GREATER_THAN)
ON_MLFLOW = Criterion("platform", ("mlflow",))
NAMED = Criterion("name", ("ban",), Condition.CONTAIN)


def plan_of(store: Store, request: SearchRequest, about: str = "search_fts") -> list[str]:
    """Return the steps of all statements of a search that name such tables."""
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_rest: Any) -> None:
        seen.append((statement, values))

    event.listen(store._engine, "before_cursor_execute", note)
    store.search(request)
    event.remove(store._engine, "before_cursor_execute", note)
    with store._engine.connect() as connection:
        return [
            step[3]
            for statement, values in seen
            if about in statement
            for step in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
        ]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with closing(open_store(tmp_path_factory.mktemp("catalog") / "c.db")) as opened:
        opened.write([Write(*aspect) for aspect in mixed(60)])
        yield opened


@pytest.mark.parametrize("few", [0, 20_000])
@pytest.mark.parametrize("criteria", [(), (ABOVE,), (ON_MLFLOW,), (NAMED,), (ABOVE, NAMED)])
@pytest.mark.parametrize("sort", [(), (SortKey("name"),), (SortKey("metrics.metric_00"),)])
@pytest.mark.parametrize("scroll", [False, True])
def test_the_full_text_index_is_walked_once_and_not_for_every_hit(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    criteria: tuple[Criterion, ...],
    sort: tuple[SortKey, ...],
    *,
    scroll: bool,
) -> None:
    monkeypatch.setattr("mlcat_ingest.catalog.search.selection.FEW", few)
    monkeypatch.setattr("mlcat_ingest.catalog.search.pages.RANKED", few)
    request = SearchRequest(
        "ban dan", any_of=(criteria,), sort=sort, scroll=scroll, facets=("platform",)
    )
    steps = plan_of(store, request)
    assert any("VIRTUAL TABLE INDEX" in step for step in steps)
    # An `=` before the `M` of a match is a match made again for each id that something else gives.
    assert [step for step in steps if "VIRTUAL TABLE INDEX 0:=" in step] == []


def test_many_entities_are_in_the_order_of_lists_without_being_sorted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = newest("mlModel", 10, 20)
    of_few = store.search(request)
    monkeypatch.setattr("mlcat_ingest.catalog.search.selection.FEW", 0)
    steps = plan_of(store, request, about="search_entity")
    assert "SCAN search_entity USING COVERING INDEX search_entity_by_time" in steps
    assert not any("ORDER BY" in step for step in steps)
    assert store.search(request) == of_few


TABLES = r"SCAN (entity|edge|search_entity|search_figure)(_\d+)?\b"
SCANNING = (
    *("name:ban", "name:*ban", "-name:ban*", "urn:*ban", "-metrics.metric_00>0.5"),
    *(
        "created:17*",
        "lastModified<1",
        "group:*",
        "group:*001*",
        "-group:x",
        "-tests:failing",
        "feature:x*",
    ),
    *("tag:x OR metrics.metric_00>0.5", "name:ban platform!=mlflow"),
)
INDEXED = (
    *(
        "ban",
        "name:ban*",
        "name:b*n",
        "metrics.metric_00>0.5",
        "params.param_00=0.5",
        "urn:urn:li:mlModel*",
    ),
    *("group:experiment-001", "tag:x*", "-tag:x", "owner:*", "property:team=x", "description:ban"),
    *("created>1760000000500", "created>1760000000500 type:mlFeature"),
    *("type:mlFeature name:ban", "group:experiment-001 name:ban", "ban -group:x", "ban name:dan"),
    *("ban OR description:dan", "status:FAILED", "*"),
    *("alias:champion", "version:3", "tests:failing", "tests:*", "tests:failing name:ban"),
)


@pytest.mark.parametrize(
    ("text", "full_scan"),
    [*((text, True) for text in SCANNING), *((text, False) for text in INDEXED)],
)
@pytest.mark.parametrize("sort", [(), (SortKey("metrics.metric_00", descending=True),)])
def test_a_search_knows_whether_sqlite_reads_a_whole_table_for_it(
    store: Store, text: str, *, full_scan: bool, sort: tuple[SortKey, ...]
) -> None:
    words, any_of = read_query(text, strict=True)
    request = SearchRequest(words, any_of=any_of, sort=sort)
    steps = plan_of(store, request, about="search_")
    assert any(re.match(TABLES, step) for step in steps) is full_scan
    assert store.search(request).full_scan is full_scan
