"""Rows of lists: entities as links, with what a reader wants to see beside the name."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from mlcat_ingest.catalog.schema.identity import Identity
from mlcat_ingest.catalog.schema.values import AspectVersion
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.text import (
    created_at,
    entity_href,
    entity_type,
    kind_label,
    scalar,
    short_number,
)
from mlcat_ingest.metadata.aspects.assets import TEST_RESULTS
from mlcat_ingest.metadata.aspects.common import STATUS
from mlcat_ingest.metadata.registry import ENTITIES

PAGE_ROWS: Final = 50
"""How many rows a page of a list has."""

PROPERTIES: Final = {
    name: kind.properties
    for name, kind in ENTITIES.items()
    if kind.shows_properties and kind.properties is not None
}
"""Entity type to the aspect that has its name and description."""

_SHOWN: Final = frozenset({*PROPERTIES.values(), STATUS, TEST_RESULTS})
_MOST_METRICS: Final = 4

Aspects = Mapping[str, AspectVersion]


@dataclass(frozen=True, slots=True)
class ListRow:
    """One entity of a list. `ingested` is false where it is only referred to."""

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
    passing: int = 0
    failing: int = 0
    cells: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pager:
    """Which part of a list is shown; `before` and `after` are addresses, None at the ends."""

    first: int
    last: int
    total: int
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class EntityList:
    """A page of rows, with the headings of their extra cells; `mixed` has several kinds."""

    rows: tuple[ListRow, ...]
    pager: Pager
    columns: tuple[str, ...] = ()
    mixed: bool = False

    def has(self, field: str) -> bool:
        """Return whether any row says something in `field`, so that a column for it is of use."""
        return any(getattr(row, field) for row in self.rows)


def pager(total: int, start: int, shown: int, address: Any) -> Pager:
    """Return the pager of `shown` rows from `start`; `address(start)` is where a page is."""
    return Pager(
        first=min(start + 1, start + shown),
        last=start + shown,
        total=total,
        before=address(max(0, start - PAGE_ROWS)) if start else None,
        after=address(start + PAGE_ROWS) if start + shown < total and shown else None,
    )


def properties_of(urn: str, aspects: Aspects) -> Mapping[str, Any]:
    """Return the aspect with the entity's name and description, empty where it is not set."""
    stored = aspects.get(PROPERTIES.get(entity_type(urn), ""))
    return {} if stored is None else stored.value


def display_name(urn: str, aspects: Aspects) -> str:
    """Return the name that people gave the entity, or else the one in its URN."""
    properties = properties_of(urn, aspects)
    for field in ("displayName", "name"):
        if isinstance(name := properties.get(field), str) and name.strip():
            return name
    return Identity.of(urn).name


def description_of(properties: Mapping[str, Any]) -> str:
    """Return the description in an aspect with properties; glossary terms call it a definition."""
    for field in ("description", "definition"):
        if isinstance(text := properties.get(field), str):
            return text
    return ""


def is_removed(aspects: Aspects) -> bool:
    """Return whether the entity is marked as removed."""
    return STATUS in aspects and aspects[STATUS].value.get("removed") is True


def rows_of(store: Store, urns: Sequence[str]) -> list[ListRow]:
    """Return a row for each of `urns`, in their order.

    Cost: one SQL statement for each thousand URNs.
    """
    stored = store.get_many(urns, _SHOWN)
    return [_row(urn, stored.get(urn)) for urn in urns]


def names_of(store: Store, urns: Sequence[str]) -> dict[str, str]:
    """Return what people call each of `urns`, known to the catalog or not.

    Cost: one SQL statement for each thousand URNs.
    """
    stored = store.get_many(urns, _SHOWN)
    return {urn: display_name(urn, stored.get(urn, {})) for urn in urns}


def model_rows(store: Store, urns: Sequence[str]) -> tuple[tuple[str, ...], list[ListRow]]:
    """Return the metrics that most of these models have, and a row for each with their values."""
    stored = store.get_many(urns, _SHOWN)
    metrics = {urn: _metrics(properties_of(urn, stored.get(urn, {}))) for urn in urns}
    columns = _common(metrics.values())
    rows = [
        _row(urn, stored.get(urn), tuple(metrics[urn].get(name, "") for name in columns))
        for urn in urns
    ]
    return columns, rows


def _metrics(properties: Mapping[str, Any]) -> dict[str, str]:
    return {
        str(metric.get("name")): short_number(scalar(metric.get("value")))
        for metric in properties.get("trainingMetrics") or []
    }


def _common(metrics: Collection[Mapping[str, str]]) -> tuple[str, ...]:
    had: dict[str, int] = {}
    for of_one in metrics:
        for name in of_one:
            had[name] = had.get(name, 0) + 1
    return tuple(sorted(had, key=lambda name: (-had[name], name))[:_MOST_METRICS])


def _row(urn: str, stored: Aspects | None, cells: tuple[str, ...] = ()) -> ListRow:
    aspects = stored or {}
    properties = properties_of(urn, aspects)
    results = aspects[TEST_RESULTS].value if TEST_RESULTS in aspects else {}
    return ListRow(
        urn=urn,
        href=entity_href(urn),
        name=display_name(urn, aspects),
        kind=kind_label(urn),
        platform=Identity.of(urn).platform,
        description=description_of(properties),
        ingested=stored is not None,
        removed=is_removed(aspects),
        data_type=scalar(properties.get("dataType")),
        created=created_at(properties),
        passing=len(results.get("passing") or []),
        failing=len(results.get("failing") or []),
        cells=cells,
    )
