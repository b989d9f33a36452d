"""The models of a group as a table: filtered, sorted, with chosen columns, a chart and an export.

The address holds the view: `filter` in the language of the search box, `sort` (`-` before it
reverses), `best` once for each metric whose best values the reader chose (the order with these
first), `show` once for each column (`*` for all), `chart` over `over` in the colours of `colour`,
`open` once for each parent whose child runs are shown, `start`. Of an address without `show` the
columns are those that the browser keeps for the group.
"""

import csv
import difflib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import orjson
from sqlalchemy import exists, select
from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.schema.tables import entity
from mlcat_ingest.catalog.search.fields import DURATION as DURATION_MS
from mlcat_ingest.catalog.search.fields import field_name
from mlcat_ingest.catalog.search.language import combine, read_query
from mlcat_ingest.catalog.search.numbers import Holders, contents, equal_values
from mlcat_ingest.catalog.search.pages import STAGE_TAG
from mlcat_ingest.catalog.search.request import Criterion, SearchRequest, SortKey
from mlcat_ingest.catalog.search.search import unknown_number
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.chart import STATUS, Chart, draw
from mlcat_ingest.catalog.web.ui.children import models_of_group, nested_rows
from mlcat_ingest.catalog.web.ui.directions import METRICS, Better, Directions
from mlcat_ingest.catalog.web.ui.lists import (
    ALIAS,
    CREATED,
    DESCRIPTION,
    DURATION,
    KIND,
    MAKER,
    MOST_METRICS,
    NAME,
    NEWEST_FIRST,
    PAGE_ROWS,
    RUN_STATE,
    STAGE,
    TESTS,
    ListColumn,
    Listing,
    ListRow,
    model_rows,
    names_of,
    page_directions,
    pager,
    rows_of,
    value_column,
    value_of,
)
from mlcat_ingest.catalog.web.ui.text import entity_href
from mlcat_ingest.core.paging import chunks
from mlcat_ingest.metadata.aspects import GLOBAL_TAGS, OWNERSHIP

EXPORTS: Final = {"csv": "text/csv", "json": "application/json"}
"""Formats of an export, with their media types."""

_EXPORT_ROWS: Final = 200
"""Rows of an export that are in memory at a time, and sent as one piece."""

_EXPORT_HITS: Final = 5_000
"""Models that one search of an export finds: each search walks through all of them."""

