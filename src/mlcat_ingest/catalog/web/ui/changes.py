"""What changed in the catalog: by day, and by the ingestion, person or tool that changed it.

The address holds the view: `by`, `kind`, `group`, and `before`, the moment where a page goes on.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, groupby
from typing import Any, Final, Literal
from urllib.parse import urlencode
from uuid import NAMESPACE_URL, uuid5

from mlcat_ingest.catalog.store import history
from mlcat_ingest.catalog.store.history import NO_PERSON, PEOPLE, ChangeFilter, Moment, VersionInfo
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.facts import Piece
from mlcat_ingest.catalog.web.ui.history import (
    ShownVersion,
    compared,
    keys_of,
    values_of,
    writers_of,
)
from mlcat_ingest.catalog.web.ui.ingestion import RECIPE
from mlcat_ingest.catalog.web.ui.lists import (
    PAGE_ROWS,
    ListRow,
    names_of,
    newest,
    rows_of,
    urns_named,
)
from mlcat_ingest.catalog.web.ui.text import (
    KIND_LABELS,
    entity_href,
    entity_type,
    kind_name,
    moment,
    scalar,
)
from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.core.text import plural
from mlcat_ingest.metadata.aspects import STATUS, TEST_RESULTS
from mlcat_ingest.metadata.registry import ENTITY_TYPES
from mlcat_ingest.metadata.urn import PREFIX

PATH: Final = "/changes"
FEED: Final = "/changes.atom"

_FILTERS: Final = ("by", "kind", "group")
_CHANGES: Final = 8
"""Most changes that are shown of one version."""

_PERSON: Final = f"{PREFIX}corpuser:"
_RECIPE: Final = "recipe:"
_DAY_MS: Final = 86_400_000
_BEFORE: Final = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)

Outcome = Literal["created", "changed", "removed", "evaluated"]


@dataclass(frozen=True, slots=True)
class _ChangedEntity:
    """An entity that was created, changed or removed at one moment, by whom, and in what.

    It was evaluated if there are only new results of metadata tests. `results` say which of these
    fail newly, and which no longer do. Behind the `last` one the page leaves others of its kind
    out.
    """

    row: ListRow
    modified_ms: int
    outcome: Outcome
    writers: tuple[Piece, ...]
    versions: tuple[ShownVersion, ...] = ()
    results: Sequence[str] = ()
    last: bool = False

    @property
    def id(self) -> str:
        """The identity of the change, which every server and every request calls alike."""
        return uuid5(NAMESPACE_URL, f"{self.row.urn}#{self.modified_ms}").urn

    @property
    def is_evaluated(self) -> bool:
        """True if there are only new results of metadata tests."""
        return self.outcome == "evaluated"

    @property
    def day(self) -> str:
        """The day of the change, in UTC."""
        return moment(self.modified_ms)[:10]

    @property
    def time(self) -> str:
        """The time of that day, with its zone."""
        return moment(self.modified_ms)[11:]

    @property
    def updated(self) -> str:
        """The moment of the change, as RFC 3339 has it."""
        return datetime.fromtimestamp(self.modified_ms / 1000, UTC).isoformat()


@dataclass(frozen=True, slots=True)
class _ChangeSet:
    """The changes of one ingestion, person or tool on one day, the newest first.

    Those without values to show are together by a text such as `12 Models created`, those with new
    results of a metadata test by one that names it.
    """

    latest: _ChangedEntity
    folded: Mapping[str, Sequence[_ChangedEntity]]
    changed: Sequence[_ChangedEntity]


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """A page of changes; `older` is the address of the next one, None on the last.

    Results of metadata tests take no place of other changes: the page has the newest ones beside
    these. `writers` and `kinds` are values to choose from, with their names; `chosen` are those of
    the address, of which `unknown` says what there is not.
    """

    entities: tuple[_ChangedEntity, ...]
    chosen: Mapping[str, str] = field(default_factory=dict)
    writers: Mapping[str, str] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)
    unknown: Sequence[str] = ()
    older: str | None = None

    @property
    def href(self) -> str:
        """The address of the newest of these changes."""
        return _href(PATH, self.chosen)

    @property
    def feed(self) -> str:
        """The address of the same changes as a feed."""
        return _href(FEED, self.chosen)

    @property
    def days(self) -> Iterator[tuple[str, list[_ChangeSet]]]:
        """The changes by day and by who made them, of each day the results of tests last."""
        for day, of_day in groupby(self.entities, lambda one: one.day):
            by_writers: dict[tuple[Piece, ...], list[_ChangedEntity]] = {}
            for one in sorted(of_day, key=lambda one: one.is_evaluated):
                by_writers.setdefault(one.writers, []).append(one)
            yield day, [_change_set(of) for of in by_writers.values()]


def changes_page(store: Store, query: Mapping[str, str]) -> ChangesPage:
    """Return the page of changes that the parameters in `query` ask for.

    Cost: some 16 SQL statements, of which two walk along the index of the time, and the
    comparison of at most `history.COMPARED_CHARS` characters.
    """
    chosen = {key: text for key in _FILTERS if (text := query.get(key, "").strip())}
    if chosen.get("by") == _RECIPE:
        del chosen["by"]
    by = chosen.get("by", "")
    recipe = by.removeprefix(_RECIPE) if by.startswith(_RECIPE) else ""
    person = "" if recipe else by
    if person and person != PEOPLE:
        person = next(iter(urns_named(store, "corpuser", person)), f"{_PERSON}{person}")
    kind, group = chosen.get("kind", ""), chosen.get("group", "")
    groups = urns_named(store, "mlModelGroup", group) if group else ()
    wanted = ChangeFilter(person, recipe, kind, groups or (group,) * bool(group))
    given = _BEFORE.fullmatch(query.get("before", ""))
    before = None if given is None else (int(given[1]), int(given[2]))
    filters = (wanted, replace(wanted, evaluated=True))
    versions, ends = _versions(store, filters, before)
    older = "-".join(map(str, ends[wanted])) if wanted in ends else None
    unknown = [f"There is no kind {kind}."] * (kind not in {"", *ENTITY_TYPES})
    unknown += [f"No group is named {group}."] * bool(group and not groups)
    return ChangesPage(
        # Of an entity that was created at that moment everything is new.
        _changed(
            store,
            versions,
            [one for one in versions if not one.with_entity and one.aspect != TEST_RESULTS],
            ends.values(),
        ),
        chosen,
        _writers(store, versions, {person}, {recipe}),
        {name: kind_name(name, plural=True) for name in dict.fromkeys((*KIND_LABELS, kind))}
        | {"": "all kinds"},
        unknown,
        None if older is None else _href(PATH, chosen | {"before": older}),
    )


def _writers(
    store: Store, versions: Iterable[VersionInfo], people: set[str], recipes: set[str]
) -> Mapping[str, str]:
    """Return those who wrote these versions, and all recipes, as `by` takes them, with names."""
    people |= {one.modified_by for one in versions}
    recipes |= {scalar(one.system_metadata.get("pipelineName")) for one in versions}
    known = [hit.urn for hit in store.search(newest(RECIPE, 0, PAGE_ROWS)).hits]
    named = names_of(store, sorted({*known, *people}.difference(NO_PERSON, ("", PEOPLE))))
    recipes |= {named.pop(urn) for urn in known}
    return (
        {PEOPLE: "people"}
        | {urn.removeprefix(_PERSON): name for urn, name in named.items()}
        | {f"{_RECIPE}{name}": f"recipe {name}" for name in sorted(recipes - {""})}
    )


def latest_changes(store: Store) -> ChangesPage:
    """Return the latest changes of the last day, without values, for the first page.

    Those of people are there however many an ingestion made after them.

    Cost: some ten SQL statements.
    """
    filters = (ChangeFilter(PEOPLE), ChangeFilter(), ChangeFilter(evaluated=True))
    versions, ends = _versions(store, filters, None, now_ms() - _DAY_MS)
    removals = [one for one in versions if one.aspect == STATUS and not one.with_entity]
    return ChangesPage(_changed(store, versions, removals, ends.values()))


def _versions(
    store: Store, filters: Iterable[ChangeFilter], before: Moment | None, since_ms: int = 0
) -> tuple[Sequence[VersionInfo], Mapping[ChangeFilter, Moment]]:
    """Return the versions of a page, and the moments where it ends before the changes do.

    Of each of the `filters` it has the newest `PAGE_ROWS`. Results of metadata tests are of the
    time of the other changes.
    """
    since: Moment = (since_ms, 0)
    moments: list[Moment] = []
    ends: dict[ChangeFilter, Moment] = {}
    for of in filters:
        start = ends.get(replace(of, evaluated=False), since)
        found = store.read(history.moments, of, start, before, PAGE_ROWS + 1)
        moments += found[:PAGE_ROWS]
        if len(found) > PAGE_ROWS:
            ends[of] = found[PAGE_ROWS - 1]
    return store.read(history.versions_at, moments), ends


def _changed(
    store: Store,
    found: Sequence[VersionInfo],
    compare: Sequence[VersionInfo],
    ends: Collection[Moment],
) -> tuple[_ChangedEntity, ...]:
    """Return the entities whose versions were found, with what those to `compare` changed.

    Those of the moments `ends` are the last of their kind.
    """
    # What was removed comes first: no large value is in the way of it.
    compare = sorted(compare, key=lambda one: one.aspect != STATUS)
    hrefs = [entity_href(one.urn, tab="history") for one in compare]
    shown = dict(zip(compare, compared(store, compare, hrefs, _CHANGES), strict=True))
    by = dict(zip(found, writers_of(store, found), strict=True))
    urns = list(dict.fromkeys(one.urn for one in found))
    rows = dict(zip(urns, rows_of(store, urns), strict=True))
    results = _new_results(store, found)
    entities = []
    for at, group in groupby(found, lambda one: (one.modified_ms, one.entity_id)):
        versions = [*group]
        changes = tuple(shown[one] for one in versions if one in shown)
        # Beside a change, that there is another one of bookkeeping only says nothing.
        changes = tuple(one for one in changes if not one.is_internal) or changes
        outcome: Outcome = "created" if versions[0].with_entity else "changed"
        marks = chain.from_iterable(one.changes for one in changes if one.aspect == STATUS)
        if any(mark.field == "removed" and mark.new == "true" for mark in marks):
            outcome = "removed"
        anew: Sequence[str] = ()
        if {one.aspect for one in versions} == {TEST_RESULTS}:
            outcome, anew = "evaluated", results[versions[0]]
        row, by_whom = rows[versions[0].urn], by[versions[0]]
        last = at in ends
        entities.append(_ChangedEntity(row, at[0], outcome, by_whom, changes, anew, last))
    return tuple(entities)


def _new_results(store: Store, found: Iterable[VersionInfo]) -> Mapping[VersionInfo, Sequence[str]]:
    """Return which metadata tests fail since these versions, and which no longer do, in words."""
    results = [one for one in found if one.aspect == TEST_RESULTS]
    values = values_of(store, results)
    moved: dict[VersionInfo, list[tuple[str, str]]] = {}
    for one in results:
        now, before = ((values.get(key) or {}) for key in keys_of(one))
        failed = _tests(before, "failing")
        moved[one] = [("newly failing", test) for test in _tests(now, "failing") - failed]
        moved[one] += [("newly passing", test) for test in _tests(now, "passing") & failed]
    names = names_of(store, sorted({test for of in moved.values() for _, test in of}))
    return {one: sorted(f'{how} "{names[test]}"' for how, test in of) for one, of in moved.items()}


def _tests(value: Mapping[str, Any], side: str) -> set[str]:
    return {entry["test"] for entry in value.get(side) or []}


def _change_set(entities: Sequence[_ChangedEntity]) -> _ChangeSet:
    """Return the changes of one writer; there are more than are counted if the page cuts them."""
    changed: list[_ChangedEntity] = []
    folded: dict[tuple[str, bool, str], dict[str, _ChangedEntity]] = {}
    for one in entities:
        if one.outcome == "changed" and one.versions:
            changed.append(one)
            continue
        kind = kind_name(entity_type(one.row.urn)) if one.is_evaluated else one.row.kind
        for what in one.results or (one.outcome,):
            folded.setdefault((kind, one.is_evaluated, what), {})[one.row.urn] = one
    cut = {one.is_evaluated for one in entities if one.last}
    texts = {
        f"{'at least ' if evaluated in cut else ''}{plural(len(of), kind)} {what}": [*of.values()]
        for (kind, evaluated, what), of in folded.items()
    }
    return _ChangeSet(entities[0], texts, changed)


def _href(path: str, query: Mapping[str, str]) -> str:
    return f"{path}?{urlencode(query, errors='replace')}" if query else path
