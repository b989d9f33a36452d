"""The page of one entity: its title and tabs, and the content of the chosen tab."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final

from sqlalchemy import select
from sqlalchemy.sql.expression import ColumnElement
from starlette.datastructures import QueryParams

from mlcat_ingest.catalog.schema.tables import edge, entity
from mlcat_ingest.catalog.schema.values import UrnPage
from mlcat_ingest.catalog.schema.virtual import Identity
from mlcat_ingest.catalog.search.request import Criterion, SearchRequest
from mlcat_ingest.catalog.store.reads import marked_removed
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui import ingestion
from mlcat_ingest.catalog.web.ui.card import card_of
from mlcat_ingest.catalog.web.ui.children import children_of, nested_rows
from mlcat_ingest.catalog.web.ui.edit import edited_fields
from mlcat_ingest.catalog.web.ui.facts import Overview, Piece, overview
from mlcat_ingest.catalog.web.ui.history import HistoryPage, history_page
from mlcat_ingest.catalog.web.ui.ingestion import IngestionPage
from mlcat_ingest.catalog.web.ui.lineage import LineageView, lineage_view, links_of
from mlcat_ingest.catalog.web.ui.lists import (
    PAGE_ROWS,
    Aspects,
    ListColumn,
    Listing,
    ListRow,
    common_metrics,
    description_of,
    display_name,
    entity_columns,
    is_removed,
    kind_of,
    names_of,
    pager,
    properties_of,
    referrers,
    rows_of,
    steps_of,
    value_column,
    value_of,
    version_set_names,
)
from mlcat_ingest.catalog.web.ui.markdown import Html, render_markdown
from mlcat_ingest.catalog.web.ui.metadata_tests import RuleInWords, rule_in_words
from mlcat_ingest.catalog.web.ui.runs import RunsTable, RunsView, runs_table
from mlcat_ingest.catalog.web.ui.text import (
    entity_href,
    entity_type,
    kind_href,
    kind_name,
    scalar,
    stamp,
)
from mlcat_ingest.core.text import json_or_none, plural
from mlcat_ingest.metadata.aspects import (
    DATA_PLATFORM_INSTANCE,
    DEPRECATION,
    DOCUMENTATION,
    INCIDENT_INFO,
    INCIDENTS_SUMMARY,
    ML_MODEL_PROPERTIES,
    TEST_INFO,
    TEST_RESULTS,
)
from mlcat_ingest.metadata.mlflow_keys import ALIASES, PARENT_RUN, PARENT_RUN_NAME
from mlcat_ingest.metadata.passport import Passport

_IN_LINEAGE: Final = (
    *("dataJob", "dataProcessInstance", "dataset"),
    *("mlFeature", "mlModelDeployment", "mlPrimaryKey"),
)

_TABS: Final[Mapping[str, tuple[str, ...]]] = {
    "mlModel": ("overview", "features", "group", "children", "documents", "lineage", "card"),
    # Of these a reader wants the content first.
    "mlModelGroup": ("models", "overview"),
    "mlFeatureTable": ("features", "overview", "lineage"),
    "service": ("tools", "overview"),
    **dict.fromkeys(_IN_LINEAGE, ("overview", "lineage")),
    "test": ("overview", "failing", "passing"),
    ingestion.RECIPE: ("ingestions",),
}
"""Entity type to its tabs before `used`, the first of which is shown first."""

_LABELS: Final = {
    "overview": "Overview",
    "children": "Child runs",
    "documents": "Documents",
    "features": "Features",
    "group": "Group",
    "lineage": "Lineage",
    "card": "Card",
    "models": "Models",
    "ingestions": "Ingestion runs",
    "failing": "Failing",
    "passing": "Passing",
    "tools": "Tools",
    "used": "Used by",
    "tests": "Tests",
    "incidents": "Incidents",
    "history": "History",
}

_INCIDENT_PARTS: Final = ("activeIncidentDetails", "resolvedIncidentDetails")

_MOST_ALIASES: Final = 50
"""Most aliases that are shown of one model."""

_REFERENCE_TABS: Final = {"features": "mlFeatures", "group": "groups", "tools": "apis"}
"""Tab to the field of the properties that it lists."""

_REFERRER_TABS: Final = {
    "models": "MemberOf",
    "failing": "IsFailing",
    "passing": "IsPassing",
    "ingestions": ingestion.RUN_OF,
    "documents": "RelatedAsset",
}
"""Tab to the relationship of the entities that it lists, which refer to this one.

