"""The models of a group as a table: filtered, sorted, with chosen columns, a chart and an export.

The address holds the view: `filter` in the language of the search box, `sort` (`-` before it
reverses), `best` once for each metric whose best values the reader chose (the order with these
first), `show` once for each column, `chart` over `over`, `open` once for each parent whose child
runs are shown, `start`.
"""

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import orjson
from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.search.fields import field_name
from mlcat_ingest.catalog.search.language import combine, read_query
from mlcat_ingest.catalog.search.numbers import POINTS, Holders, Point, numeric_names, points
from mlcat_ingest.catalog.search.request import Criterion, SearchRequest, SortKey
from mlcat_ingest.catalog.search.search import unknown_number
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.children import models_of_group, nested_rows
from mlcat_ingest.catalog.web.ui.directions import METRICS, Better, Directions
from mlcat_ingest.catalog.web.ui.lists import (
    MOST_METRICS,
    NEWEST_FIRST,
    PAGE_ROWS,
    ListColumn,
    Listing,
    ListRow,
    common_metrics,
    entity_columns,
    model_rows,
    page_directions,
    pager,
    value_column,
)
from mlcat_ingest.catalog.web.ui.text import entity_href, moment, short_number
from mlcat_ingest.catalog.web.ui.versions import version_rows

EXPORTS: Final = {"csv": "text/csv", "json": "application/json"}
"""Formats of an export, with their media types."""

_TIMES: Final = ("created", "lastModified")
_EXPORT_ROWS: Final = 500
_EXPORTED: Final = ("urn", "name", "status", "created", "duration_ms")
"""What an export has of a row before its metrics and parameters."""