_FORMULA: Final = (*"=+-@\t\r\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Beginnings of what spreadsheets take for a formula, those of full width among them."""

# In many countries a semicolon separates the cells.
_NEXT_FORMULA: Final = re.compile(f';(?=["\\s]*[{re.escape("".join(_FORMULA))}])')

EVERY: Final = "*"
"""What stands for all columns."""

_MOST_NAMED: Final = 100
"""Most columns, and most of the rest, that an address names: every heading repeats them."""

_MOST_PARAMETERS: Final = 3
"""Most parameters that the table has columns for if nobody chose any."""


@dataclass(frozen=True, slots=True)
class _Fact:
    """A column beside metrics and parameters, and what an export has in it.

    `sort` is the order that its heading leads to first; without one it has no order.
    """

    column: ListColumn
    text: Callable[[ListRow], str]
    sort: str = ""


_FACTS: Final[Mapping[str, _Fact]] = {
    "alias": _Fact(ALIAS, lambda row: ", ".join(row.aliases), "alias"),
    "stage": _Fact(STAGE, lambda row: row.stage, "stage"),
    "run": _Fact(MAKER, lambda row: row.maker.name if row.maker else ""),
    "status": _Fact(RUN_STATE, lambda row: f"{row.status} {row.trial}".strip(), "status"),
    DURATION_MS: _Fact(DURATION, lambda row: row.duration_ms, f"-{DURATION_MS}"),
    "started": _Fact(replace(CREATED, title="Started"), lambda row: row.created, "-started"),
    "created": _Fact(CREATED, lambda row: row.created, "-created"),
    "owner": _Fact(
        ListColumn("Owner", lambda row: row.owners, "links"),
        lambda row: ", ".join(name for name, _ in row.owners),
        "owner",
    ),
    "tests": _Fact(
        TESTS, lambda row: ", ".join(f"{one} {side}" for side, one in row.results.items()), "-tests"
    ),
    "kind": _Fact(KIND, lambda row: row.kind, "kind"),
    "description": _Fact(DESCRIPTION, lambda row: row.description),
}
"""The columns that a group may have, in their order; those of metrics come before the tests."""

_SORTABLE: Final = {
    "",
    "name",
    "lastModified",
    *(name for name, fact in _FACTS.items() if fact.sort),
}
_AFTER_METRICS: Final = ("tests", "kind", "description")
_FACETS: Final = ("status", "owners", "version", "aliases", "tags", "typeNames")
_PARAMETERS: Final = "params."
_STAGES: Final = ("production", "staging", "archived")
_SORTED_BY: Final = {
    "alias": "aliases",
    "started": "created",
    "owner": "owners",
    "kind": "typeNames",
}
"""Fact to the field of the search index that has its order, where that has another name."""


@dataclass(frozen=True, slots=True)
class RunsView:
    """What a reader asked to see of the models of a group, as the address has it.

    `kept` are the columns that the browser keeps for an address without any.
    """

    urn: str
    filter: str = ""
    sort: str = ""
    columns: tuple[str, ...] = ()
    chart: str = ""
    over: str = "created"
    start: int = 0
    opened: tuple[str, ...] = ()
    best: tuple[str, ...] = ()
    colour: str = STATUS
    kept: tuple[str, ...] = ()

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
            tuple(dict.fromkeys(query.getlist("open")))[-_MOST_NAMED:],
            tuple(dict.fromkeys(query.getlist("best")))[-_MOST_NAMED:],
            query.get("colour", "") or STATUS,
            tuple(dict.fromkeys(query.getlist("kept"))),
        )

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The parameters of the address, but for the place in the list."""
        given = [("filter", self.filter), ("sort", self.sort)]
        given += [("best", order) for order in self.best]
        given += [("show", column) for column in self.columns]
        given += [("chart", self.chart), ("over", "" if self.over == "created" else self.over)]
        given += [("colour", "" if self.colour == STATUS else self.colour)]
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
        if field not in _SORTABLE and field_name(field).name is None:
            raise BadRequestError(f"sort: no column `{field}`")
        own = (Criterion("groups", (self.urn,)),)
        chosen = SortKey(_SORTED_BY.get(field, field), self.sort.startswith("-"))
        return SearchRequest(
            words,
            any_of=combine(any_of or ((),), (own,)),
            sort=(chosen, *NEWEST_FIRST) if field else NEWEST_FIRST,
            start=self.start,
            count=count,
            highlight=False,
        )


@dataclass(frozen=True, slots=True)
class _Columns:
    """The columns of a group by name, such as `status` and `metrics.auc`, and the shown ones.

    They depend on what its models have and on the reader's choice, not on the shown rows. `equal`
    are the parameters of which all models that have one have the same value, `total` the models.
    """

    facts: Sequence[str]
    numbers: Mapping[str, Holders]
    equal: Mapping[str, str]
    shown: Sequence[str]
    total: int

    @classmethod
    def of(cls, store: Store, view: RunsView) -> "_Columns":
        """Return those of a view.

        Cost: two walks through the models of the group, four where parameters are equal.
        """
        whole = RunsView(view.urn).request(0)
        found = store.read(contents, whole, _FACETS)
        numbers, values = found.numbers, found.values
        is_test = exists(select(entity.c.id).where(entity.c.entity_type == "test"))
        versions = any(map(str.isdecimal, values["version"]))
        has = {
            "alias": bool(values["aliases"]),
            "run": versions,
            "started": not versions,
            "created": versions,
            "description": found.described,
            "stage": any(tag.startswith(STAGE_TAG) for tag in values["tags"]),
            "status": bool(values["status"]),
            DURATION_MS: DURATION_MS in numbers,
            "owner": bool(values["owners"]),
            "tests": store.read(lambda sql: sql.scalar(select(is_test))),
            "kind": len(values["typeNames"]) > 1,
        }
        facts = [fact for fact in _FACTS if has[fact]]
        parameters = [name for name in numbers if name.startswith(_PARAMETERS)]
        equal = store.read(equal_values, whole, parameters) if parameters else {}
        first = [name for name in facts if name not in _AFTER_METRICS]
        last = ("tests", "description")
        usual = [name for name in _usual(numbers) if name not in equal]
        counts = ((METRICS, MOST_METRICS), (_PARAMETERS, _MOST_PARAMETERS))
        most = [[name for name in usual if name.startswith(of)][:most] for of, most in counts]
        columns = view.columns or view.kept or (*first, *chain(*most), *last)
        every = dict.fromkeys((*facts, *numbers))
        wanted = (view.sort_field, *(every if EVERY in columns else columns))
        shown = [name for name in dict.fromkeys(wanted) if name in every]
        holders = list(dict.fromkeys(holder for _, holder in equal.values()))
        numbers_of = {row.urn: row.numbers for row in rows_of(store, holders)}
        texts = {
            name: numbers_of[holder].get(name, str(value))
            for name, (value, holder) in sorted(equal.items())
        }
        return cls(facts, numbers, texts, shown, found.total)

    def unknown(self, view: RunsView) -> str:
        """Return a sentence about the first column of a view that there is not; "" for none."""
        known = [*self.facts, *self.numbers]
        named = (view.sort_field, *view.columns, view.chart, view.over, view.colour)
        for name in named:
            if name not in {*known, *_SORTABLE, *_FACTS, EVERY}:
                near = difflib.get_close_matches(name, known, n=1)
                meant = f"; did you mean `{near[0]}`?" if near else ""
                return f"No model here has `{name}`{meant}"
        return ""

    @property
    def choices(self) -> list[tuple[str, str, bool]]:
        """All columns with their labels, and whether they are shown; these first."""
        shown = dict.fromkeys(self.shown, True)
        chosen = shown | {name: name in shown for name in (*self.facts, *self.numbers)}
        labels = {name: fact.column.title for name, fact in _FACTS.items()}
        return [(name, labels.get(name, name), is_shown) for name, is_shown in chosen.items()]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsTable:
    """The models of a group as a table."""

    view: RunsView
    problem: Annotated[str, "what is wrong with the filter, the order or the columns"]
    choices: Annotated[Sequence[tuple[str, str, bool]], "all columns, labels; true if shown"]
    numbers: Annotated[Sequence[str], "what a chart may be of"]
    equal: Annotated[Sequence[tuple[str, str]], "parameters that are equal in all models"]
    total: Annotated[int, "how many models have these; 0 if some of the group lack one"]
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

    Cost: four walks through the models of the group, two for the chart; some twenty SQL statements.
    """
    columns = _Columns.of(store, view)
    problem = columns.unknown(view)
    if len(view.columns) > _MOST_NAMED:
        every = len(columns.shown) == len(columns.choices)
        if len(columns.shown) > _MOST_NAMED and not every:
            columns = replace(columns, shown=columns.shown[:_MOST_NAMED])
            problem = f"Only the first {_MOST_NAMED} columns are shown; choose all, or fewer."
        view = replace(view, columns=(EVERY,) if every else tuple(columns.shown))
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
        if not total:
            problem = store.read(unknown_number, request.any_of) or problem
        chart = _chart(store, view, request, columns) if total else None
    except BadRequestError as error:
        problem, chart = error.message, None
    at_root = sum(not row.depth for row in rows)
    directions = page_directions(store, view.best, [group], rows)
    rows = _owned(store, _version_rows(store, rows, group))
    name = replace(NAME, show="choice" if total > 1 else "entity")
    by = view.sort_field if view.sort_field in columns.numbers else ""
    is_whole = all(columns.numbers[name].all == columns.total for name in columns.equal)
    return RunsTable(
        view=view,
        problem=problem,
        choices=columns.choices,
        numbers=[*columns.numbers],
        equal=[(name.removeprefix(_PARAMETERS), text) for name, text in columns.equal.items()],
        total=columns.total if is_whole else 0,
        listing=Listing(
            rows,
            (
                _sorting(view, "name", name, "name"),
                *(_column(view, name, directions, rows) for name in columns.shown),
            ),
            pager(total, view.start, at_root, lambda at: view.href(start=str(at))),
        ),
        sorted=by if by.startswith(METRICS) else "",
        direction=directions.of(view.sort_field),
        at_first=any(chart and chart.y in row.first for row in rows),
        chart=chart,
        exports=[
            (f"{label}{kind.upper()}", view.href(export=kind, **shown))
            for label, shown in (("", {}), ("all columns as ", {"show": EVERY}))
            for kind in EXPORTS
        ],
    )