The tab `used` lists those with any other relationship to it.
"""


@dataclass(frozen=True, slots=True)
class _Subject:
    """The entity that a page is about, as the catalog has it."""

    urn: str
    aspects: Aspects
    ingested: bool

    @property
    def properties(self) -> Mapping[str, Any]:
        """The aspect with its name and description."""
        return properties_of(self.urn, self.aspects)

    def urns(self, field: str) -> list[str]:
        """Return a list of URNs in its properties, each once."""
        return list(dict.fromkeys(self.properties.get(field) or []))


@dataclass(frozen=True, slots=True)
class _Tab:
    """A section of an entity's page, with the number of what it lists if that is known."""

    label: str
    href: str
    current: bool
    count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityPage:
    """The page of an entity, with the content of one of its tabs."""

    urn: str
    href: Annotated[str, "the address of the page, with its first tab"]
    title: str
    kind: Annotated[str, "what a reader calls the entity: its subtypes, or else its type"]
    place: Annotated[Sequence[Piece], "the steps of its browse path"]
    parent: Annotated[Piece | None, "the run of which it is a child run"]
    aliases: Annotated[Mapping[str, object] | None, "those of a group, with their versions"]
    kinds: Annotated[str, "its entity type in the plural"]
    kind_href: Annotated[str, "the list of all entities of its type"]
    platform: str
    environment: str
    description: Html
    deprecation: Annotated[Mapping[str, Any], "why it is no longer to be used, if it is not"]
    incidents: Annotated[str, "how many incidents it has that are active, if any"]
    ingested: Annotated[bool, "false if other entities only refer to it"]
    removed: Annotated[bool, "whether it is soft-deleted"]
    json_href: Annotated[str, "its aspects as JSON"]
    edit_href: Annotated[str, "the form by which users edit it, if they can"]
    edited_fields: Annotated[Sequence[str], "what they edit there, by its place in the address"]
    unknown_tab: Annotated[str, "the tab of the address, if the entity has none of that name"]
    shown_tab: str
    tabs: Sequence[_Tab]
    overview: Annotated[Overview | None, "this and the others: of the shown tab"] = None
    rule: Annotated[RuleInWords | None, "the definition of a metadata test in words"] = None
    runs: Annotated[RunsTable | None, "the models of a group"] = None
    listing: Listing | None = None
    ingestion: IngestionPage | None = None
    lineage: LineageView | None = None
    history: HistoryPage | None = None
    card: Passport | None = None


