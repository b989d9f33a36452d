"""The lineage of one entity as two trees: what it comes from, and what comes from it.

They have the edges of GraphQL's lineage, and what DataHub draws no lineage of: the datasets that
models are trained and evaluated on, deployments, the features of a table, and registered versions.
Membership is drawn as none: neither a table's own features, nor a run's experiment.
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
from mlcat_ingest.metadata.mlflow_keys import RUN_MODEL, VERSIONS

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
    """One entity of the tree, and those behind it; with `more` it has links that are not shown.

    Those behind one that is shown `again` are where it is shown first.
    """

    row: ListRow
    nodes: tuple["LineageNode", ...]
    more: bool
    again: bool


@dataclass(frozen=True, slots=True)
class _LineageTree:
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


def _tree(store: Store, origin: str, *, upstream: bool) -> _LineageTree:
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

    links: dict[str, dict[str, None]] = {}

    def neighbours(urns: Sequence[str]) -> Iterator[tuple[str, str]]:
        for urn, page in store.read(partial(lineage, urns=urns, query=query)).items():
            if page.total > EACH:
                more.add(urn)
            links.setdefault(urn, {}).update((end.urn, None) for end in page.entities)
        for urn, other in _registrations(store, urns, upstream=upstream):
            links.setdefault(urn, {})[other] = None
        yield from ((urn, other) for urn in urns for other in links.get(urn, ()))

    reach = Reach(origin, MOST)
    walk(reach, neighbours, HOPS, MOST)
    rows = {row.urn: row for row in rows_of(store, [origin, *reach.degrees])}
    drawn = {origin}

    def nodes(urn: str) -> Iterator[LineageNode]:
        for other in _behind(urn, links):
            if other in rows and other != origin and not _is_membership(rows[urn], rows[other]):
                again = other in drawn
                drawn.add(other)
                behind = () if again else tuple(nodes(other))
                yield LineageNode(rows[other], behind, other in more and not again, again)

    return _LineageTree(
        "Upstream: what it comes from" if upstream else "Downstream: what comes from it",
        tuple(nodes(origin)),
        origin in more,
        reach.partial,
        max(reach.degrees.values(), default=0) == HOPS,
    )


def _behind(urn: str, links: Mapping[str, Mapping[str, None]]) -> Mapping[str, None]:
    """Return what is linked to an entity; to a table what is linked to its features."""
    found: dict[str, None] = {}
    for other in links.get(urn, ()):
        is_own = (entity_type(urn), entity_type(other)) == ("mlFeatureTable", "mlFeature")
        found |= dict(links.get(other, {})) if is_own else {other: None}
    return found


def _is_membership(row: ListRow, other: ListRow) -> bool:
    """Return whether one of two is an experiment: its runs are in it."""
    return "ML Experiment" in {row.kind, other.kind}


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