_WIDTH, _HEIGHT, _MARGIN = 720, 110, 10
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True, slots=True)
class RunsView:
    """What a reader asked to see of the models of a group, as the address has it."""

    urn: str
    filter: str = ""
    sort: str = ""
    columns: tuple[str, ...] = ()
    chart: str = ""
    over: str = "created"
    start: int = 0
    opened: tuple[str, ...] = ()
    best: tuple[str, ...] = ()

    @classmethod
    def of(cls, urn: str, query: QueryParams, start: int) -> "RunsView":
        """Return the view of an address."""
        return cls(
            urn,
            query.get("filter", "").strip(),
            query.get("sort", ""),
            tuple(dict.fromkeys(query.getlist("show"))),
            query.get("chart", ""),
            query.get("over", "") or "created",
            start,
            tuple(dict.fromkeys(query.getlist("open"))),
            tuple(dict.fromkeys(query.getlist("best"))),
        )

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The parameters of the address, but for the place in the list."""
        given = [("filter", self.filter), ("sort", self.sort)]
        given += [("best", order) for order in self.best]
        given += [("show", column) for column in self.columns]
        given += [("chart", self.chart), ("over", "" if self.over == "created" else self.over)]
        given += [("open", urn) for urn in self.opened]
        return [(name, value) for name, value in given if value]

    def href(self, **changes: str) -> str:
        """Return the address of this view with other values of some parameters."""
        kept = [(name, value) for name, value in self.fields if name not in changes]
        query = urlencode([*kept, *changes.items()], errors="replace")
        return f"{entity_href(self.urn)}?{query}" if query else entity_href(self.urn)

    def folded(self, row: ListRow) -> ListRow:
        """Return the row of a parent with the address that shows or hides its child runs."""
        if not row.children or row.depth:
            return row
        others = tuple(urn for urn in self.opened if urn != row.urn)
        opened = row.urn in self.opened
        view = replace(self, opened=others if opened else (*others, row.urn))
        place = {"start": str(self.start)} if self.start else {}
        return replace(row, fold_href=view.href(**place), opened=opened)

    def choosing(self, order: str) -> str:
        """Return the address of the list in this order, the first value of which is the best."""
        others = (one for one in self.best if one.lstrip("-") != order.lstrip("-"))
        return replace(self, sort=order, best=(*others, order)).href()

    @property
    def cleared(self) -> str:
        """The address of this view without filter and order."""
        return replace(self, filter="", sort="", best=()).href()

    @property
    def sort_field(self) -> str:
        """The field that the list is sorted by; empty for the newest first."""
        return self.sort.removeprefix("-")

    def request(self, count: int = PAGE_ROWS) -> SearchRequest:
        """Return the search for the rows of this view.

        Raises:
            BadRequestError: the filter or the order is not understood.
        """
        words, any_of = read_query(self.filter, strict=True)
        field = self.sort_field
        if field and field not in {"name", *_TIMES} and field_name(field).name is None:
            raise BadRequestError(f"sort: no column `{field}`")
        own = (Criterion("groups", (self.urn,)),)
        return SearchRequest(
            words,
            any_of=combine(any_of or ((),), (own,)),
            sort=(SortKey(field, self.sort.startswith("-")),) if field else NEWEST_FIRST,
            start=self.start,
            count=count,
            highlight=False,
        )


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """One model in a chart."""

    href: str
    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class Chart:
    """A metric over the time, or over another metric or parameter."""

    y: Annotated[str, "the metric, such as `metrics.auc`"]
    x: Annotated[str, "what it is drawn over: `created`, a metric or a parameter"]
    points: Annotated[Sequence[ChartPoint], "in a rectangle of `width` and `height`"]
    low: str
    high: str
    left: str
    right: str
    omitted: Annotated[int, "how many of the oldest models have no point"]
    width: int = _WIDTH
    height: int = _HEIGHT


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsTable:
    """The models of a group as a table."""

    view: RunsView
    problem: Annotated[str, "what is wrong with the filter or the order"]
    names: Annotated[Sequence[tuple[str, bool]], "all metrics and parameters; true if shown"]
    listing: Listing
    sorted: Annotated[str, "the metric that the list is sorted by"]
    direction: Annotated[Better | None, "which of its values are better, where that is known"]
    at_first: Annotated[bool, "whether some values in the chart are of the first step"]
    chart: Chart | None
    exports: Annotated[Sequence[tuple[str, str]], "formats with their addresses"]


def runs_table(store: Store, view: RunsView, group: Mapping[str, Any]) -> RunsTable:
    """Return the table of the models of a group, which has these properties.

    Child runs are below their parents where the list is neither filtered nor sorted: hidden, unless
    the view opens them.

    Cost: two walks through the models of the group, two for the chart; a dozen SQL statements.
    """
    names = store.read(lambda sql: numeric_names(sql, RunsView(view.urn).request()))
    # What the list is sorted by is shown first.
    wanted = dict.fromkeys((view.sort_field, *(view.columns or _usual(names)[:MOST_METRICS])))
    shown = [name for name in wanted if name in names]
    problem = ""
    rows: Sequence[ListRow] = ()
    total = 0
    try:
        request = view.request()
        if view.filter or view.sort:
            page = store.search(request)
            total = page.total
            rows = model_rows(store, [hit.urn for hit in page.hits])
        else:
            roots = models_of_group(store, view.urn, view.start, PAGE_ROWS)
            total = roots.total
            rows = [view.folded(row) for row in nested_rows(store, roots.urns, view.opened)]
        shown = shown or common_metrics(rows)
        if not total:
            any_of = request.any_of
            problem = store.read(lambda sql: unknown_number(sql, any_of))
        chart = _chart(store, view, request, shown)
    except BadRequestError as error:
        problem, chart = error.message, None
    at_root = sum(not row.depth for row in rows)
    directions = page_directions(store, view.best, [group], rows)
    direction = directions.of(view.sort_field)
    rows = version_rows(store, rows, group)
    columns = (_column(view, name, directions, rows) for name in shown)
    return RunsTable(
        view=view,
        problem=problem,
        names=[(name, name in shown) for name in names],
        listing=Listing(
            rows,
            entity_columns(rows, columns, selectable=total > 1),
            pager(total, view.start, at_root, lambda at: view.href(start=str(at))),
        ),
        sorted=view.sort_field if view.sort_field.startswith(METRICS) else "",
        direction=direction,
        at_first=any(chart and chart.y in row.first for row in rows),
        chart=chart,
        exports=[(kind.upper(), view.href(export=kind)) for kind in EXPORTS],
    )


def _usual(names: Mapping[str, Holders]) -> list[str]:
    """Return the metrics that most models have: first those of models that are no child runs.

    The others are only in a list that is sorted, filtered or unfolded.
    """
    metrics = (name for name in names if name.startswith(METRICS))
    return sorted(metrics, key=lambda name: (-names[name].outer, -names[name].all, name))


def _column(
    view: RunsView, name: str, directions: Directions, rows: Sequence[ListRow]
) -> ListColumn:
    """Return the column of a metric or parameter; it marks the best value of a list that has it."""
    column, direction = value_column(name), directions.of(name)
    if view.sort_field == name:
        descending = view.sort.startswith("-")
        first = direction is not None and direction.sort(name) == view.sort and not view.start
        best = next((row for row in rows if first and row.may_be_best(name)), None)
        return replace(
            column,
            cell=lambda row: (row.shown(name), str(direction) if row is best else ""),
            show="compared",
            href=view.href(sort=name if descending else f"-{name}"),
            order="descending" if descending else "ascending",
        )
    if direction is not None:
        return replace(column, href=view.href(sort=direction.sort(name)))
    if not name.startswith(METRICS):
        return replace(column, href=view.href(sort=name))
    return replace(column, href=view.href(sort=f"-{name}"), other_href=view.href(sort=name))


def _chart(
    store: Store, view: RunsView, request: SearchRequest, columns: Sequence[str]
) -> Chart | None:
    """Return the chart of a metric over the time, or over another metric or parameter."""
    metrics = [name for name in (view.chart, view.sort_field, *columns) if name]
    y = next((name for name in metrics if field_name(name).name is not None), None)
    if y is None:
        return None
    x = view.over if field_name(view.over).name is not None else "created"
    total, found = store.read(lambda sql: points(sql, request, y, x))
    finite = [one for one in found if math.isfinite(one.x) and math.isfinite(one.y)]
    if not finite:
        return None
    left, right = min(one.x for one in finite), max(one.x for one in finite)
    low, high = min(one.y for one in finite), max(one.y for one in finite)
    if left == right and not view.chart:
        return None  # runs of one moment: a chart that nobody asked for says nothing
    label = moment if x == "created" else _number
    return Chart(
        y=y,
        x=x,
        points=[_circle(one, (left, right), (low, high), y) for one in finite],
        low=_number(low),
        high=_number(high),
        left=label(left),
        right=label(right),
        omitted=total - POINTS if total > POINTS else 0,
    )


def _circle(
    point: Point, across: tuple[float, float], up: tuple[float, float], y: str
) -> ChartPoint:
    return ChartPoint(
        entity_href(point.urn),
        _at(point.x, across, _WIDTH),
        round(_HEIGHT - _at(point.y, up, _HEIGHT), 1),
        f"{y.partition('.')[2]} {_number(point.y)}",
    )


def _at(value: float, ends: tuple[float, float], length: int) -> float:
    """Return the place of a value on an axis of this length; the middle if all are equal."""
    low, high = ends
    part = (value - low) / (high - low) if high > low else 0.5
    return round(_MARGIN + part * (length - 2 * _MARGIN), 1)


def _number(value: float) -> str:
    return short_number(str(value))


def export(store: Store, view: RunsView, kind: str) -> Iterator[str]:
    """Yield all models of a view as CSV or JSON: the chosen columns, or else every one.

    Raises:
        BadRequestError: the filter or the order is not understood, with the first piece.

    Cost: a search for each 500 models.
    """
    names = store.read(lambda sql: numeric_names(sql, RunsView(view.urn).request()))
    columns = view.columns or tuple(names)
    rows = _exported(store, view, columns)
    if kind == "json":
        yield "["
        for at, row in enumerate(rows):
            yield ",\n" * (at > 0) + orjson.dumps(row).decode()
        yield "]\n"
        return
    heads = (*_EXPORTED, *columns)
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(map(_cell, heads))
    for row in rows:
        writer.writerow(_cell(row.get(head, "")) for head in heads)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _exported(store: Store, view: RunsView, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    after: str | None = None
    while True:
        request = RunsView(view.urn, view.filter, view.sort).request(_EXPORT_ROWS)
        page = store.search(replace(request, scroll=True, after=after))
        for row in model_rows(store, [hit.urn for hit in page.hits]):
            numbers = {name: row.numbers[name] for name in columns if name in row.numbers}
            yield {name: getattr(row, name) for name in _EXPORTED} | numbers
        after = page.next_scroll
        if after is None:
            return


def _cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    try:
        float(text)
    except ValueError:
        return f"'{text}" if text.startswith(_FORMULA) else text
    return text
