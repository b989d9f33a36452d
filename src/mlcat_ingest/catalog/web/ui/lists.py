"""Lists of entities: their rows, pages and queries, and a list a kind."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import func, literal, select, true, union_all
from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import ColumnElement

from mlcat_ingest.catalog.schema.tables import edge, entity, searched
from mlcat_ingest.catalog.schema.values import AspectVersion, UrnPage
from mlcat_ingest.catalog.schema.virtual import DEFAULT_STEP, Identity
from mlcat_ingest.catalog.search.pages import ADDED
from mlcat_ingest.catalog.search.predicates import NOWHERE, matching, resolve
from mlcat_ingest.catalog.search.request import Condition, Criterion, SearchRequest, SortKey
from mlcat_ingest.catalog.store.reads import marked_removed
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.directions import TRIAL_NUMBER, Directions
from mlcat_ingest.catalog.web.ui.markdown import plain_line
from mlcat_ingest.catalog.web.ui.text import (
    KIND_LABELS,
    Rounded,
    created_at,
    duration,
    entity_href,
    entity_type,
    is_finite,
    is_visible,
    kind_href,
    kind_name,
    moment,
    rounded,
    scalar,
    subtype_name,
)
from mlcat_ingest.core.text import json_or_none
from mlcat_ingest.metadata.aspects import (
    BROWSE_PATHS_V2,
    DATAHUB_EXECUTION_REQUEST_INPUT,
    STATUS,
    SUB_TYPES,
    TEST_RESULTS,
    VERSION_SET_PROPERTIES,
)
from mlcat_ingest.metadata.mlflow_keys import (
    ALIASES,
    PARENT_RUN,
    PROMPT_DESCRIPTION,
    RUN_DURATION,
    RUN_ID,
    RUN_MODEL,
    RUN_STATUS,
    VERSIONS,
)
from mlcat_ingest.metadata.registry import ENTITY_TYPES

PAGE_ROWS: Final = 50
"""How many rows a page of a list has."""

COUNTED: Final = 1_000
"""Most failing, and most passing, entities of a test that lists count."""

NEWEST_FIRST: Final = (SortKey("created", descending=True), SortKey(ADDED, descending=True))
"""The order of lists that nobody has sorted."""

PROPERTIES: Final = {
    name: kind.properties
    for name, kind in ENTITY_TYPES.items()
    if kind.shows_properties and kind.properties is not None
}
"""Entity type to the aspect that has its name and description."""

_SHOWN: Final = frozenset(
    {
        *PROPERTIES.values(),
        *(BROWSE_PATHS_V2, STATUS, SUB_TYPES, TEST_RESULTS, VERSION_SET_PROPERTIES),
        DATAHUB_EXECUTION_REQUEST_INPUT,
    }
)
_CLI_RECIPE: Final = re.compile(r"\[CLI\] .*\[(?P<recipe>[^\[\]]+)\]")
"""The name that DataHub's command line, and ours, give to the ingestion source of a recipe."""

_COMPLETE: Final = frozenset({"", "FINISHED"})
_UNSUCCESSFUL: Final = frozenset({"FAIL", "PRUNED", "RUNNING", "WAITING"})
_WIDEST: Final = 40
"""Characters of a parameter that a list shows; the rest is one hover away."""

_FIRST_STEP: Final = "step 0"
"""The description of a metric of that step, which a version often has."""

MOST_METRICS: Final = 4
"""Most metrics that lists have columns for if nobody chose any."""

Aspects = Mapping[str, AspectVersion]


