"""The lineage of one entity as two trees: what it comes from, and what comes from it.

They have the edges of GraphQL's lineage, and what DataHub draws no lineage of: the datasets that
models are trained and evaluated on, deployments, the features of a table, and registered versions.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mlcat_ingest.catalog.search.request import Criterion, SearchRequest
from mlcat_ingest.catalog.store.graph import (
    FROM_DESTINATION,
    TO_DESTINATION,
    LineageQuery,
    Reach,
    lineage,
    walk,
)
from mlcat_ingest.catalog.store.store import Store
from mlcat_ingest.catalog.web.ui.lists import ListRow, custom_of, rows_of
from mlcat_ingest.catalog.web.ui.text import entity_type
from mlcat_ingest.metadata.aspects.ml import ML_MODEL_PROPERTIES
from mlcat_ingest.metadata.reserved import RUN_MODEL, VERSIONS

HOPS: Final = 8
"""How many hops are shown."""

MOST: Final = 100
"""Most entities that are shown in one direction."""

EACH: Final = 20
"""Most links that are shown of one entity."""

_DATA: Final = frozenset({("mlModel", "TrainedOn"), ("mlModel", "EvaluatedOn")})
_DEPLOYMENTS: Final = frozenset({("mlModel", "DeployedTo")})
_OF_TABLES: Final = frozenset({("mlFeatureTable", "Contains"), ("mlFeatureTable", "KeyedBy")})


@dataclass(frozen=True, slots=True)
class LineageNode:
    """One entity of the tree, and those behind it; with `more` it has links that are not shown."""

    row: ListRow
    nodes: tuple["LineageNode", ...]
    more: bool


@dataclass(frozen=True, slots=True)
class LineageTree:
    """What is reached in one direction; it is `partial`, or as `deep` as is shown, or whole."""

    label: str
    nodes: tuple[LineageNode, ...]
    more: bool
    partial: bool
    deep: bool


def lineage_trees(store: Store, urn: str) -> Mapping[str, object]:
    """Return the lineage of `urn`, upstream first.

    Cost: at most a handful of SQL statements and a search for each hop, one more for the names.
    """
    trees = (_tree(store, urn, upstream=True), _tree(store, urn, upstream=False))
    return {"trees": trees, "hops": HOPS, "most": MOST, "each": EACH}


def _tree(store: Store, origin: str, *, upstream: bool) -> LineageTree:
    # What a table comes from is what its features come from; else it is behind its features.
    reversed_tables = upstream and entity_type(origin) == "mlFeatureTable"
    query = LineageQuery(
        upstream,
        0,
        EACH,
        include_missing=True,
        arriving=EACH + 1,
        from_destination=FROM_DESTINATION | _DATA | (_OF_TABLES if reversed_tables else set()),
        to_destination=TO_DESTINATION | _DEPLOYMENTS | (set() if reversed_tables else _OF_TABLES),
    )
    more: set[str] = set()

    def neighbours(urns: Sequence[str]) -> Iterator[tuple[str, str]]:
        for urn, page in store.read(partial(lineage, urns=urns, query=query)).items():
            if page.total > EACH:
                more.add(urn)
            yield from ((urn, end.urn) for end in page.entities)
        yield from _registrations(store, urns, upstream=upstream)

    reach = Reach(origin, MOST)
    walk(reach, neighbours, HOPS, MOST)
    rows = {row.urn: row for row in rows_of(store, list(reach.degrees))}
    behind: dict[str, list[str]] = {}
    for urn, before in reach.before.items():
        behind.setdefault(before, []).append(urn)

    def nodes(urn: str) -> tuple[LineageNode, ...]:
        return tuple(
            LineageNode(rows[other], nodes(other), other in more) for other in behind.get(urn, ())
        )

    return LineageTree(
        "Upstream: what it comes from" if upstream else "Downstream: what comes from it",
        nodes(origin),
        origin in more,
        reach.partial,
        max(reach.degrees.values(), default=0) == HOPS,
    )


def _registrations(
    store: Store, urns: Collection[str], *, upstream: bool
) -> Iterator[tuple[str, str]]:
    """Yield the runs of those of `urns` that are versions, or else the versions of runs."""
    models = [urn for urn in urns if entity_type(urn) == "mlModel"]
    own = _custom(store, models)
    if upstream:
        yield from _runs(own)
    elif registered := [urn for urn, custom in own.items() if VERSIONS in custom]:
        versions = _custom(store, versions_of(store, registered))
        yield from ((run, version) for version, run in _runs(versions))


def _custom(store: Store, models: Sequence[str]) -> dict[str, Mapping[str, str]]:
    stored = store.get_many(models, {ML_MODEL_PROPERTIES})
    return {urn: custom_of(urn, aspects) for urn, aspects in stored.items()}


def _runs(models: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    return ((urn, custom[RUN_MODEL]) for urn, custom in models.items() if custom.get(RUN_MODEL))


def versions_of(store: Store, runs: Sequence[str]) -> list[str]:
    """Return the registered versions of at most a hundred runs, the first hundred of them."""
    named = Criterion("customProperties", tuple(f"{RUN_MODEL}={run}" for run in runs))
    request = SearchRequest(any_of=((named,),), count=MOST, highlight=False)
    return [hit.urn for hit in store.search(request).hits]
