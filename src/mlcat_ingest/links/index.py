"""The index of what one feature store holds: tables, features, keys and sets, by their names."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.links.refs import Ref
from mlcat_ingest.metadata.naming import Name, Naming


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


@dataclass(frozen=True, slots=True)
class IndexedSet:
    """Features that are asked for together; `aliases` maps names for tables to their own."""

    features: tuple[tuple[str, str], ...]
    aliases: Mapping[str, str]

    def refs(self, namespace: str | None) -> Iterator[Ref]:
        """Yield its features as references."""
        for table, feature in self.features:
            asked = tuple(alias for alias, base in self.aliases.items() if base == table)
            yield Ref(table, feature, namespace, asked)


class FeatureIndex:
    """What one store holds, filled while it is read. Not safe for threads that write.

    Cost: memory for the names of all features, about 20 MB for 100,000 of them.
    """

    def __init__(self) -> None:
        """Hold nothing."""
        self.complete = True
        self._tables: dict[tuple[str | None, str], IndexedTable] = {}
        self._full: dict[str, IndexedTable] = {}
        self._bare: dict[str, list[IndexedTable]] = {}
        self._sets: dict[tuple[str | None, str], IndexedSet] = {}
        self._aliases: dict[tuple[str | None, str], set[str]] = {}
        self._namings: dict[str | None, Naming] = {}

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
        earlier = self._tables.get((namespace, table))
        kept = frozenset(features) | (earlier.features if earlier else frozenset())
        found = IndexedTable(
            *(namespace, table, naming, name, kept, frozenset(keys), labels, complete),
            frozenset(sources),
        )
        self._tables[namespace, table] = found
        self._namings.setdefault(namespace, naming)
        self._full[name.name] = found
        self._full[table if namespace is None else f"{namespace}.{table}"] = found
        same = [one for one in self._bare.get(table, ()) if one.namespace != namespace]
        self._bare[table] = [*same, found]

    def add_set(
        self,
        namespace: str | None,
        name: str,
        features: Iterable[tuple[str, str]],
        aliases: Mapping[str, str],
    ) -> None:
        """Add a set of features, each by the names of its table and its own."""
        self._sets[namespace, name] = IndexedSet(tuple(features), dict(aliases))
        for alias, table in aliases.items():
            self._aliases.setdefault((namespace, alias), set()).add(table)

    def add_unreadable(self) -> None:
        """Take note that the store holds what could not be read: what is not here may be there."""
        self.complete = False

    @property
    def namespaces(self) -> Mapping[str | None, Naming]:
        """The namespaces that have a table, and how their tables are named."""
        return self._namings

    def tables(self) -> Iterable[IndexedTable]:
        """Return every table."""
        return self._tables.values()

    def tables_of(self, ref: Ref, feature_set: str | None = None) -> Iterator[IndexedTable]:
        """Yield the tables that a reference may mean.

        A name is that of a table, or another one that a set gives to it: `feature_set`, if it
        does, and any set of the namespace where there is no table of the name.
        """
        if ref.namespace is None:
            found = self._full.get(ref.table)
            yield from [found] if found else self._bare.get(ref.table, ())
            return
        table = self._tables.get((ref.namespace, ref.table))
        if table is not None:
            yield table
        asked = self.feature_set(ref.namespace, feature_set) if feature_set else None
        bases = {asked.aliases[ref.table]} if asked and ref.table in asked.aliases else set()
        if table is None and not bases:
            bases = self._aliases.get((ref.namespace, ref.table), set())
        for base in sorted(bases):
            aliased = self._tables.get((ref.namespace, base))
            if aliased is not None:
                yield aliased

    def feature_set(self, namespace: str | None, name: str) -> IndexedSet | None:
        """Return a set of features, None where there is none."""
        return self._sets.get((namespace, name))