@dataclass(frozen=True, slots=True)
class ListRow:
    """One entity of a list. `ingested` is false where it is only referred to.

    `place` tells apart entities of one name: instance, workspace, experiment. A child run follows
    its parent at `depth` 1; `children` counts the child runs of the entity itself, which the page
    at `fold_href` shows, or hides if they are `opened`. `results` are the numbers of metadata tests
    by their outcome. `numbers` are the metrics and parameters as stored, by names such as
    `metrics.auc`, and `first` those of a version that it has of the first step; `marks` are
    registered versions and aliases. `maker` is the run of a registered version, and `tables` are
    names and addresses of the feature tables of a feature, as `owners` are of owners.
    """

    urn: str
    href: str
    name: str
    kind: str
    platform: str
    description: str = ""
    ingested: bool = True
    removed: bool = False
    data_type: str = ""
    created: str = ""
    results: Mapping[str, int] = field(default_factory=dict)
    place: str = ""
    depth: int = 0
    children: int = 0
    fold_href: str = ""
    opened: bool = False
    custom: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[str, ...] = ()
    numbers: Mapping[str, str] = field(default_factory=dict)
    first: tuple[str, ...] = ()
    maker: "ListRow | None" = None
    aliases: tuple[str, ...] = ()
    stage: str = ""
    tables: tuple[tuple[str, str], ...] = ()
    owners: tuple[tuple[str, str], ...] = ()

    @property
    def status(self) -> str:
        """The status of the run, such as FINISHED."""
        return self.custom.get(RUN_STATUS, "")

    @property
    def duration_ms(self) -> str:
        """How long the run took, in milliseconds."""
        return self.custom.get(RUN_DURATION, "")

    @property
    def trial(self) -> str:
        """How the trial of an Optuna study ended, where its run is finished all the same."""
        return trial_of(self.custom)

    @property
    def is_complete(self) -> bool:
        """True unless the run, or that of a version, is known to have no final result."""
        made = self.maker is None or self.maker.is_complete
        return made and not self.trial and self.status in _COMPLETE

    def may_be_best(self, name: str) -> bool:
        """Return whether a value is final and finite, so that it may be the best of several."""
        return self.is_complete and not self._is_passed(name) and is_finite(self.numbers.get(name))

    def _is_passed(self, name: str) -> bool:
        """Return whether the run of a version is known for another value, or for none."""
        last = self.maker.numbers if self.maker is not None else {}
        return name in self.first and last.get(name) != self.numbers[name]

    def shown(self, name: str) -> Rounded:
        """Return a metric or parameter; that of the first step with the last one of the run."""
        value = rounded(self.numbers.get(name, ""))
        if not self._is_passed(name):
            return value
        last = rounded(self.maker.numbers.get(name, "") if self.maker is not None else "")
        return Rounded(
            f"{value} at {_FIRST_STEP}{last and f', last {last}'}",
            f"{value.full} at {_FIRST_STEP}{last and f', last {last.full}'}",
        )


@dataclass(frozen=True, slots=True)
class Pager:
    """The shown part of a list; `before` and `after` are addresses, None at the ends.

    `pages` are numbers with addresses: the first, the last, and those around this one. `beyond` is
    the address of the last page where this one is behind it.
    """

    first: int
    last: int
    total: int
    before: str | None = None
    after: str | None = None
    pages: tuple[tuple[int, str], ...] = ()
    beyond: str | None = None

    @property
    def page(self) -> int:
        """The number of the shown page."""
        return (self.first - 1) // PAGE_ROWS + 1


ONE_PAGE: Final = Pager(0, 0, 0)
"""The pager of a list that is shown whole."""