def _version_rows(
    store: Store, rows: Sequence[ListRow], group: Mapping[str, Any]
) -> Sequence[ListRow]:
    """Return `rows` with aliases and stage of those that are registered versions.

    They do not repeat the description of their `group`, which has these properties.

    Cost: one SQL statement if there are any.
    """
    if all(row.maker is None for row in rows):
        return rows
    tags = store.get_many([row.urn for row in rows], {GLOBAL_TAGS})
    return [
        replace(
            row,
            aliases=tuple(mark.rpartition("@")[2] for mark in row.marks if "@" in mark),
            marks=tuple(mark for mark in row.marks if "@" not in mark),
            stage=_stage(tags.get(row.urn, {})),
            description="" if row.description == group.get("description") else row.description,
        )
        for row in rows
    ]


def _stage(aspects: Mapping[str, Any]) -> str:
    tags = value_of(aspects, GLOBAL_TAGS).get("tags")
    named = {str(entry.get("tag")).removeprefix(STAGE_TAG) for entry in tags or ()}
    return next((stage.capitalize() for stage in _STAGES if stage in named), "")


def _owned(store: Store, rows: Sequence[ListRow]) -> list[ListRow]:
    """Return `rows` with their owners.

    Cost: two SQL statements.
    """
    stored = store.get_many([row.urn for row in rows], {OWNERSHIP})
    owners = {
        urn: [entry["owner"] for entry in value_of(aspects, OWNERSHIP).get("owners") or ()]
        for urn, aspects in stored.items()
    }
    names = names_of(store, list(dict.fromkeys(chain(*owners.values()))))
    return [
        replace(
            row,
            owners=tuple((names[owner], entity_href(owner)) for owner in owners.get(row.urn, ())),
        )
        for row in rows
    ]