def entity_page(store: Store, urn: str, query: QueryParams, start: int) -> EntityPage | None:
    """Return the page of `urn`; None if the catalog neither has it nor refers to it.

    Cost: a handful of SQL statements, however long the lists are.
    """
    stored = store.get_many([urn]).get(urn)
    subject = _Subject(urn, stored or {}, stored is not None)
    if stored is None and not referrers(store, urn).total:
        return None
    counts = _tabs(store, subject)
    active = value_of(subject.aspects, INCIDENTS_SUMMARY).get(_INCIDENT_PARTS[0]) or []
    first = next(iter(counts))
    identity = Identity.of(urn)
    tab = query.get("tab", "")
    chosen = tab if tab in counts else first
    fields = edited_fields(urn) if subject.ingested else []
    return EntityPage(
        urn=urn,
        href=entity_href(urn),
        title=version_set_names(store, {urn: subject.aspects}).get(urn)
        or display_name(urn, subject.aspects),
        kind=kind_of(urn, subject.aspects),
        place=_place(store, subject),
        parent=_parent(subject),
        aliases=_aliases(store, urn, subject.properties)
        if entity_type(urn) == "mlModelGroup"
        else None,
        kinds=kind_name(entity_type(urn), plural=True),
        kind_href=kind_href(entity_type(urn)),
        platform=identity.platform or _platform(subject),
        environment=identity.environment,
        description=render_markdown(
            _catalog_description(subject) or description_of(subject.properties)
        ),
        deprecation=value_of(subject.aspects, DEPRECATION),
        incidents=plural(len(active), "active incident") if active else "",
        ingested=subject.ingested,
        removed=is_removed(subject.aspects),
        json_href=entity_href(urn, format="json"),
        edit_href=entity_href(urn, edit=1) if fields else "",
        edited_fields=fields,
        unknown_tab=tab if tab and tab not in counts else "",
        shown_tab=_LABELS[chosen],
        tabs=[
            _Tab(
                _LABELS[key],
                entity_href(urn) if key == first else entity_href(urn, tab=key),
                key == chosen,
                count,
            )
            for key, count in counts.items()
        ],
        **_content(store, subject, chosen, query, start),
    )


def _content(
    store: Store, subject: _Subject, chosen: str, query: QueryParams, start: int
) -> Mapping[str, Any]:
    """Return what the chosen tab shows."""
    urn = subject.urn
    if chosen == "models":
        return {"runs": runs_table(store, RunsView.of(urn, query, start), subject.properties)}
    if chosen == "lineage":
        listing = links_of(store, urn, query.get("of", ""), query.get("way", ""), start)
        return {"listing": listing} if listing else {"lineage": lineage_view(store, urn)}
    if chosen == "history":
        return {"history": history_page(store, urn, start)}
    if content := _OF_ASPECTS.get(chosen):
        return content(store, subject)
    if chosen == "ingestions":
        return {"ingestion": ingestion.recipe_page(store, urn, subject.aspects, start)}
    if chosen != "overview":
        return {"listing": _listing(store, subject, chosen, start)}
    if entity_type(urn) == ingestion.RUN:
        return {"ingestion": ingestion.run_page(store, urn, subject.aspects)}
    rule = (
        {"rule": rule_in_words(store, subject.properties)} if TEST_INFO in subject.aspects else {}
    )
    return {"overview": overview(store, urn, subject.aspects, subject.properties), **rule}


def _platform(subject: _Subject) -> str:
    """Return the name of the platform of an entity whose URN names none."""
    urn = value_of(subject.aspects, DATA_PLATFORM_INSTANCE).get("platform")
    return Identity.of(urn).name if urn else ""


def _catalog_description(subject: _Subject) -> str:
    """Return the description written in the catalog, which takes precedence over the source's."""
    for name, stored in subject.aspects.items():
        if name.startswith("editable"):
            return description_of(stored.value)
    texts = value_of(subject.aspects, DOCUMENTATION).get("documentations") or []
    return next((scalar(entry.get("documentation")) for entry in texts), "")


def _tabs(store: Store, subject: _Subject) -> dict[str, int | None]:
    """Return the tabs that the entity has, each with the number of what it lists if it is known."""
    counts = _tab_counts(store, subject)
    if INCIDENTS_SUMMARY in subject.aspects:
        summary = subject.aspects[INCIDENTS_SUMMARY].value
        counts["incidents"] = sum(len(summary.get(part) or []) for part in _INCIDENT_PARTS)
    if subject.ingested:
        return {**counts, "history": None}
    # Those that refer to it are all that is known of it.
    return {"used": counts["used"], **counts} if "used" in counts else counts


