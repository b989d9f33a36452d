"""Definitions in the index that links from runs are looked up in."""

from collections.abc import Iterator

from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.sources.definitions.model import LABEL_VIEW, FeatureSet, FeatureTable
from mlcat_ingest.sources.definitions.scope import FeatureScope


def index_table(index: FeatureIndex, scope: FeatureScope, table: FeatureTable) -> None:
    """Add a table, its features, and the columns that its rows are looked up by."""
    scope = scope.of(table)
    index.add_table(
        scope.naming,
        table.namespace,
        table.name,
        [feature.name for feature in table.features],
        keys=[key.column or key.name for key in table.keys],
        labels=table.kind == LABEL_VIEW,
        complete=table.complete,
        sources=_sources(scope, table),
    )


def index_labels(index: FeatureIndex, scope: FeatureScope, table: FeatureTable) -> None:
    """Add a table that is left out if it is one of labels, which are never looked for elsewhere."""
    if table.kind == LABEL_VIEW:
        index_table(index, scope, table)


def _sources(scope: FeatureScope, table: FeatureTable) -> Iterator[str]:
    for source in table.sources:
        urn = scope.dataset(source)
        if urn is not None:
            yield urn


def index_set(index: FeatureIndex, found: FeatureSet) -> None:
    """Add a set of features."""
    index.add_set(found.namespace, found.name, found.features, found.aliases)