def _usual(names: Mapping[str, Holders]) -> list[str]:
    """Return metrics and parameters, first those that most models have that are no child runs.

    The others are only in a list that is sorted, filtered or unfolded.
    """
    return sorted(names, key=lambda name: (-names[name].outer, -names[name].all, name))


def _sorting(view: RunsView, name: str, column: ListColumn, first: str) -> ListColumn:
    """Return a column whose heading sorts by it, `first` this way, then the other."""
    if view.sort_field != name:
        return replace(column, href=view.href(sort=first))
    descending = view.sort.startswith("-")
    return replace(
        column,
        href=view.href(sort=name if descending else f"-{name}"),
        order="descending" if descending else "ascending",
    )


def _column(
    view: RunsView, name: str, directions: Directions, rows: Sequence[ListRow]
) -> ListColumn:
    """Return the column of a name; that of a metric marks the best values of a list with them."""
    if name in _FACTS:
        column, sort = _FACTS[name].column, _FACTS[name].sort
        return _sorting(view, name, column, sort) if sort else column
    direction = directions.of(name)
    if direction is None and not name.startswith(METRICS):
        return _sorting(view, name, value_column(name), name)
    first = f"-{name}" if direction is None else direction.sort(name)
    column = _sorting(view, name, value_column(name), first)
    if view.sort_field != name:
        return column if direction else replace(column, other_href=view.href(sort=name))
    at_best = direction is not None and first == view.sort and not view.start
    finals = {row.urn: float(row.numbers[name]) for row in rows if row.may_be_best(name)}
    best = next(iter(finals.values()), None) if at_best else None

    def cell(row: ListRow) -> tuple[str, str]:
        is_best = best is not None and finals.get(row.urn) == best
        return row.shown(name), str(direction) if is_best else ""

    return replace(column, cell=cell, show="compared")


