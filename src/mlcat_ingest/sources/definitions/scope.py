"""One feature store: how its things are named, and what the recipe says of them."""

from dataclasses import dataclass, field, replace
from typing import Self

from mlcat_ingest.metadata.naming import Name, Naming
from mlcat_ingest.sources.datasets import Datasets
from mlcat_ingest.sources.definitions.model import DatasetSource, FeatureTable
from mlcat_ingest.sources.owners import Owners


@dataclass(frozen=True, slots=True)
class FeatureScope:
    """What mapping the tables of one namespace needs beside them."""

    naming: Naming
    source_key: str
    owners: Owners = field(default_factory=Owners, compare=False, repr=False)
    datasets: Datasets = field(default_factory=Datasets, compare=False, repr=False)

    def of(self, table: FeatureTable) -> Self:
        """Return the scope of a table, which may be of another platform than its source.

        Raises:
            ValueError: the platform cannot be part of names.
        """
        if table.platform in {None, self.naming.platform}:
            return self
        return replace(self, naming=self.naming.on(table.platform))

    def table(self, table: FeatureTable) -> Name:
        """Return the name of a table of this scope.

        Raises:
            InvalidUrnError: it has none.
        """
        return self.naming.feature_table(table.namespace, table.name)

    def dataset(self, source: DatasetSource) -> str | None:
        """Return the URN of a dataset, None for a place that can have none."""
        if isinstance(source, str):
            return source
        return self.datasets.urn(self.datasets.named(*source), self.naming.env)
