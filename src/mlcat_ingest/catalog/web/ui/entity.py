"""The page of one entity: what it is, its tabs, and what the chosen tab shows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from mlcat_ingest.catalog.schema.identity import Identity
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.content import (
    MEMBERS,
    Overview,
    Subject,
    TestRow,
    incoming,
    members,
    overview,
    referred,
    referring,
    test_rows,
)
from mlcat_ingest.catalog.web.ui.rows import EntityList, description_of, display_name, is_removed
from mlcat_ingest.catalog.web.ui.text import (
    entity_href,
    entity_type,
    kind_label,
    kind_name,
)
from mlcat_ingest.metadata.aspects.assets import TEST_RESULTS

_REFERRED: Final = {"features": "mlFeatures", "group": "groups"}
"""Tab to the field of the properties that it lists."""

_REFERRING: Final[Mapping[str, frozenset[str] | None]] = {
    "failing": frozenset({"IsFailing"}),
    "passing": frozenset({"IsPassing"}),
    "used": None,
}
"""Tab to the relationships of the entities that it lists, which point at this one."""


@dataclass(frozen=True, slots=True)
class Tab:
    """One tab, which is a link; `count` is how much stands behind it, where that is known."""

    key: str
    label: str
    href: str
    current: bool
    count: int | None = None


@dataclass(frozen=True, slots=True)
class EntityPage:
    """Everything the template shows; of the last three the chosen tab has one."""

    urn: str
    title: str
    kind: str
    kinds: str
    kind_href: str
    platform: str
    environment: str
    description: str
    ingested: bool
    removed: bool
    json_href: str
    tabs: tuple[Tab, ...]
    overview: Overview | None = None
    listing: EntityList | None = None
    tests: tuple[TestRow, ...] | None = None


def entity_page(store: Store, urn: str, tab: str, start: int) -> EntityPage | None:
    """Return the page of `urn`; None if the catalog neither has it nor refers to it.

    Cost: a handful of SQL statements, however long the lists are.
    """
    stored = store.get_many([urn]).get(urn)
    subject = Subject(urn, stored or {}, stored is not None)
    if stored is None and not incoming(store, urn, None, 0, 0)[0]:
        return None
    choices = _choices(store, subject)
    first = choices[0][0]
    identity = Identity.of(urn)
    chosen = tab if any(tab == key for key, _, _ in choices) else first
    return EntityPage(
        urn=urn,
        title=display_name(urn, subject.aspects),
        kind=kind_label(urn),
        kinds=kind_name(entity_type(urn), plural=True),
        kind_href=f"/kind/{quote(entity_type(urn), safe='')}",
        platform=identity.platform,
        environment=identity.environment,
        description=_edited(subject) or description_of(subject.properties),
        ingested=subject.ingested,
        removed=is_removed(subject.aspects),
        json_href=entity_href(urn, format="json"),
        tabs=tuple(
            Tab(
                key,
                label,
                entity_href(urn) if key == first else entity_href(urn, tab=key),
                key == chosen,
                count,
            )
            for key, label, count in choices
        ),
        overview=overview(store, subject) if chosen == "overview" else None,
        listing=_listing(store, subject, chosen, start),
        tests=test_rows(store, subject) if chosen == "tests" else None,
    )


def _edited(subject: Subject) -> str:
    """Return the description that somebody wrote in the catalog, which goes before the source's."""
    for name, stored in subject.aspects.items():
        if name.startswith("editable"):
            return description_of(stored.value)
    return ""


def _choices(store: Store, subject: Subject) -> list[tuple[str, str, int | None]]:
    """Return the tabs that the entity has: key, label and count; the first one is shown first."""
    choices: list[tuple[str, str, int | None]] = [("overview", "Overview", None)]
    match entity_type(subject.urn):
        case "mlModel":
            choices.append(("features", "Features", len(subject.urns("mlFeatures"))))
            choices.append(("group", "Group", len(subject.urns("groups"))))
        # Of these two a reader wants the content first.
        case "mlModelGroup":
            models = incoming(store, subject.urn, MEMBERS, 0, 0)[0]
            choices.insert(0, ("models", "Models", models))
        case "mlFeatureTable":
            choices.insert(0, ("features", "Features", len(subject.urns("mlFeatures"))))
        case "test":
            choices.append(("failing", "Failing", _pointing(store, subject, "failing")))
            choices.append(("passing", "Passing", _pointing(store, subject, "passing")))
        case _:
            if used := _pointing(store, subject, "used"):
                choices.append(("used", "Used by", used))
    if TEST_RESULTS in subject.aspects:
        results = subject.aspects[TEST_RESULTS].value
        found = sum(len(results.get(side) or []) for side in ("passing", "failing"))
        choices.append(("tests", "Tests", found))
    return choices


def _pointing(store: Store, subject: Subject, tab: str) -> int:
    return incoming(store, subject.urn, _REFERRING[tab], 0, 0)[0]


def _listing(store: Store, subject: Subject, tab: str, start: int) -> EntityList | None:
    if tab in _REFERRED:
        return referred(store, subject, _REFERRED[tab], tab, start)
    if tab in _REFERRING:
        return referring(store, subject, _REFERRING[tab], tab, start)
    return members(store, subject, start) if tab == "models" else None
