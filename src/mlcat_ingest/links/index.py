"""The index of the feature stores of a recipe: it finds the feature of a reference.

A `FeatureIndex` holds the tables, features, keys and sets of one store; `Features` looks a
reference up in those of all stores.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.metadata.naming import Name, Naming
from mlcat_ingest.metadata.urn import decoded_parts, raw_parts


class Ref(NamedTuple):
    """A feature by the names of its table and its own.

    Without a `namespace`, `table` is either a full name or one without its namespace. `asked_as`
    are names that the table goes by in columns, beside its own.
    """

    table: str
    feature: str
    namespace: str | None = None
    asked_as: tuple[str, ...] = ()

    def __str__(self) -> str:
        name = f"{self.table}:{self.feature}"
        return name if self.namespace is None else f"{self.namespace}.{name}"

    @property
    def columns(self) -> Iterator[str]:
        """The names that a column of this feature may have in what a store returned."""
        yield self.feature
        for table in (self.table, *self.asked_as):
            yield f"{table}__{self.feature}"


@dataclass(frozen=True, slots=True)
class IndexedTable:
    """A table: its own name as in URNs, its features, and the columns that are no inputs.

    A table that is not `complete` may have more features.
    """

    namespace: str | None
    table: str
    naming: Naming
    name: Name
    features: frozenset[str]
    not_inputs: frozenset[str] = frozenset()
    labels: bool = False
    complete: bool = True
    sources: frozenset[str] = frozenset()

    def urn(self, feature: str) -> str:
        """Return the URN of a feature.

        Raises:
            InvalidUrnError: it can have none.
        """
        return self.naming.feature(self.name, feature).urn

    def ref(self, feature: str) -> Ref:
        """Return a reference to a feature."""
        return Ref(self.table, feature, self.namespace)

    def is_no_input(self, feature: str) -> bool:
        """Return whether a model has the column in its table but not among its inputs."""
        return self.labels or feature in self.not_inputs


class FeatureRef(NamedTuple):
    """A feature by the names that its store gives it, within one namespace."""

    table: str
    feature: str


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """Features that are asked for together by a name: Feast's feature service.

    `aliases` maps another name under which it asks for a table to the table's own.
    """

    namespace: str | None
    name: str
    features: tuple[FeatureRef, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)

    def refs(self) -> Iterator[Ref]:
        """Yield its features as references."""
        for table, feature in self.features:
            asked = tuple(alias for alias, base in self.aliases.items() if base == table)
            yield Ref(table, feature, self.namespace, asked)


class FeatureIndex:
    """The features of one store, added while it is read. Not safe for threads that write.

    Cost: memory for the names of all features, about 20 MB for 100,000 of them.
    """

    def __init__(self) -> None:
        self.complete = True
        """False if the store holds what could not be read: what is not here may be there."""
        self.tables: dict[tuple[str | None, str], IndexedTable] = {}
        """Every table, by its namespace and its own name."""
        self._full: dict[str, IndexedTable] = {}
        self._bare: dict[str, list[IndexedTable]] = {}
        self._sets: dict[tuple[str | None, str], FeatureSet] = {}
        self._aliases: dict[tuple[str | None, str], set[str]] = {}
        self.namespaces: dict[str | None, Naming] = {}
        """The namespaces that have a table, and how their tables are named."""

    def add_table(
        self,
        naming: Naming,
        namespace: str | None,
        table: str,
        features: Iterable[str],
        *,
        keys: Iterable[str] = (),
        labels: bool = False,
        complete: bool = True,
        sources: Iterable[str] = (),
    ) -> None:
        """Add a table; one that can have no URN is nothing that could be linked.

        `keys` are its columns that rows are looked up by.
        """
        try:
            name = naming.feature_table(namespace, table)
        except InvalidUrnError:
            return
        earlier = self.tables.get((namespace, table))
        kept = frozenset(features) | (earlier.features if earlier else frozenset())
        not_inputs, origins = frozenset(keys), frozenset(sources)
        indexed = IndexedTable(
            namespace, table, naming, name, kept, not_inputs, labels, complete, origins
        )
        self.tables[namespace, table] = indexed
        self.namespaces.setdefault(namespace, naming)
        self._full[name.name] = indexed
        self._full[table if namespace is None else f"{namespace}.{table}"] = indexed
        same = [other for other in self._bare.get(table, ()) if other.namespace != namespace]
        self._bare[table] = [*same, indexed]

    def add_set(self, feature_set: FeatureSet) -> None:
        """Add a set of features."""
        namespace = feature_set.namespace
        self._sets[namespace, feature_set.name] = feature_set
        for alias, table in feature_set.aliases.items():
            self._aliases.setdefault((namespace, alias), set()).add(table)

    def tables_of(self, ref: Ref, feature_set: str | None = None) -> Iterator[IndexedTable]:
        """Yield the tables that a reference may mean.

        A name is another one that `feature_set` gives to a table for that feature, else that of a
        table, else one that any set of the namespace gives to it.
        """
        if ref.namespace is None:
            by_full_name = self._full.get(ref.table)
            yield from [by_full_name] if by_full_name else self._bare.get(ref.table, ())
            return
        origin = self.feature_set(ref.namespace, feature_set) if feature_set else None
        base = origin.aliases.get(ref.table) if origin else None
        table = self.tables.get((ref.namespace, ref.table))
        if origin and base and (table is None or (base, ref.feature) in origin.features):
            bases = {base}
        elif table is not None:
            bases = {ref.table}
        else:
            bases = self._aliases.get((ref.namespace, ref.table), set())
        for base in sorted(bases):
            if aliased := self.tables.get((ref.namespace, base)):
                yield aliased

    def feature_set(self, namespace: str | None, name: str) -> FeatureSet | None:
        """Return a set of features, None where there is none."""
        return self._sets.get((namespace, name))


State = Literal["held", "made", "to_ask", "unknown", "ambiguous", "no_input"]


class FeatureMatch(NamedTuple):
    """A feature that a run names, and its state.

    `held`: a store of the recipe has it. `made`: the source makes it itself. `to_ask`: the catalog
    has to be asked. `unknown`: its store has no such feature; `urn` is the one it would have, if
    any. `ambiguous`: it may be one of several. `no_input`: a key or a label.
    """

    text: str
    state: State
    urn: str | None = None
    ref: Ref | None = None


@dataclass(frozen=True)
class Features:
    """Looks references up in the `indexes` of all stores, whose order does not matter. Pure."""

    indexes: Sequence[FeatureIndex] = ()

    def only_namespace(self) -> str | None:
        """Return the one namespace that there is; None where there is none, or another one."""
        namespaces = {name for index in self.indexes for name in index.namespaces}
        return namespaces.pop() if len(namespaces) == 1 else None

    def look_up(self, ref: Ref, elsewhere: Naming, feature_set: str | None = None) -> FeatureMatch:
        """Return the feature that `ref` means.

        `elsewhere` names features of namespaces that no store of the recipe has. `feature_set`
        is the set that the reference may have come from.
        """
        tables = [table for index in self.indexes for table in index.tables_of(ref, feature_set)]
        if not tables:
            return _match(ref, "to_ask", self._urns_elsewhere(ref, elsewhere))
        if any(table.is_no_input(ref.feature) for table in tables):
            return FeatureMatch(str(ref), "no_input", None, ref)
        if holding := [table for table in tables if ref.feature in table.features]:
            return _match(ref, "held", _urns(holding, ref.feature))
        if partly_read := [table for table in tables if not table.complete]:
            return _match(ref, "to_ask", _urns(partly_read, ref.feature))
        return _match(ref, "unknown", _urns(tables, ref.feature))

    def look_up_urn(self, urn: str) -> FeatureMatch:
        """Return the feature of this URN; the text stays as it is."""
        try:
            table_name, _ = raw_parts(urn)
            feature = decoded_parts(urn)[1]
        except (InvalidUrnError, ValueError):
            return FeatureMatch(urn, "unknown")
        ref = Ref(table_name, feature)
        tables = [table for index in self.indexes for table in index.tables_of(ref)]
        if any(table.is_no_input(feature) for table in tables):
            return FeatureMatch(urn, "no_input")
        is_held = any(feature in table.features for table in tables)
        return FeatureMatch(urn, "held" if is_held else "to_ask", urn)

    def _urns_elsewhere(self, ref: Ref, elsewhere: Naming) -> Iterator[str]:
        namings = [
            index.namespaces[ref.namespace]
            for index in self.indexes
            if ref.namespace in index.namespaces
        ]
        for naming in namings or [elsewhere]:
            try:
                table = naming.feature_table(ref.namespace, ref.table)
                yield naming.feature(table, ref.feature).urn
            except InvalidUrnError:
                continue

    def sets(self, namespace: str | None, name: str) -> list[FeatureSet]:
        """Return the sets of this name, one for each store that has it."""
        sets = (index.feature_set(namespace, name) for index in self.indexes)
        return [feature_set for feature_set in sets if feature_set is not None]

    def knows_all_of(self, namespace: str | None) -> bool:
        """Return whether what the stores do not have of a namespace is not there at all."""
        holding = [index for index in self.indexes if namespace in index.namespaces]
        return bool(holding) and all(index.complete for index in holding)

    @cached_property
    def by_column(self) -> Mapping[str, Sequence[IndexedTable]]:
        """The tables that have a feature, by its name. Cost: made when first asked for."""
        return self._by(lambda table: table.features)

    @cached_property
    def by_source(self) -> Mapping[str, Sequence[IndexedTable]]:
        """The tables that are made from a dataset, by its URN. Cost: as of `by_column`."""
        return self._by(lambda table: table.sources)

    def _by(
        self, names: Callable[[IndexedTable], Iterable[str]]
    ) -> dict[str, Sequence[IndexedTable]]:
        groups = defaultdict[str, list[IndexedTable]](list)
        for table in (table for index in self.indexes for table in index.tables.values()):
            for name in () if table.labels else names(table):
                groups[name].append(table)
        return {**groups}


def _urns(tables: Iterable[IndexedTable], feature: str) -> Iterator[str]:
    for table in tables:
        try:
            yield table.urn(feature)
        except InvalidUrnError:
            continue


def _match(ref: Ref, state: State, urns: Iterable[str]) -> FeatureMatch:
    distinct = set(urns)
    if len(distinct) != 1:
        return FeatureMatch(str(ref), "ambiguous" if distinct else "unknown", None, ref)
    return FeatureMatch(str(ref), state, distinct.pop(), ref)