@dataclass(frozen=True, slots=True)
class ListColumn:
    """A column of a list: `cell` returns of a row what the macro `show` shows of it.

    Its cells are of the class `css`. `hint` explains the title, `href` sorts by the column, and
    `order` says if it is sorted. Where nothing says which values are better, `other_href` sorts the
    other way.
    """

    title: str
    cell: Callable[[Any], object]
    show: str = "text"
    css: str = ""
    hint: str = ""
    href: str = ""
    order: str = ""
    other_href: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of rows as a table, or the text `empty` instead; a `label` names its region.

    The column at `heading` names the rows. A list that is a page of its own has a `title`.
    """

    rows: Sequence[object]
    columns: tuple[ListColumn, ...]
    pager: Pager = ONE_PAGE
    empty: str = "No entities."
    label: str = ""
    heading: int = 0
    title: str = ""


NAME: Final = ListColumn("Name", lambda row: row, "link")
ALIAS: Final = ListColumn("Alias", lambda row: row.aliases, "aliases")
STAGE: Final = ListColumn("Stage", lambda row: row.stage, css="nowrap")
MAKER: Final = ListColumn("Run", lambda row: row.maker, "link")
KIND: Final = ListColumn("Kind", lambda row: row.kind, css="nowrap")
PLACE: Final = ListColumn("Place", lambda row: row.place, "dim")
RUN_STATE: Final = ListColumn(
    "Status", lambda row: row if row.status or row.trial else None, "status"
)
DURATION: Final = ListColumn("Duration", lambda row: duration(row.duration_ms), css="number dim")
DESCRIPTION: Final = ListColumn("Description", lambda row: row.description, "dim")
TESTS: Final = ListColumn("Tests", lambda row: row.results, "results", "nowrap")
CREATED: Final = ListColumn("Created", lambda row: row.created, css="nowrap dim")


def entity_columns(
    rows: Sequence[ListRow],
    values: Iterable[ListColumn] = (),
    *,
    mixed: bool = False,
) -> tuple[ListColumn, ...]:
    """Return the columns of a list of entities: those in which some row has something, and values.

    `mixed` rows may be of several types.
    """

    def used(*columns: ListColumn) -> Iterator[ListColumn]:
        return (column for column in columns if any(map(column.cell, rows)))

    return (
        replace(NAME, show="entity"),
        *([KIND] if mixed or len({row.kind for row in rows}) > 1 else []),
        *([PLACE] if len({row.place for row in rows}) > 1 else []),
        *used(RUN_STATE),
        *values,
        *used(
            DURATION,
            ListColumn("Feature table", lambda row: row.tables, "links"),
            ListColumn("Data type", lambda row: row.data_type, css="nowrap"),
            DESCRIPTION,
            TESTS,
            CREATED,
        ),
    )


def value_column(column: str) -> ListColumn:
    """Return the column of a metric or parameter, such as `metrics.auc`."""
    family, _, name = column.partition(".")
    hint = f"{'metric' if family == 'metrics' else 'parameter'} {name}"

    def cell(row: ListRow) -> Rounded:
        value = row.shown(column)
        return value if len(value) <= _WIDEST else Rounded(f"{value[: _WIDEST - 1]}…", value.full)

    return ListColumn(name, cell, css="number", hint=hint)


def pager(total: int, start: int, shown: int, address: Callable[[int], str]) -> Pager:
    """Return the pager of `shown` rows from `start`; `address(start)` is where a page is."""
    this, count = start // PAGE_ROWS + 1, -(-total // PAGE_ROWS)
    beyond = address((count - 1) * PAGE_ROWS) if start >= total > 0 else None
    numbers = sorted({1, *range(max(1, this - 2), min(count, this + 2) + 1), count})
    return Pager(
        pages=tuple((number, address((number - 1) * PAGE_ROWS)) for number in numbers),
        first=min(start + 1, start + shown),
        last=start + shown,
        total=total,
        before=address(max(0, start - PAGE_ROWS)) if start else None,
        after=address(start + PAGE_ROWS) if start + shown < total and shown else None,
        beyond=beyond,
    )


def properties_of(urn: str, aspects: Aspects) -> Mapping[str, Any]:
    """Return the aspect with the entity's name and description, empty where it is not set."""
    return value_of(aspects, PROPERTIES.get(entity_type(urn), ""))


def custom_of(urn: str, aspects: Aspects) -> Mapping[str, str]:
    """Return the custom properties of an entity, empty where it has none."""
    return properties_of(urn, aspects).get("customProperties") or {}


def value_of(aspects: Aspects, name: str) -> Mapping[str, Any]:
    """Return the value of an aspect, empty where it is not set."""
    return aspects[name].value if name in aspects else {}


