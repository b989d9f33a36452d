"""The comparison of a few models: what differs first, the best of each metric marked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Final
from urllib.parse import urlencode

from mlcat_ingest.catalog.errors import BadRequestError
from mlcat_ingest.catalog.schema.virtual import Identity
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.directions import METRICS, Better
from mlcat_ingest.catalog.web.ui.facts import facts_of
from mlcat_ingest.catalog.web.ui.lists import (
    Aspects,
    ListRow,
    model_rows,
    page_directions,
    properties_of,
)
from mlcat_ingest.catalog.web.ui.text import Rounded

LEAST, MOST = 2, 10
"""How many models are compared."""

_FAMILIES: Final = (("params.", "Parameters"), ("metrics.", "Metrics"))


@dataclass(frozen=True, slots=True)
class _ComparedRow:
    """One fact, parameter or metric of all models.

    `best` are the indexes of the best values, which they are by `best_by`. Where nothing says which
    they are a reader chooses, by one of `choices`: labels and addresses.
    """

    name: str
    cells: tuple[str, ...]
    best: tuple[int, ...] = ()
    best_by: str = ""
    choices: tuple[tuple[str, str], ...] = ()

    @property
    def differs(self) -> bool:
        """True if not all models have the same."""
        return len({cell.full if isinstance(cell, Rounded) else cell for cell in self.cells}) > 1


@dataclass(frozen=True, slots=True)
class _ComparePage:
    """The comparison of models."""

    models: Sequence[ListRow]
    sections: Annotated[Sequence[tuple[str, Sequence[_ComparedRow]]], "by their labels"]


def compare_page(store: Store, urns: Sequence[str], chosen: Sequence[str] = ()) -> _ComparePage:
    """Return the comparison of models.

    `chosen` has the order with the best value first, for metrics of which the reader said it.

    Raises:
        BadRequestError: they are not two to ten that the catalog has.

    Cost: a handful of SQL statements a model.
    """
    stored = store.get_many(list(dict.fromkeys(urns)))
    found = [(urn, stored[urn]) for urn in dict.fromkeys(urns) if urn in stored]
    if not LEAST <= len(found) <= MOST:
        raise BadRequestError(
            f"Choose {LEAST} to {MOST} models, and not {len(found)}: in the list of a group, by "
            "the boxes before their names."
        )
    models = model_rows(store, [urn for urn, _ in found])
    in_groups = [properties_of(*one).get("groups") or [] for one in found]
    groups = store.get_many([urn for named in in_groups for urn in named])
    properties = [properties_of(urn, aspects) for urn, aspects in groups.items()]
    directions = page_directions(store, chosen, properties, models)
    address = urlencode([("urn", urn) for urn, _ in found], errors="replace")
    sections = [("Run", _facts(store, found))]
    for family, label in _FAMILIES:
        names = sorted({name for model in models for name in model.numbers})
        rows = [
            _row(name, models, directions.of(name), address)
            for name in names
            if name.startswith(family)
        ]
        sections.append((label, sorted(rows, key=lambda row: not row.differs)))
    return _ComparePage(models, [(label, rows) for label, rows in sections if rows])


def _row(
    name: str, models: Sequence[ListRow], direction: Better | None, address: str
) -> _ComparedRow:
    row = _ComparedRow(name.partition(".")[2], tuple(model.shown(name) for model in models))
    values = {
        at: float(model.numbers[name]) for at, model in enumerate(models) if model.may_be_best(name)
    }
    if not name.startswith(METRICS) or len(set(values.values())) < LEAST:
        return row
    if direction is None:
        orders = ("less", name), ("more", f"-{name}")
        hrefs = ((label, f"/compare?{address}&{urlencode({'best': one})}") for label, one in orders)
        return replace(row, choices=tuple(hrefs))
    value = (min if direction.less else max)(values.values())
    best = tuple(at for at in values if values[at] == value)
    return replace(row, best=best, best_by=str(direction))


def _facts(store: Store, found: Sequence[tuple[str, Aspects]]) -> list[_ComparedRow]:
    """Return a row for each fact that some model has, such as status, datasets and code."""
    columns = []
    for urn, aspects in found:
        properties = properties_of(urn, aspects)
        facts = {
            fact.label: ", ".join(piece.text for piece in fact.pieces)
            for fact in facts_of(store, urn, aspects, properties)
            if fact.label != "MLflow"
        }
        features = [Identity.of(feature).name for feature in properties.get("mlFeatures") or []]
        columns.append(facts | ({"Features": ", ".join(features)} if features else {}))
    labels = dict.fromkeys(label for facts in columns for label in facts)
    return [
        _ComparedRow(label, tuple(facts.get(label, "") for facts in columns)) for label in labels
    ]
