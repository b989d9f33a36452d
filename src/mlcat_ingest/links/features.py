"""All that the feature stores of a recipe hold: which feature a reference means."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.links.index import FeatureIndex, IndexedSet, IndexedTable
from mlcat_ingest.links.refs import Ref
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.urn import parse, raw_parts

State = Literal["held", "to_ask", "unknown", "ambiguous", "no_input"]


class Wanted(NamedTuple):
    """A feature that a run names, and what is known of it.

    `held`: a store of the recipe has it. `to_ask`: only the catalog can tell. `unknown`: its store
    has no such feature; the URN it would have is told where there is one. `ambiguous`: it may be
    one of several. `no_input`: a key or a label.
    """

    text: str
    state: State
    urn: str | None = None
    ref: Ref | None = None


class Features:
    """Looks references up in the indexes of all stores. Pure."""

    def __init__(self, indexes: Sequence[FeatureIndex] = ()) -> None:
        """Look up in `indexes`, in whatever order."""
        self._indexes = indexes
        self._by_column: dict[str, list[IndexedTable]] | None = None
        self._by_source: dict[str, list[IndexedTable]] | None = None

    def only_namespace(self) -> str | None:
        """Return the one namespace that there is; None where there is none, or another one."""
        found = {name for index in self._indexes for name in index.namespaces}
        return found.pop() if len(found) == 1 else None

    def look_up(self, ref: Ref, elsewhere: Naming, feature_set: str | None = None) -> Wanted:
        """Return the feature that `ref` means.

        `elsewhere` names features of namespaces that no store of the recipe has. `feature_set`
        is the set that the reference may have come from.
        """
        tables = [one for index in self._indexes for one in index.tables_of(ref, feature_set)]
        if not tables:
            return _named(ref, "to_ask", self._urns_elsewhere(ref, elsewhere))
        if any(one.is_no_input(ref.feature) for one in tables):
            return Wanted(str(ref), "no_input", None, ref)
        holding = [one for one in tables if ref.feature in one.features]
        if holding:
            return _named(ref, "held", _urns(holding, ref.feature))
        partly_read = [one for one in tables if not one.complete]
        if partly_read:
            return _named(ref, "to_ask", _urns(partly_read, ref.feature))
        return _named(ref, "unknown", _urns(tables, ref.feature))

    def look_up_urn(self, urn: str) -> Wanted:
        """Return the feature of this URN; the text stays as it is."""
        try:
            table, _ = raw_parts(urn)
            feature = parse(urn).parts[1]
        except (InvalidUrnError, ValueError):
            return Wanted(urn, "unknown")
        ref = Ref(table, feature)
        tables = [one for index in self._indexes for one in index.tables_of(ref)]
        if any(one.is_no_input(feature) for one in tables):
            return Wanted(urn, "no_input")
        held = any(feature in one.features for one in tables)
        return Wanted(urn, "held" if held else "to_ask", urn)

    def _urns_elsewhere(self, ref: Ref, elsewhere: Naming) -> Iterator[str]:
        namings = [
            index.namespaces[ref.namespace]
            for index in self._indexes
            if ref.namespace in index.namespaces
        ]
        for naming in namings or [elsewhere]:
            try:
                table = naming.feature_table(ref.namespace, ref.table)
                yield naming.feature(table, ref.feature).urn
            except InvalidUrnError:
                continue

    def sets(self, namespace: str | None, name: str) -> list[IndexedSet]:
        """Return the sets of this name, one for each store that has it."""
        found = (index.feature_set(namespace, name) for index in self._indexes)
        return [one for one in found if one is not None]

    def knows_all_of(self, namespace: str | None) -> bool:
        """Return whether what the stores do not have of a namespace is not there at all."""
        holding = [index for index in self._indexes if namespace in index.namespaces]
        return bool(holding) and all(index.complete for index in holding)

    def with_column(self, column: str) -> Sequence[IndexedTable]:
        """Return the tables that have a feature of this name.

        Cost: an index of all features by name, made when first asked for.
        """
        if self._by_column is None:
            self._by_column = _grouped((one, one.features) for one in self._of_inputs())
        return self._by_column.get(column, ())

    def with_source(self, dataset: str) -> Sequence[IndexedTable]:
        """Return the tables that are made from the dataset of this URN.

        Cost: an index of all tables by source, made when first asked for.
        """
        if self._by_source is None:
            self._by_source = _grouped((one, one.sources) for one in self._of_inputs())
        return self._by_source.get(dataset, ())

    def _of_inputs(self) -> Iterator[IndexedTable]:
        return (one for index in self._indexes for one in index.tables() if not one.labels)


def _grouped(
    found: Iterable[tuple[IndexedTable, Iterable[str]]],
) -> dict[str, list[IndexedTable]]:
    groups: dict[str, list[IndexedTable]] = {}
    for table, names in found:
        for name in names:
            groups.setdefault(name, []).append(table)
    return groups


def _urns(tables: Iterable[IndexedTable], feature: str) -> Iterator[str]:
    for table in tables:
        try:
            yield table.urn(feature)
        except InvalidUrnError:
            continue


def _named(ref: Ref, state: State, urns: Iterable[str]) -> Wanted:
    found = set(urns)
    if len(found) > 1:
        return Wanted(str(ref), "ambiguous", None, ref)
    if not found:
        return Wanted(str(ref), "unknown", None, ref)
    return Wanted(str(ref), state, found.pop(), ref)