def trial_of(custom: Mapping[str, str]) -> str:
    """Return how a trial ended without success by the tags of Optuna, or an empty text."""
    state = str(custom.get("state", "")).rpartition(".")[2].upper()
    return state if state in _UNSUCCESSFUL else ""


def display_name(urn: str, aspects: Aspects) -> str:
    """Return the name that people gave the entity, or else the one in its URN."""
    properties = properties_of(urn, aspects)
    for key in ("displayName", "name", "title"):
        if isinstance(name := properties.get(key), str) and is_visible(name):
            named_by_cli = _CLI_RECIPE.fullmatch(name)
            return name if named_by_cli is None else named_by_cli["recipe"]
    request = value_of(aspects, DATAHUB_EXECUTION_REQUEST_INPUT)
    if recipe := recipe_of(request):
        return f"{recipe} {moment(request.get('requestedAt'))}".rstrip()
    name = Identity.of(urn).name
    return name if is_visible(name) else urn


def recipe_of(request: Mapping[str, Any]) -> str:
    """Return the name of the recipe of an ingestion run, or an empty text."""
    args = request.get("args")
    recipe = json_or_none(args.get("recipe")) if isinstance(args, Mapping) else None
    name = recipe.get("pipeline_name") if isinstance(recipe, Mapping) else None
    return name if isinstance(name, str) and not entity_type(name) else ""


def description_of(properties: Mapping[str, Any]) -> str:
    """Return the description in an aspect with properties, by the name that its type has for it."""
    for key in ("description", "definition"):
        if isinstance(text := properties.get(key), str):
            return text
    return scalar((properties.get("customProperties") or {}).get(PROMPT_DESCRIPTION))


def kind_of(urn: str, aspects: Aspects) -> str:
    """Return what a reader calls the kind of an entity: its subtypes, Run, or else its type."""
    names = value_of(aspects, SUB_TYPES).get("typeNames")
    if not names and RUN_ID in custom_of(urn, aspects):
        return "Run"
    return ", ".join(map(subtype_name, names)) if names else kind_name(entity_type(urn))


def steps_of(aspects: Aspects) -> list[str]:
    """Return the names on the browse path of an entity; none for the default path."""
    path = value_of(aspects, BROWSE_PATHS_V2).get("path")
    names = [Identity.of(step["urn"]).name if "urn" in step else step["id"] for step in path or ()]
    return [] if names == [DEFAULT_STEP] else names


def is_removed(aspects: Aspects) -> bool:
    """Return whether the entity is marked as removed."""
    return value_of(aspects, STATUS).get("removed") is True


def rows_of(store: Store, urns: Sequence[str]) -> list[ListRow]:
    """Return a row for each of `urns`, in their order.

    Cost: one SQL statement for each thousand URNs.
    """
    stored = store.get_many(urns, _SHOWN)
    named = version_set_names(store, stored)
    return [_row(urn, stored.get(urn), named.get(urn)) for urn in urns]


def names_of(store: Store, urns: Sequence[str]) -> dict[str, str]:
    """Return what people call each of `urns`, known to the catalog or not.

    Cost: one SQL statement for each thousand URNs.
    """
    stored = store.get_many(urns, _SHOWN)
    named = {urn: display_name(urn, stored.get(urn, {})) for urn in urns}
    return named | version_set_names(store, stored)


def version_set_names(store: Store, stored: Mapping[str, Aspects]) -> dict[str, str]:
    """Return the names of those entities that are version sets: those of the versions' models.

    Cost: two SQL statements where there are any.
    """
    latest = {
        urn: aspects[VERSION_SET_PROPERTIES].value["latest"]
        for urn, aspects in stored.items()
        if VERSION_SET_PROPERTIES in aspects
    }
    versions = store.get_many(list(latest.values()), _SHOWN) if latest else {}
    groups = {
        urn: groups[0]
        for urn, version in latest.items()
        if (groups := properties_of(version, versions.get(version, {})).get("groups"))
    }
    named = store.get_many(list(groups.values()), _SHOWN) if groups else {}
    return {urn: display_name(group, named.get(group, {})) for urn, group in groups.items()}


