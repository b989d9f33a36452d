"""What the tabs of an entity's page show."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui import queries
from mlcat_ingest.catalog.web.ui.facts import (
    Fact,
    NamedValue,
    custom_properties,
    facts_of,
    hyper_parameters,
    metrics,
)
from mlcat_ingest.catalog.web.ui.rows import (
    PAGE_ROWS,
    PROPERTIES,
    Aspects,
    EntityList,
    display_name,
    model_rows,
    pager,
    properties_of,
    rows_of,
)
from mlcat_ingest.catalog.web.ui.text import entity_href, moment, scalar
from mlcat_ingest.metadata.aspects.assets import TEST_INFO, TEST_RESULTS
from mlcat_ingest.metadata.aspects.common import BROWSE_PATHS_V2, STATUS
from mlcat_ingest.metadata.aspects.governance import (
    DOMAINS,
    GLOBAL_TAGS,
    GLOSSARY_TERMS,
    INSTITUTIONAL_MEMORY,
    OWNERSHIP,
)
from mlcat_ingest.metadata.aspects.ml import SOURCE_CODE

MEMBERS: Final = frozenset({"MemberOf"})
"""The relationship of the models that name a group."""

_SHOWN_IN_PLACE: Final = frozenset(
    {
        *PROPERTIES.values(),
        OWNERSHIP,
        GLOBAL_TAGS,
        GLOSSARY_TERMS,
        DOMAINS,
        STATUS,
        TEST_RESULTS,
        SOURCE_CODE,
        INSTITUTIONAL_MEMORY,
        BROWSE_PATHS_V2,
    }
)


@dataclass(frozen=True, slots=True)
class Subject:
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
class TestRow:
    """The outcome of one metadata test."""

    href: str
    name: str
    description: str
    passed: bool
    when: str


@dataclass(frozen=True, slots=True)
class Overview:
    """The first tab: everything the catalog knows that has no tab of its own."""

    facts: tuple[Fact, ...]
    metrics: tuple[NamedValue, ...]
    parameters: tuple[NamedValue, ...]
    custom: tuple[NamedValue, ...]
    bookkeeping: tuple[NamedValue, ...]
    definition: str
    others: tuple[tuple[str, str], ...]


def overview(store: Store, subject: Subject) -> Overview:
    """Return the first tab of an entity's page."""
    properties = subject.properties
    return Overview(
        facts=facts_of(store, subject.aspects, properties),
        metrics=metrics(properties),
        parameters=hyper_parameters(properties),
        custom=custom_properties(properties, ours=False),
        bookkeeping=custom_properties(properties, ours=True),
        definition=_definition(properties.get("definition")),
        others=tuple(
            (name, _pretty(stored.value))
            for name, stored in subject.aspects.items()
            if name not in _SHOWN_IN_PLACE and not name.endswith("Key")
        ),
    )


def _definition(definition: object) -> str:
    """Return the text of a metadata test, laid out if it is JSON."""
    text = scalar(definition.get("json")) if isinstance(definition, Mapping) else ""
    try:
        return _pretty(orjson.loads(text))
    except orjson.JSONDecodeError:
        return text


def _pretty(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def referred(store: Store, subject: Subject, field: str, tab: str, start: int) -> EntityList:
    """Return a page of what a list field of the entity refers to, in stored order."""
    urns = subject.urns(field)
    shown = urns[start : start + PAGE_ROWS]
    return EntityList(
        tuple(rows_of(store, shown)), _pager(subject, tab, len(urns), start, len(shown))
    )


def members(store: Store, subject: Subject, start: int) -> EntityList:
    """Return a page of the models of a group, with their most common metrics; newest first."""
    total, urns = incoming(store, subject.urn, MEMBERS, start, PAGE_ROWS)
    columns, rows = model_rows(store, urns)
    return EntityList(tuple(rows), _pager(subject, "models", total, start, len(urns)), columns)


def referring(
    store: Store, subject: Subject, relationships: Collection[str] | None, tab: str, start: int
) -> EntityList:
    """Return a page of the entities with such an edge to this one (None: any), newest first."""
    total, urns = incoming(store, subject.urn, relationships, start, PAGE_ROWS)
    part = _pager(subject, tab, total, start, len(urns))
    return EntityList(tuple(rows_of(store, urns)), part, mixed=True)


def incoming(
    store: Store, urn: str, relationships: Collection[str] | None, start: int, count: int
) -> tuple[int, Sequence[str]]:
    """Return how many entities refer to `urn`, and a page of them; removed ones are left out."""
    page = store.read(
        lambda connection: queries.pointing_at(connection, urn, relationships, start, count)
    )
    return page.total, page.urns


def _pager(subject: Subject, tab: str, total: int, start: int, shown: int) -> Any:
    return pager(total, start, shown, lambda at: entity_href(subject.urn, tab=tab, start=at))


def test_rows(store: Store, subject: Subject) -> tuple[TestRow, ...]:
    """Return the stored outcomes of metadata tests, the failed ones first."""
    stored = subject.aspects.get(TEST_RESULTS)
    results: Mapping[str, Any] = {} if stored is None else stored.value
    outcomes = [
        (entry, side == "passing")
        for side in ("failing", "passing")
        for entry in results.get(side) or []
    ]
    tests = store.get_many([entry["test"] for entry, _ in outcomes], {TEST_INFO})
    return tuple(_test_row(entry, tests, passed=passed) for entry, passed in outcomes)


def _test_row(entry: Mapping[str, Any], tests: Mapping[str, Aspects], *, passed: bool) -> TestRow:
    urn = entry["test"]
    aspects = tests.get(urn, {})
    return TestRow(
        href=entity_href(urn),
        name=display_name(urn, aspects),
        description=scalar(properties_of(urn, aspects).get("description")),
        passed=passed,
        when=moment((entry.get("lastComputed") or {}).get("time")),
    )