def _tab_counts(store: Store, subject: _Subject) -> dict[str, int | None]:
    """Return the tabs of its content and of its references."""
    counts: dict[str, int | None] = {}
    for tab in (*_TABS.get(entity_type(subject.urn), ("overview",)), "used"):
        counts[tab] = None
        if tab in _REFERENCE_TABS:
            counts[tab] = len(subject.urns(_REFERENCE_TABS[tab]))
        elif (condition := _refers(subject.urn, tab)) is not None:
            counts[tab] = referrers(store, subject.urn, condition).total
        elif tab == "children":
            counts[tab] = children_of(store, subject.urn).total
    for tab in ("children", "documents", "used"):
        if counts.get(tab) == 0:
            del counts[tab]
    if TEST_RESULTS in subject.aspects:
        results = subject.aspects[TEST_RESULTS].value
        counts["tests"] = sum(len(results.get(side) or []) for side in ("passing", "failing"))
    return counts


def _refers(urn: str, tab: str) -> ColumnElement[bool] | None:
    """Return the condition on the edges to `urn` of a tab; None for a tab of something else."""
    if tab in _REFERRER_TABS:
        return edge.c.relationship == _REFERRER_TABS[tab]
    if tab != "used":
        return None
    tabs = _TABS.get(entity_type(urn), ())
    # Incidents have a tab of their own.
    shown = ["IncidentOn", *(_REFERRER_TABS[one] for one in tabs if one in _REFERRER_TABS)]
    return edge.c.relationship.not_in(shown)


def _listing(store: Store, subject: _Subject, tab: str, start: int) -> Listing:
    """Return the list of a tab: references in stored order, referring entities newest first.

    Child runs follow their parents where both are models of the same group.
    """
    metrics: Sequence[str] = ()
    rows: Sequence[ListRow]
    if tab == "children":
        page = children_of(store, subject.urn, start, PAGE_ROWS)
        rows = nested_rows(store, page.urns)
        metrics = common_metrics(rows)
    elif tab in _REFERENCE_TABS:
        urns = subject.urns(_REFERENCE_TABS[tab])
        page = UrnPage(len(urns), tuple(urns[start : start + PAGE_ROWS]))
        rows = rows_of(store, page.urns)
        if tab == "features" and entity_type(subject.urn) == "mlModel":
            rows = _with_tables(store, rows)
    else:
        page = referrers(store, subject.urn, _refers(subject.urn, tab), start, PAGE_ROWS)
        rows = rows_of(store, page.urns)
    part = pager(
        page.total, start, len(page.urns), lambda at: entity_href(subject.urn, tab=tab, start=at)
    )
    mixed = tab in {"documents", "failing", "group", "passing", "used"}
    return Listing(rows, entity_columns(rows, map(value_column, metrics), mixed=mixed), part)


def _outcomes(store: Store, subject: _Subject) -> Listing:
    """Return the stored outcomes of metadata tests, the failed ones first."""
    results = value_of(subject.aspects, TEST_RESULTS)
    rows = [(side, one) for side in ("failing", "passing") for one in results.get(side) or []]
    tests = {row.urn: row for row in rows_of(store, [entry["test"] for _, entry in rows])}
    columns = (
        ListColumn("Result", lambda row: row[0], "outcome", "nowrap"),
        ListColumn("Metadata test", lambda row: tests[row[1]["test"]], "link"),
        ListColumn("Description", lambda row: tests[row[1]["test"]].description, "dim"),
        ListColumn("Since", lambda row: stamp(row[1].get("lastComputed")), css="nowrap dim"),
    )
    return Listing(rows, columns, empty="No metadata test applies to this entity.", heading=1)


def _incidents(store: Store, subject: _Subject) -> Listing:
    """Return the incidents of an entity, the active ones first, each from the newest on."""
    listed = sorted(
        (part != "activeIncidentDetails", -one["createdAt"], one["urn"])
        for part in _INCIDENT_PARTS
        for one in value_of(subject.aspects, INCIDENTS_SUMMARY).get(part) or []
    )
    found = store.get_many([urn for *_, urn in listed], [INCIDENT_INFO])
    infos = [value_of(found.get(urn, {}), INCIDENT_INFO) for *_, urn in listed]
    rows = [(info, scalar((info.get("source") or {}).get("sourceUrn"))) for info in infos if info]
    names = names_of(store, [source for _, source in rows if source])
    columns = (
        ListColumn("State", lambda row: row[0]["status"]["state"].lower(), css="nowrap"),
        ListColumn("Incident", lambda row: scalar(row[0].get("title") or row[0]["type"])),
        ListColumn("Note", lambda row: scalar(row[0]["status"].get("message")), css="dim"),
        ListColumn("Since", lambda row: stamp(row[0]["status"]["lastUpdated"]), css="nowrap dim"),
        ListColumn("Raised by", lambda row: names.get(row[1], "")),
    )
    empty = "No incident was raised on this entity."
    return Listing(rows, columns, empty=empty, label="Incidents", heading=1)


