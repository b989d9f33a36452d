"""The pages of ingestion: the runs of recipes, and the recipes with their latest runs.

The aspects are unchecked: any field may be missing, or of another type. Reports are read in the
sections that DataHub's command line and ours share, and ours in its own counts, too.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import orjson
from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from mlcat_ingest.catalog.schema.tables import edge, entity
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.facts import Fact, Piece
from mlcat_ingest.catalog.web.ui.lists import (
    PAGE_ROWS,
    Aspects,
    ListColumn,
    Listing,
    Pager,
    display_name,
    names_of,
    newest,
    pager,
    recipe_of,
    referrers,
    value_of,
)
from mlcat_ingest.catalog.web.ui.text import (
    duration,
    entity_href,
    entity_type,
    kind_href,
    kind_name,
    moment,
    scalar,
)
from mlcat_ingest.core.text import cut, json_or_none
from mlcat_ingest.metadata.aspects import (
    DATAHUB_EXECUTION_REQUEST_INPUT,
    DATAHUB_EXECUTION_REQUEST_RESULT,
    DATAHUB_INGESTION_SOURCE_INFO,
)
from mlcat_ingest.metadata.reserved import SOURCE_KEY

RUN: Final = "dataHubExecutionRequest"
RECIPE: Final = "dataHubIngestionSource"
RUN_OF: Final = "ingestionSource"
"""The relationship of a run to its recipe."""

_MARKS: Final = {
    "SUCCESS": "good",
    "SUCCEEDED_WITH_WARNINGS": "good",
    **dict.fromkeys(("FAILURE", "ABORTED", "CANCELLED", "TIMEOUT", "UP_FOR_RETRY"), "bad"),
}
_COUNTS: Final = {
    **{name: name.capitalize() for name in ("created", "updated", "unchanged", "removed")},
    "still_removed": "Still removed",
    "left_out": "Left out",
    "rejected": "Refused",
}
"""Counts of entities in a report, to their headings."""

_SHOWN_ENTRIES: Final = 50
_SHOWN_CHARS: Final = 1_000

Object = Mapping[str, Any]

_KIND_COLUMNS: Final = (
    ListColumn("Kind", itemgetter(0), "name"),
    *(
        ListColumn(label, itemgetter(at), "count", "number")
        for at, label in enumerate(_COUNTS.values(), 1)
    ),
)
_TESTS_HINT: Final = (
    "results of metadata tests: of the gate those of all entities, or else those that the run "
    "evaluated"
)
_RECIPE: Final = ListColumn("Recipe", lambda run: run.recipe, "recipe")
_RUN_COLUMNS: Final = (
    ListColumn("Run", lambda run: run, "started", "nowrap"),
    ListColumn("Status", lambda run: run.end, "ended"),
    ListColumn("Duration", lambda run: run.duration, css="number dim"),
    ListColumn("Written", lambda run: _total(run.report, "created", "updated"), "count", "number"),
    ListColumn("Unchanged", lambda run: _total(run.report, "unchanged"), "count", "number"),
    ListColumn("Removed", lambda run: _total(run.report, "removed"), "count", "number"),
    ListColumn("Refused", lambda run: _total(run.report, "rejected"), "count", "number"),
    ListColumn(
        "Metadata tests", lambda run: _tests(run.report), "or_dash", "number nowrap", _TESTS_HINT
    ),
)


@dataclass(frozen=True, slots=True)
class _IngestionRun:
    """A run of a recipe, as a row of a list; `report` is our part of its report.

    Without an `href` the recipe has no run yet.
    """

    recipe: Piece
    href: str = ""
    started: str = ""
    status: str = "no run yet"
    duration: str = ""
    report: Object = field(default_factory=dict)

    @property
    def end(self) -> tuple[str, str, bool]:
        """The look of its badge, the text of that, and whether the gate failed the run."""
        by_gate = _object(self.report.get("gate")).get("passed") is False
        return _MARKS.get(self.status, "quiet"), self.status, by_gate


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestionPage:
    """The content of the page of a recipe, or of one of its runs."""

    facts: Sequence[Fact]
    passes: Annotated[Sequence[tuple[str, str, str]], "sources: label, how read, address"]
    listing: Annotated[Listing | None, "the runs of a recipe"] = None
    end: Annotated[tuple[str, str, bool] | None, "this and the others: of a run"] = None
    headline: str = ""
    kinds: Annotated[Listing | None, "counts by kind of entity"] = None
    groups: Annotated[Sequence[Piece], "the changed ones"] = ()
    more_groups: int = 0
    tests: Annotated[Sequence[tuple[Piece, int]], "failing ones, and on how many entities"] = ()
    sections: Annotated[Sequence[tuple[str, Sequence[Fact]]], "of the report, by label"] = ()
    report: Annotated[str, "as text"] = ""


def runs_page(store: Store, start: int) -> Listing:
    """Return a page of all ingestion runs, the newest first."""
    page = store.search(newest(RUN, start, PAGE_ROWS))
    rows = _runs(store, [hit.urn for hit in page.hits])
    part = pager(page.total, start, len(rows), lambda at: kind_href(RUN, start=at))
    return _listing(rows, part, _RECIPE, title=kind_name(RUN, plural=True))


def recipes_page(store: Store, start: int = 0, count: int = PAGE_ROWS) -> Listing:
    """Return a page of the recipes, each with its latest run; the latest of these first.

    Cost: a handful of SQL statements, however many recipes and runs there are.
    """
    page = store.search(newest(RECIPE, start, count))
    urns = [hit.urn for hit in page.hits]
    latest = store.read(_latest, urns)
    rows = sorted(_runs(store, [*latest.values()]), key=lambda row: row.started, reverse=True)
    names = names_of(store, [urn for urn in urns if urn not in latest])
    rows += [_IngestionRun(_link(names, urn)) for urn in names]
    part = pager(page.total, start, len(rows), lambda at: kind_href(RECIPE, start=at))
    return _listing(rows, part, _RECIPE, title=kind_name(RECIPE, plural=True))


def recipe_page(store: Store, urn: str, aspects: Aspects, start: int) -> IngestionPage:
    """Return the content of a recipe's page: facts, and a page of its runs, the newest first.

    The sources are those that the first of these runs has read.
    """
    info = value_of(aspects, DATAHUB_INGESTION_SOURCE_INFO)
    page = referrers(store, urn, edge.c.relationship == RUN_OF, start, PAGE_ROWS)
    rows = _runs(store, page.urns)
    facts = (
        _fact("Type", info.get("type")),
        _fact("Version", _object(info.get("config")).get("version")),
        _fact("Schedule", _object(info.get("schedule")).get("interval")),
    )
    part = pager(page.total, start, len(rows), lambda at: entity_href(urn, start=at))
    stored = store.get_many(page.urns[:1], {DATAHUB_EXECUTION_REQUEST_RESULT})
    result = value_of(next(iter(stored.values()), {}), DATAHUB_EXECUTION_REQUEST_RESULT)
    passes = [*_passes(_object(_report(result).get("mlcat")).get("passes"))]
    shown = [fact for fact in facts if fact.pieces]
    return IngestionPage(facts=shown, passes=passes, listing=_listing(rows, part))


def run_page(store: Store, urn: str, aspects: Aspects) -> IngestionPage:
    """Return the content of a run's page.

    Cost: two SQL statements, for the names of what the report is about.
    """
    request, result = _request(aspects), value_of(aspects, DATAHUB_EXECUTION_REQUEST_RESULT)
    report = _report(result)
    ours = _object(report.get("mlcat"))
    source, sink = _object(report.get("source")), _object(report.get("sink"))
    evaluation = _object(ours.get("evaluation"))
    groups = [group for group in _list(ours.get("changed_group_urns")) if isinstance(group, str)]
    tests = _numbers(evaluation.get("failing_tests"))
    recipe = _recipe_urn(request)
    names = names_of(store, [*groups, *tests, *([recipe] if recipe else [])])
    run = _row(urn, aspects, names)
    from_source, to_sink = _object(source.get("report")), _object(sink.get("report"))
    text = scalar(result.get("report"))
    kinds = [
        (kind_name(kind, plural=True), *(_number(_object(counts).get(key)) for key in _COUNTS))
        for kind, counts in _object(ours.get("entities")).items()
    ]
    return IngestionPage(
        end=run.end,
        headline=text.partition("\n")[0] if ours else "",
        facts=[fact for fact in _facts(run, request, report) if fact.pieces],
        passes=[*_passes(ours.get("passes"))],
        kinds=Listing(kinds, _KIND_COLUMNS, label="Entities") if kinds else None,
        groups=[_link(names, group) for group in groups],
        more_groups=max(0, (_number(ours.get("changed_groups")) or 0) - len(groups)),
        tests=[(_link(names, test), count) for test, count in tests.items()],
        sections=[
            (label, entries)
            for label, entries in (
                ("Failures", _entries(from_source.get("failures"))),
                ("Refused by the catalog", _entries(to_sink.get("failures"))),
                ("Warnings", _entries(from_source.get("warnings"))),
                ("Notes", _entries(from_source.get("infos"))),
            )
            if entries
        ],
        report=text,
    )


def _latest(connection: Connection, recipes: Sequence[str]) -> dict[str, str]:
    """Return the latest run of each of `recipes` that has one."""
    last = (
        select(edge.c.destination, func.max(edge.c.source_id).label("id"))
        .where(edge.c.destination.in_(recipes), edge.c.relationship == RUN_OF)
        .group_by(edge.c.destination)
        .subquery()
    )
    query = select(last.c.destination, entity.c.urn).join(entity, entity.c.id == last.c.id)
    return {row.destination: row.urn for row in connection.execute(query)}


def _runs(store: Store, urns: Sequence[str]) -> list[_IngestionRun]:
    wanted = {DATAHUB_EXECUTION_REQUEST_INPUT, DATAHUB_EXECUTION_REQUEST_RESULT}
    stored = store.get_many(urns, wanted)
    aspects = {urn: stored.get(urn, {}) for urn in urns}
    recipes = {_recipe_urn(_request(of_run)) for of_run in aspects.values()}
    names = names_of(store, sorted(recipes - {""}))
    return [_row(urn, of_run, names) for urn, of_run in aspects.items()]


def _listing(
    rows: Sequence[_IngestionRun], part: Pager, *first: ListColumn, title: str = ""
) -> Listing:
    return Listing(rows, (*first, *_RUN_COLUMNS), part, "No ingestion runs.", title=title)


def _row(urn: str, aspects: Aspects, names: Mapping[str, str]) -> _IngestionRun:
    request, result = _request(aspects), value_of(aspects, DATAHUB_EXECUTION_REQUEST_RESULT)
    recipe = _recipe_urn(request)
    return _IngestionRun(
        recipe=_link(names, recipe) if recipe else Piece(recipe_of(request)),
        href=entity_href(urn),
        started=moment(result.get("startTimeMs", request.get("requestedAt")))
        or display_name(urn, {}),
        status=scalar(result.get("status")) or "no result yet",
        duration=duration(scalar(result.get("durationMs"))),
        report=_object(_report(result).get("mlcat")),
    )


def _tests(report: Object) -> str:
    """Return what fails: of all tests of the gate, or else of what this run evaluated."""
    gate, evaluation = _object(report.get("gate")), _object(report.get("evaluation"))
    if (failing := _number(gate.get("failing"))) is not None:
        new = _number(gate.get("newly_failing"))
        return f"{failing:,} failing, {f'{new:,}' if new else 'none'} new"
    failing = _number(evaluation.get("failing")) or 0
    return f"{failing:,} failing" if failing or _number(evaluation.get("passing")) else ""


def _total(report: Object, *keys: str) -> int | None:
    """Return a sum over all kinds of entities; None where the report does not count them."""
    if not isinstance(report.get("entities"), Mapping):
        return None
    kinds = map(_object, report["entities"].values())
    return sum(_number(counts.get(key)) or 0 for counts in kinds for key in keys)


def _facts(run: _IngestionRun, request: Object, report: Object) -> Iterator[Fact]:
    ours, cli = _object(report.get("mlcat")), _object(report.get("cli"))
    source, sink = _object(report.get("source")), _object(report.get("sink"))
    evaluation = _object(ours.get("evaluation"))
    yield Fact("Recipe", (run.recipe,) if run.recipe.text else ())
    yield _fact("Started", run.started)
    yield _fact("Duration", run.duration)
    yield _fact("Source type", source.get("type"))
    yield _fact("Records read", _object(source.get("report")).get("records"))
    yield _fact("Catalog", ours.get("catalog") or sink.get("type"))
    yield _fact("Records written", _object(sink.get("report")).get("total_records_written"))
    if _number(evaluation.get("evaluated")):
        passing, failing = (_number(evaluation.get(key)) or 0 for key in ("passing", "failing"))
        yield _fact("Results of metadata tests", f"{passing:,} passing, {failing:,} failing")
    yield _fact("Version", cli.get("cli_version") or _object(request.get("args")).get("version"))
    yield _fact("Trigger", _object(request.get("source")).get("type"))


def _passes(passes: object) -> Iterator[tuple[str, str, str]]:
    """Yield the source of each pass, how it was read, and the search for its entities."""
    for one in map(_object, _list(passes)):
        if key := scalar(one.get("source")):
            escaped = key.replace("\\", "\\\\").replace('"', '\\"')
            query = urlencode({"q": f'{SOURCE_KEY}:"{escaped}"'}, errors="replace")
            yield scalar(one.get("label")) or key, scalar(one.get("why")), f"/search?{query}"


def _entries(entries: object) -> list[Fact]:
    """Return the entries of a section of a report, the first ones of a long list."""
    return [_entry(entry) for entry in _list(entries)[:_SHOWN_ENTRIES]]


def _entry(entry: object) -> Fact:
    if not isinstance(entry, Mapping):
        return Fact(_short(entry), ())
    # The titles of our notes are names: `dataset_unresolved`.
    title = _short(entry.get("title") or "").replace("_", " ")
    message = _short(entry.get("message") or "")
    text = ": ".join(part for part in (title, message) if part) or _short(dict(entry))
    context = _list(entry.get("context"))[:_SHOWN_ENTRIES]
    return Fact(text, tuple(map(_about, context)))


def _about(text: object) -> Piece:
    """Return what an entry is about; if it begins with a URN, as a link to that entity."""
    shown = _short(text)
    urn, _, label = shown.partition(" ")
    if entity_type(urn) and urn.count("(") == urn.count(")"):
        return Piece(label or urn, entity_href(urn))
    return Piece(shown)


def _short(value: object) -> str:
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return cut(text, _SHOWN_CHARS)


def _report(result: Object) -> Object:
    """Return the report in a result, empty where it is none."""
    return _object(json_or_none(_object(result.get("structuredReport")).get("serializedValue")))


def _request(aspects: Aspects) -> Object:
    return value_of(aspects, DATAHUB_EXECUTION_REQUEST_INPUT)


def _recipe_urn(request: Object) -> str:
    urn = _object(request.get("source")).get("ingestionSource")
    return urn if isinstance(urn, str) and entity_type(urn) else ""


def _link(names: Mapping[str, str], urn: str) -> Piece:
    return Piece(names.get(urn) or urn, entity_href(urn))


def _fact(label: str, value: object) -> Fact:
    text = f"{value:,}" if _number(value) is not None else value
    return Fact(label, (Piece(text),) if isinstance(text, str) and text else ())


def _object(value: object) -> Object:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _numbers(value: object) -> dict[str, int]:
    return {
        key: count
        for key, item in _object(value).items()
        if entity_type(key) and (count := _number(item)) is not None
    }