def model_rows(store: Store, urns: Sequence[str]) -> list[ListRow]:
    """Return a row for each of these entities, those of registered versions with their runs.

    Cost: a second SQL statement if there are any.
    """
    rows = rows_of(store, urns)
    makers = list(dict.fromkeys(row.custom[RUN_MODEL] for row in rows if RUN_MODEL in row.custom))
    runs = dict(zip(makers, rows_of(store, makers) if makers else (), strict=True))
    return [
        replace(row, maker=runs[row.custom[RUN_MODEL]]) if RUN_MODEL in row.custom else row
        for row in rows
    ]


_NUMBERS: Final = (
    ("trainingMetrics", "metrics"),
    ("onlineMetrics", "onlineMetrics"),
    ("hyperParams", "params"),
)


def _numbers_of(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the metrics and parameters of a model, by names such as `metrics.auc`."""
    return {
        f"{family}.{entry.get('name')}": scalar(entry.get("value"))
        for field_name, family in _NUMBERS
        for entry in properties.get(field_name) or []
    }


def page_directions(
    store: Store,
    chosen: Iterable[str],
    groups: Iterable[Mapping[str, Any]],
    rows: Sequence[ListRow],
) -> Directions:
    """Return what is known of the metrics of `rows`, whose groups have these properties.

    Cost: one SQL statement if any of them is a trial that leaves its direction to its study.
    """
    studies = {row.custom.get(PARENT_RUN, "") for row in rows if TRIAL_NUMBER in row.custom}
    stored = store.get_many(sorted(studies), _SHOWN) if studies else {}
    customs = {urn: custom_of(urn, aspects) for urn, aspects in stored.items()}
    return Directions(
        chosen,
        [group.get("customProperties") or {} for group in groups],
        [
            (row.numbers, {**customs.get(row.custom.get(PARENT_RUN, ""), {}), **row.custom})
            for row in rows
        ],
    )


def _at_first_step(properties: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the metrics of a registered version that are of the first step, of any dataset."""
    of_version = RUN_MODEL in (properties.get("customProperties") or {})
    return tuple(
        f"metrics.{entry.get('name')}"
        for entry in properties.get("trainingMetrics") or []
        if of_version and scalar(entry.get("description")).partition(",")[0] == _FIRST_STEP
    )


def common_metrics(rows: Iterable[ListRow]) -> list[str]:
    """Return the metrics that most of `rows` have, the most common first."""
    counts = Counter(name for row in rows for name in row.numbers if name.startswith("metrics."))
    return sorted(counts, key=lambda name: (-counts[name], name))[:MOST_METRICS]


def _marks(custom: Mapping[str, str]) -> Iterator[str]:
    """Yield the registered versions and aliases that a model names."""
    for key in (VERSIONS, ALIASES):
        names = json_or_none(custom.get(key))
        if isinstance(names, list):
            yield from map(str, names)


def _row(urn: str, stored: Aspects | None, name: str | None) -> ListRow:
    aspects = stored or {}
    properties = properties_of(urn, aspects)
    results = value_of(aspects, TEST_RESULTS)
    custom = properties.get("customProperties") or {}
    return ListRow(
        urn=urn,
        href=entity_href(urn),
        name=name or display_name(urn, aspects),
        kind=kind_of(urn, aspects),
        platform=Identity.of(urn).platform,
        description=plain_line(description_of(properties)),
        ingested=stored is not None,
        removed=is_removed(aspects),
        data_type=scalar(properties.get("dataType")),
        created=created_at(properties),
        results={side: len(results[side]) for side in ("failing", "passing") if results.get(side)},
        place=" / ".join(steps_of(aspects)),
        custom=custom,
        marks=tuple(_marks(custom)),
        numbers=_numbers_of(properties),
        first=_at_first_step(properties),
    )


def referrers(
    store: Store, urn: str, only: ColumnElement[bool] | None = None, start: int = 0, count: int = 0
) -> UrnPage:
    """Return a page of the entities with such an edge to `urn`, the newest first.

    Entities that are marked as removed are left out.
    """
    condition = true() if only is None else only

    def read(connection: Connection) -> UrnPage:
        edges = edge.c.destination == urn, condition, _is_live(connection, edge.c.source_id)
        total = connection.scalar(select(func.count(edge.c.source_id.distinct())).where(*edges))
        if not count:
            return UrnPage(total or 0, ())
        newest_first = (
            select(entity.c.urn)
            .outerjoin(searched, searched.c.id == entity.c.id)
            .where(entity.c.id.in_(select(edge.c.source_id).where(*edges)))
            .order_by(searched.c.created_ms.desc(), entity.c.id.desc())
        )
        page = connection.scalars(newest_first.offset(start).limit(count))
        return UrnPage(total or 0, tuple(page))

    return store.read(read)


def _is_live(connection: Connection, entity_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the condition that an entity is not removed, for many entities at once.

    `marked_removed` looks at each of them, which takes a second for 200,000.
    """
    removed = resolve(connection, Criterion("removed", ("true",))).match or NOWHERE
    return entity_id.not_in(matching(removed))


def outcome_counts(store: Store, tests: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return how many entities fail and pass each test; `COUNTED` and one more for any more.

    Removed entities are left out.

    Cost: one SQL statement, of at most two walks through `COUNTED` edges for each test.
    """
    if not tests:
        return {}

    def number(test: str, relationship: str) -> ColumnElement[int]:
        entities = (
            select(edge.c.source_id)
            .where(edge.c.destination == test, edge.c.relationship == relationship)
            .where(~marked_removed(edge.c.source_id))
            .limit(COUNTED + 1)
        )
        return select(func.count()).select_from(entities.subquery()).scalar_subquery()

    counts = union_all(
        *(
            select(literal(test), number(test, "IsFailing"), number(test, "IsPassing"))
            for test in tests
        )
    )
    rows = store.read(lambda connection: connection.execute(counts).all())
    return {test: (failing, passing) for test, failing, passing in rows}


def counted(count: int) -> str:
    """Return a number of `outcome_counts` as text."""
    return f"{count:,}" if count <= COUNTED else f"{COUNTED:,}+"


def newest(entity_type: str, start: int, count: int) -> SearchRequest:
    """Return the search for entities of one type, the newest first."""
    return SearchRequest(
        entity_types=frozenset({entity_type}),
        sort=NEWEST_FIRST,
        start=start,
        count=count,
    )


def urns_named(store: Store, kind: str, name: str) -> tuple[str, ...]:
    """Return the entities of one type with that name, in any case, or URN: the newest ten."""
    if entity_type(name):
        return (name,)
    named = Criterion("name", (name,), Condition.IEQUAL)
    request = replace(newest(kind, 0, 10), any_of=((named,),))
    return tuple(hit.urn for hit in store.search(request).hits)


def kind_page(store: Store, entity_type: str, start: int) -> Listing | None:
    """Return a page of the entities of one kind, the newest first; None for an unknown kind."""
    page = store.search(newest(entity_type, start, PAGE_ROWS))
    if not page.total and entity_type not in KIND_LABELS:
        return None
    rows = rows_of(store, [hit.urn for hit in page.hits])
    outcomes = outcome_counts(store, [row.urn for row in rows] if entity_type == "test" else [])
    failing = ListColumn("Failing", lambda row: counted(outcomes[row.urn][0]), css="number")
    passing = ListColumn("Passing", lambda row: counted(outcomes[row.urn][1]), css="number")
    values = (
        replace(failing, hint="entities that fail the test"),
        replace(passing, hint="entities that pass the test"),
    )
    part = pager(page.total, start, len(rows), lambda at: kind_href(entity_type, start=at))
    title = kind_name(entity_type, plural=True)
    columns = entity_columns(rows, values if outcomes else ())
    return Listing(rows, columns, part, title=title)