def _chart(store: Store, view: RunsView, request: SearchRequest, columns: _Columns) -> Chart | None:
    """Return the chart that the reader asked for, or else of the first metric in the list."""
    asked = (view.chart, view.sort_field, *(name for name in columns.shown if name not in _FACTS))
    y = next((name for name in asked if name in columns.numbers), None)
    if y is None:
        return None
    x = view.over if field_name(view.over).name is not None else "created"
    chart = draw(store, request, y, x, view.colour)
    # A chart of one moment that nobody asked for says nothing; one that is left out says why.
    return chart if view.chart or chart.undrawn or len(chart.across) > 1 else None


def export(store: Store, view: RunsView, kind: str) -> Iterator[str]:
    """Yield all models of a view as CSV (RFC 4180) or JSON, with the shown columns, in pieces.

    Raises:
        BadRequestError: the filter or the order is not understood, with the first piece.

    Cost: a search for each 5,000 models, and five SQL statements for each 200.
    """
    return map("".join, chunks(_lines(store, view, kind), _EXPORT_ROWS))


def _lines(store: Store, view: RunsView, kind: str) -> Iterator[str]:
    columns = _Columns.of(store, view).shown
    rows = _exported(store, view, columns)
    heads = ("urn", "name", *columns)
    if kind == "json":
        yield "["
        for at, row in enumerate(rows):
            values = {head: _json_value(head, row.get(head, "")) for head in heads}
            yield ",\n" * (at > 0) + orjson.dumps(values).decode()
        yield "]\n"
        return
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(map(_cell, heads))
    for row in rows:
        writer.writerow(_cell(row.get(head, "")) for head in heads)
        yield buffer.getvalue()
        buffer.seek(0)
        buffer.truncate()
    yield buffer.getvalue()


def _exported(store: Store, view: RunsView, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    facts = {name: _FACTS[name].text for name in columns if name in _FACTS}
    after: str | None = None
    while True:
        request = RunsView(view.urn, view.filter, view.sort).request(_EXPORT_HITS)
        page = store.search(replace(request, scroll=True, after=after))
        for urns in chunks((hit.urn for hit in page.hits), _EXPORT_ROWS):
            for row in _owned(store, _version_rows(store, model_rows(store, urns), {})):
                numbers = {name: row.numbers[name] for name in columns if name in row.numbers}
                texts = {name: text(row) for name, text in facts.items()}
                yield {"urn": row.urn, "name": row.name} | texts | numbers
        after = page.next_scroll
        if after is None:
            return


def _json_value(name: str, text: str) -> object:
    """Return a value as JSON has it; a metric that is no finite number stays a text."""
    if name.startswith(METRICS) or name == DURATION_MS:
        with suppress(ValueError):
            return orjson.loads(text)
    return text or None


def _cell(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    try:
        float(text)
    except ValueError:
        text = _NEXT_FORMULA.sub(";'", text)
        return f"'{text}" if text.startswith(_FORMULA) else text
    return text
