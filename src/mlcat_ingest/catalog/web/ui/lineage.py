"""The lineage of one entity as two trees, what it comes from and what comes from it, and drawn.

They have the edges of GraphQL's lineage, and what DataHub draws no lineage of: the datasets that
models are trained and evaluated on, deployments, the features of a table, and registered versions.
Membership is drawn as none: neither a table's own features, nor a run's experiment.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import Annotated, Final

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
from mlcat_ingest.catalog.web.ui.layered import Place, draw
from mlcat_ingest.catalog.web.ui.lists import (
    PAGE_ROWS,
    Listing,
    ListRow,
    custom_of,
    entity_columns,
    kind_of,
    pager,
    rows_of,
)
from mlcat_ingest.catalog.web.ui.text import entity_href, entity_type, kind_name
from mlcat_ingest.metadata.aspects import ML_MODEL_PROPERTIES, SUB_TYPES
from mlcat_ingest.metadata.mlflow_keys import RUN_MODEL, VERSIONS

HOPS: Final = 8
"""How many hops are shown."""

MOST: Final = 100
"""Most entities that are shown in one direction."""

EACH: Final = 12
"""Most links that are followed of one entity."""

_DATA: Final = frozenset({("mlModel", "TrainedOn"), ("mlModel", "EvaluatedOn")})
_DEPLOYMENTS: Final = frozenset({("mlModel", "DeployedTo")})
_OF_TABLES: Final = frozenset({("mlFeatureTable", "Contains"), ("mlFeatureTable", "KeyedBy")})

COUNTED: Final = 300
"""Most links of an entity that are counted, and listed."""

_EXPERIMENT: Final = "ML Experiment"
"""The kind of groups in which runs are: they do not come from each other."""

_WAYS: Final = {"upstream": "what it comes from", "downstream": "what comes from it"}

_WIDTH: Final = 156
_HEIGHT: Final = 40
_GAP: Final = 44
_COLUMN: Final = _WIDTH + _GAP
_ROW: Final = _HEIGHT + 12


@dataclass(frozen=True, slots=True)
class _Fold:
    """The links of an entity that are not drawn, and the address of a list of all its links."""

    text: str
    href: str


@dataclass(frozen=True, slots=True)
class _Node:
    """One entity of the tree, and those behind it; `fold` is in place of the others.

    Those behind one that is shown `again` are where it is shown first.
    """

    row: ListRow
    nodes: tuple["_Node", ...]
    fold: _Fold | None
    again: bool


@dataclass(frozen=True, slots=True)
class _LineageTree:
    """What is reached in one direction; it is `partial`, or as `deep` as is shown, or whole."""

    label: str
    root: _Node
    partial: bool
    deep: bool


@dataclass(frozen=True, slots=True)
class _PictureNode:
    """A box: its upper left corner, and the entity or the fold in it."""

    x: int
    y: int
    row: ListRow | None
    fold: _Fold | None


@dataclass(frozen=True, slots=True)
class _Picture:
    """Boxes, and the paths between them by SVG's commands; a path may lead `back`, from its end."""

    width: int
    height: int
    node_width: int
    node_height: int
    nodes: Sequence[_PictureNode]
    paths: Sequence[tuple[str, Annotated[bool, "back"]]]


@dataclass(frozen=True, slots=True)
class LineageView:
    """The lineage of an entity, upstream first: as trees, and both trees in one picture."""

    trees: tuple[_LineageTree, _LineageTree]
    picture: Annotated[_Picture | None, "none where both trees are empty"]
    hops: int = HOPS
    most: int = MOST
    each: int = EACH


def lineage_view(store: Store, urn: str) -> LineageView:
    """Return the lineage of `urn`.

    Cost: at most a handful of SQL statements and a search for each hop, one more for the names.
    """
    up, down = (_tree(store, urn, upstream=upstream) for upstream in (True, False))
    nodes: dict[str, ListRow | _Fold] = {urn: up.root.row}
    edges = [
        (start, end) if tree is down else (end, start)
        for tree in (up, down)
        for start, end in _edges(tree.root, nodes)
    ]
    return LineageView((up, down), _picture(nodes, edges) if edges else None)