_OF_ASPECTS: Final[Mapping[str, Callable[[Store, _Subject], Mapping[str, Any]]]] = {
    "card": lambda store, subject: {"card": card_of(store, subject.urn)},
    "incidents": lambda store, subject: {"listing": _incidents(store, subject)},
    "tests": lambda store, subject: {"listing": _outcomes(store, subject)},
}
"""Tab to its content, for those that show aspects of the entity itself."""


def _with_tables(store: Store, rows: Sequence[ListRow]) -> Sequence[ListRow]:
    """Return the features of a model with the tables that contain each of them.

    Cost: two SQL statements.
    """
    contains = (
        select(edge.c.destination, entity.c.urn)
        .join(entity, entity.c.id == edge.c.source_id)
        .where(edge.c.destination.in_([row.urn for row in rows]))
        .where(edge.c.relationship == "Contains", entity.c.entity_type == "mlFeatureTable")
        .where(~marked_removed(entity.c.id))
        .order_by(entity.c.urn)
    )
    found = [tuple(pair) for pair in store.read(lambda sql: sql.execute(contains).all())]
    names = names_of(store, [table for _, table in found])
    tables: dict[str, list[tuple[str, str]]] = {}
    for feature, table in found:
        tables.setdefault(feature, []).append((names[table], entity_href(table)))
    return [replace(row, tables=tuple(tables.get(row.urn, ()))) for row in rows]


def _place(store: Store, subject: _Subject) -> list[Piece]:
    """Return the steps of the browse path; that of a group the entity is in leads to the group."""
    steps = steps_of(subject.aspects)
    groups = names_of(store, subject.urns("groups")) if steps else {}
    hrefs = {name: entity_href(urn) for urn, name in groups.items()}
    return [Piece(step, hrefs.get(step)) for step in steps]


def _parent(subject: _Subject) -> Piece | None:
    """Return the link to the parent of a child run."""
    custom = subject.properties.get("customProperties") or {}
    urn = custom.get(PARENT_RUN)
    if not urn:
        return None
    return Piece(custom.get(PARENT_RUN_NAME) or Identity.of(urn).name, entity_href(urn))


def _aliases(store: Store, urn: str, properties: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the aliases of a group, each with the version that it leads to, and how many more.

    Cost: a search and one SQL statement if there are any.
    """
    found = json_or_none((properties.get("customProperties") or {}).get(ALIASES))
    versions = {one: scalar(found[one]) for one in found} if isinstance(found, dict) else {}
    shown = dict(sorted(versions.items())[:_MOST_ALIASES])
    hrefs = _versions(store, urn, list(shown.values())) if shown else {}
    pieces = [(alias, Piece(version, hrefs.get(version))) for alias, version in shown.items()]
    return {"shown": pieces, "more": len(versions) - len(shown)}


def _versions(store: Store, group: str, versions: Sequence[str]) -> dict[str, str]:
    members = (Criterion("groups", (group,)), Criterion("version", tuple(versions)))
    request = SearchRequest(any_of=(members,), count=2 * _MOST_ALIASES, highlight=False)
    urns = [hit.urn for hit in store.search(request).hits]
    stored = store.get_many(urns, {ML_MODEL_PROPERTIES})
    tags = {urn: properties_of(urn, aspects).get("version") for urn, aspects in stored.items()}
    return {
        scalar(tag.get("versionTag")): entity_href(urn)
        for urn, tag in tags.items()
        if isinstance(tag, Mapping)
    }
