"""The comparison of a few models: what differs first, the best of each metric marked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.schema.virtual import Identity
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.facts import facts_of
from mlcat_ingest.catalog.web.ui.lists import Aspects, display_name, numbers_of, properties_of
from mlcat_ingest.catalog.web.ui.runs import is_better_less
from mlcat_ingest.catalog.web.ui.text import entity_href, short_number

LEAST, MOST = 2, 10
"""How many models are compared."""

_FAMILIES: Final = (("params.", "Parameters"), ("metrics.", "Metrics"))


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One fact, parameter or metric of all models; `best` is the index of the best value."""

    name: str
    cells: tuple[str, ...]
    best: int | None = None

    @property
    def differs(self) -> bool:
        """True if not all models have the same."""
        return len(set(self.cells)) > 1


def compare_page(store: Store, urns: Sequence[str]) -> Mapping[str, object]:
    """Return the comparison of models.

    Raises:
        BadRequestError: they are not two to ten that the catalog has.

    Cost: a handful of SQL statements a model.
    """
    stored = store.get_many(list(dict.fromkeys(urns)))
    found = [(urn, stored[urn]) for urn in dict.fromkeys(urns) if urn in stored]
    if not LEAST <= len(found) <= MOST:
        raise BadRequestError(f"choose {LEAST} to {MOST} models of a group to compare them")
    numbers = [numbers_of(properties_of(urn, aspects)) for urn, aspects in found]
    sections = [("Run", _facts(store, found))]
    for family, label in _FAMILIES:
        names = sorted({name for one in numbers for name in one if name.startswith(family)})
        rows = [_row(name, [one.get(name, "") for one in numbers]) for name in names]
        sections.append((label, sorted(rows, key=lambda row: not row.differs)))
    return {
        "models": [
            {"name": display_name(urn, aspects), "href": entity_href(urn)} for urn, aspects in found
        ],
        "sections": [(label, rows) for label, rows in sections if rows],
    }


def _row(name: str, values: Sequence[str]) -> ComparedRow:
    best = None
    given = {
        at: number for at, value in enumerate(values) if (number := _number(value)) is not None
    }
    if name.startswith("metrics.") and len(set(given.values())) > 1:
        best = (min if is_better_less(name) else max)(given, key=given.__getitem__)
    return ComparedRow(name.partition(".")[2], tuple(map(short_number, values)), best)


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return None if number != number else number  # noqa: PLR0124 - NaN is not itself


def _facts(store: Store, found: Sequence[tuple[str, Aspects]]) -> list[ComparedRow]:
    """Return a row for each fact that some model has, such as status, datasets and code."""
    columns = []
    for urn, aspects in found:
        properties = properties_of(urn, aspects)
        facts = {
            fact.label: ", ".join(piece.text for piece in fact.pieces)
            for fact in facts_of(store, urn, aspects, properties)
        }
        features = [Identity.of(feature).name for feature in properties.get("mlFeatures") or []]
        columns.append(facts | ({"Features": ", ".join(features)} if features else {}))
    labels = dict.fromkeys(label for facts in columns for label in facts)
    return [
        ComparedRow(label, tuple(facts.get(label, "") for facts in columns)) for label in labels
    ]