def _edges(node: _Node, nodes: dict[str, ListRow | _Fold]) -> Iterator[tuple[str, str]]:
    """Yield the links of a tree, away from its root, and note what they lead to."""
    for other in node.nodes:
        nodes[other.row.urn] = other.row
        yield node.row.urn, other.row.urn
        yield from _edges(other, nodes)
    if node.fold is not None:
        nodes[node.fold.href] = node.fold
        yield node.row.urn, node.fold.href


class _Links:
    """What entities are linked to in one direction, read hop by hop."""

    def __init__(self, store: Store, origin: str, *, upstream: bool) -> None:
        self._store, self._upstream = store, upstream
        # A feature does not come from its table, but the table from what its features come from.
        of_table = _OF_TABLES if entity_type(origin) == "mlFeatureTable" else frozenset()
        self._query = LineageQuery(
            upstream,
            0,
            COUNTED,
            include_missing=True,
            arriving=COUNTED,
            from_destination=FROM_DESTINATION | _DATA | (of_table if upstream else set()),
            to_destination=TO_DESTINATION | _DEPLOYMENTS | (set() if upstream else of_table),
        )
        self._of: dict[str, dict[str, None]] = {}

    def read(self, urns: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Read the links of some entities, and yield those of each that are followed."""
        for urn, page in self._store.read(partial(lineage, urns=urns, query=self._query)).items():
            self._of[urn] = {end.urn: None for end in page.entities if end.urn != urn}
        for urn, other in _registrations(self._store, urns, upstream=self._upstream):
            self._of[urn][other] = None
        yield from ((urn, other) for urn in urns for other in islice(self._of[urn], EACH))

    def behind(self, urn: str) -> tuple[Mapping[str, None], bool]:
        """Return what is linked to an entity that was read, and whether that is all.

        To a table that is what is linked to its features.
        """
        found: dict[str, None] = {}
        own = self._of.get(urn, {})
        whole = len(own) < COUNTED
        features = set(self.features(urn))
        for other in own:
            found |= self._of.get(other, {}) if other in features else {other: None}
        return found, whole and all(feature in self._of for feature in features)

    def features(self, urn: str) -> Sequence[str]:
        """Return the features and keys in the links of a feature table: they are its own."""
        is_table = entity_type(urn) == "mlFeatureTable"
        own = self._of.get(urn, ()) if is_table else ()
        return [other for other in own if entity_type(other) in {"mlFeature", "mlPrimaryKey"}]


def _tree(store: Store, origin: str, *, upstream: bool) -> _LineageTree:
    links = _Links(store, origin, upstream=upstream)
    reach = Reach(origin, MOST)
    walk(reach, links.read, HOPS, MOST)
    rows = {row.urn: row for row in rows_of(store, [origin, *reach.degrees])}
    beyond = (other for urn in rows for other in links.behind(urn)[0] if other not in rows)
    stored = store.get_many([*islice(beyond, COUNTED)], {SUB_TYPES, ML_MODEL_PROPERTIES})
    kinds = {urn: row.kind for urn, row in rows.items()}
    kinds |= {urn: kind_of(urn, aspects) for urn, aspects in stored.items()}
    drawn = {origin}
    way = "upstream" if upstream else "downstream"

    def node(urn: str, *, again: bool = False) -> _Node:
        drawn.add(urn)
        row = rows[urn]
        nodes: list[_Node] = []
        folded: list[str] = []
        found, whole = ({}, True) if again or row.kind == _EXPERIMENT else links.behind(urn)
        is_table = entity_type(urn) == "mlFeatureTable"
        for other in found:
            if other not in rows or (is_table and len(nodes) == EACH):
                folded.append(other)
            elif other != origin and rows[other].kind != _EXPERIMENT:
                nodes.append(node(other, again=other in drawn))
        fold = None
        if folded:
            text = _named(folded, kinds, whole=whole)
            fold = _Fold(text, _list_href(origin, urn, way))
        return _Node(row, tuple(nodes), fold, again)

    return _LineageTree(
        f"{way.capitalize()}: {_WAYS[way]}",
        node(origin),
        reach.partial,
        max(reach.degrees.values(), default=0) == HOPS,
    )


def links_of(store: Store, origin: str, urn: str, way: str, start: int) -> Listing | None:
    """Return a page of what an entity in the lineage of another is linked to in one direction.

    That is None where there is no such direction.
    """
    if way not in _WAYS:
        return None
    links = _Links(store, origin, upstream=way == "upstream")
    list(links.read([urn]))
    list(links.read(links.features(urn)[:MOST]))
    found, whole = links.behind(urn)
    [named, *rows] = rows_of(store, [urn, *[*found][start : start + PAGE_ROWS]])
    return Listing(
        rows,
        entity_columns(rows, mixed=True),
        pager(len(found), start, len(rows), partial(_list_href, origin, urn, way)),
        title=f"{way.capitalize()} of {named.name}{'' if whole else ', the first of them'}",
    )


def _list_href(origin: str, urn: str, way: str, start: int = 0) -> str:
    return entity_href(
        origin, tab="lineage", of=urn, way=way, **({"start": start} if start else {})
    )


def _named(folded: Sequence[str], kinds: Mapping[str, str], *, whole: bool) -> str:
    """Return the number of some entities, and what they are called if all are called alike."""
    types = {urn: kind_name(entity_type(urn)) for urn in folded}
    called = {kinds.get(urn, name) for urn, name in types.items()}
    called = called if len(called) == 1 else {*types.values()}
    [kind] = called if len(called) == 1 else ["more"]
    words = " ".join(word if word.isupper() else word.lower() for word in kind.split())
    several = len(called) == 1 and (len(folded) > 1 or not whole)
    return f"+{len(folded):,} {'' if whole else 'or more '}{words}{'s' if several else ''}"


def _picture(nodes: Mapping[str, ListRow | _Fold], edges: Iterable[tuple[str, str]]) -> _Picture:
    numbers = {key: at for at, key in enumerate(nodes)}
    drawing = draw(len(nodes), [(numbers[start], numbers[end]) for start, end in edges])
    boxes = [
        _PictureNode(
            place.layer * _COLUMN,
            _y(place),
            node if isinstance(node, ListRow) else None,
            node if isinstance(node, _Fold) else None,
        )
        for node, place in zip(nodes.values(), drawing.nodes, strict=True)
    ]
    return _Picture(
        max(box.x for box in boxes) + _WIDTH,
        max(_y(place) for way in drawing.ways.values() for place in way) + _HEIGHT,
        _WIDTH,
        _HEIGHT,
        boxes,
        [_path(way) for way in drawing.ways.values()],
    )


def _y(place: Place) -> int:
    return round(place.offset * _ROW)


def _path(way: Sequence[Place]) -> tuple[str, bool]:
    """Return the way of an edge from its left end: curves between columns, straight in them."""
    back = way[0].layer > way[-1].layer
    # The right edge of each column, and the middle of a box.
    points = [
        (place.layer * _COLUMN + _WIDTH, _y(place) + _HEIGHT // 2)
        for place in (reversed(way) if back else way)
    ]
    curves = [
        f"H{x}C{end - _WIDTH - _GAP // 2} {y} {x + _GAP // 2} {end_y} {end - _WIDTH} {end_y}"
        for (x, y), (end, end_y) in pairwise(points)
    ]
    x, y = points[0]
    return f"M{x} {y}{''.join(curves)}", back


def _registrations(
    store: Store, urns: Collection[str], *, upstream: bool
) -> Iterator[tuple[str, str]]:
    """Yield the runs of those of `urns` that are versions, or else the versions of runs."""
    models = [urn for urn in urns if entity_type(urn) == "mlModel"]
    own = _custom(store, models)
    if upstream:
        yield from _runs(own)
    elif registered := [urn for urn, custom in own.items() if VERSIONS in custom]:
        versions = versions_of(store, registered)
        yield from ((run, version) for version, run in versions.items())


def _custom(store: Store, models: Sequence[str]) -> dict[str, Mapping[str, str]]:
    stored = store.get_many(models, {ML_MODEL_PROPERTIES})
    return {urn: custom_of(urn, aspects) for urn, aspects in stored.items()}


def _runs(models: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    return ((urn, custom[RUN_MODEL]) for urn, custom in models.items() if custom.get(RUN_MODEL))


def versions_of(store: Store, runs: Sequence[str]) -> dict[str, str]:
    """Return registered versions of at most a hundred runs, with the run of each: a hundred."""
    named = Criterion("customProperties", tuple(f"{RUN_MODEL}={run}" for run in runs))
    request = SearchRequest(any_of=((named,),), count=MOST, highlight=False)
    hits = [hit.urn for hit in store.search(request).hits]
    # The search finds runs with the same words in their names, too.
    run_of = dict(_runs(_custom(store, hits)))
    return {hit: run_of[hit] for hit in hits if run_of.get(hit) in runs}
