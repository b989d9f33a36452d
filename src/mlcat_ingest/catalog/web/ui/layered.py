"""A drawing of a directed graph in layers, with few crossings and long edges nearly straight.

Source: E. Gansner, E. Koutsofios, S. North, K. Vo: A Technique for Drawing Directed Graphs (1993);
the layers are by longest path, and offsets by isotonic regression.
"""

from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

BEND: Final = 0.4
"""The space of an edge that passes a layer, where a node has 1."""

_SWEEPS: Final = 16
_STALE_SWEEPS: Final = 6
_EXCHANGES: Final = 3
_OFFSET_SWEEPS: Final = 8
_STRAIGHTNESS: Final = 8.0

Edge = tuple[int, int]
"""Two of the nodes, which are numbered from 0."""

_Layers = list[list[int]]


class Place(NamedTuple):
    """A layer, and how far a point is from the start of the layer; neighbours are 1 apart."""

    layer: int
    offset: float


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The place of each node, the places that each edge leads through, and how often edges cross.

    Both ends of an edge are counted; an edge of a node to itself is not drawn.
    """

    nodes: Sequence[Place]
    ways: Mapping[Edge, Sequence[Place]]
    crossings: int


@dataclass(slots=True)
class _Graph:
    """Nodes, and behind them the bends of the edges: each has neighbours in next layers only."""

    layer: list[int]
    before: list[list[int]]
    after: list[list[int]]
    position: list[int] = field(default_factory=list)


def draw(count: int, edges: Iterable[Edge]) -> _Drawing:
    """Draw a graph of `count` nodes; edges lead to later layers, but for one in each cycle."""
    given = dict.fromkeys(edge for edge in edges if edge[0] != edge[1])
    forward = _without_cycles(count, given)
    graph = _Graph(_layers(count, forward), *_neighbours(count, ()))
    chains = {edge: _chain(graph, *edge) for edge in dict.fromkeys(forward.values())}
    graph.position = [0] * len(graph.layer)
    layers, crossings = _ordered(graph)
    offsets = _offsets(graph, layers, count)
    places = [*map(Place, graph.layer, offsets)]
    ways = {}
    for edge, drawn in forward.items():
        way = [places[at] for at in chains[drawn]]
        ways[edge] = way if edge == drawn else way[::-1]
    return _Drawing(places[:count], ways, crossings)


def _neighbours(count: int, edges: Iterable[Edge]) -> tuple[list[list[int]], list[list[int]]]:
    """Return what each node comes after, and what comes after it."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for start, end in edges:
        before[end].append(start)
        after[start].append(end)
    return before, after


def _without_cycles(count: int, edges: Iterable[Edge]) -> dict[Edge, Edge]:
    """Return each edge as it is drawn: one that leads back to where a path came from is turned."""
    _, after = _neighbours(count, edges)
    drawn: dict[Edge, Edge] = {}
    seen, on_path = [False] * count, [False] * count
    for root in range(count):
        path = [(root, iter(after[root]))] if not seen[root] else []
        while path:
            node, ends = path[-1]
            seen[node] = on_path[node] = True
            for end in ends:
                drawn[node, end] = (end, node) if on_path[end] else (node, end)
                if not seen[end]:
                    path.append((end, iter(after[end])))
                    break
            else:
                on_path[node] = False
                path.pop()
    return drawn


def _layers(count: int, forward: Mapping[Edge, Edge]) -> list[int]:
    """Return the layer of each node, next to most of its neighbours where that is possible."""
    before, after = _neighbours(count, dict.fromkeys(forward.values()))
    order = [node for node in range(count) if not before[node]]
    missing = [*map(len, before)]
    for node in order:
        for end in after[node]:
            missing[end] -= 1
            if not missing[end]:
                order.append(end)
    layer = [0] * count
    for node in order:
        layer[node] = max((layer[start] + 1 for start in before[node]), default=0)
    for node in reversed(order):
        if len(after[node]) > len(before[node]):
            layer[node] = min(layer[end] for end in after[node]) - 1
    return [at - min(layer) for at in layer]


def _chain(graph: _Graph, start: int, end: int) -> Sequence[int]:
    """Add an edge with a bend in each layer between its ends, and return all that it joins."""
    chain = [start]
    for layer in range(graph.layer[start] + 1, graph.layer[end]):
        chain.append(len(graph.layer))
        graph.layer.append(layer)
        graph.before.append([])
        graph.after.append([])
    chain.append(end)
    for one, other in pairwise(chain):
        graph.after[one].append(other)
        graph.before[other].append(one)
    return chain


def _ordered(graph: _Graph) -> tuple[_Layers, int]:
    """Return the best order of all layers that sweeps from two first ones find."""
    ways = ((graph.before, graph.after), (graph.after, graph.before))
    found = [_swept(graph, _by_breadth(graph, *way)) for way in ways]
    crossings, best = min(found, key=lambda one: one[0])
    _place(graph, best)
    return best, crossings


def _by_breadth(
    graph: _Graph, before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]
) -> _Layers:
    reached = dict.fromkeys(node for node, ends in enumerate(before) if not ends)
    queue = [*reached]
    for node in queue:
        new = [end for end in after[node] if end not in reached]
        reached.update(dict.fromkeys(new))
        queue += new
    layers: _Layers = [[] for _ in range(max(graph.layer, default=-1) + 1)]
    for node in reached:
        layers[graph.layer[node]].append(node)
    return layers


def _swept(graph: _Graph, layers: _Layers) -> tuple[int, _Layers]:
    """Return the fewest crossings, and their order, of sweeps down and up.

    Each layer is sorted by the mean place of the neighbours; every other time nodes with the same
    change places, since no one can be better than its neighbour before the other moves.
    """
    _place(graph, layers)
    best = (_crossings(graph, layers), layers)
    stale = 0
    for sweep in range(_SWEEPS):
        if stale > _STALE_SWEEPS or not best[0]:
            break
        layers = [[*layer] for layer in layers]
        turned = sweep % 4 > 1
        for layer, neighbours in _sweep(graph, layers, up=sweep % 2 == 1):
            mean = {node: _mean(graph.position, neighbours[node], node) for node in layer}
            if turned:
                layer.reverse()
            layer.sort(key=mean.__getitem__)
            _place(graph, [layer])
        _exchange(graph, layers, ties=turned)
        crossings = _crossings(graph, layers)
        stale = stale + 1 if crossings >= best[0] else 0
        best = min(best, (crossings, layers), key=lambda one: one[0])
    return best


def _sweep(
    graph: _Graph, layers: _Layers, *, up: bool
) -> Iterator[tuple[list[int], list[list[int]]]]:
    """Yield the layers but the first in a direction, and the neighbours in those before."""
    for layer in layers[-2::-1] if up else layers[1:]:
        yield layer, graph.after if up else graph.before


def _mean(values: Sequence[float], neighbours: Sequence[int], node: int) -> float:
    """Return the mean of the values of a node's neighbours, or its own."""
    at = neighbours or (node,)
    return sum([values[other] for other in at]) / len(at)


def _place(graph: _Graph, layers: _Layers) -> None:
    for layer in layers:
        for at, node in enumerate(layer):
            graph.position[node] = at


def _exchange(graph: _Graph, layers: _Layers, *, ties: bool) -> None:
    """Exchange neighbours while that saves crossings; at first also where it costs none."""
    for again in range(_EXCHANGES):
        least = 0 if ties and not again else 1
        exchanged = False
        for layer in layers:
            for at in range(1, len(layer)):
                one, other = layer[at - 1 : at + 1]
                saved = _saved(graph, one, other)
                if saved >= least:
                    layer[at - 1 : at + 1] = other, one
                    graph.position[one], graph.position[other] = at, at - 1
                    exchanged |= saved > 0
        if not exchanged:
            break


def _saved(graph: _Graph, one: int, other: int) -> int:
    """Return how many crossings less there are with `other` before `one`, its neighbour."""
    position, saved = graph.position, 0
    for neighbours in (graph.before, graph.after):
        others = neighbours[other]
        for end in neighbours[one]:
            at = position[end]
            for other_end in others:
                if position[other_end] < at:
                    saved += 1
                elif position[other_end] > at:
                    saved -= 1
    return saved


def _crossings(graph: _Graph, layers: _Layers) -> int:
    crossings = 0
    for layer in layers:
        seen: list[int] = []
        for node in layer:
            ends = [graph.position[end] for end in graph.after[node]]
            crossings += sum([len(seen) - bisect_right(seen, end) for end in ends])
            for end in ends:
                insort(seen, end)
    return crossings


def _offsets(graph: _Graph, layers: _Layers, count: int) -> list[float]:
    """Return the offset of each node and bend: as near to its neighbours' mean as there is room."""
    offsets = [float(at) for at in graph.position]
    for sweep in range(_OFFSET_SWEEPS):
        for layer, neighbours in _sweep(graph, layers, up=sweep % 2 == 1):
            wanted = [_mean(offsets, neighbours[node], node) for node in layer]
            for node, offset in zip(layer, _apart(wanted, layer, count), strict=True):
                offsets[node] = offset
    least = min(offsets, default=0)
    return [offset - least for offset in offsets]


def _apart(wanted: Sequence[float], layer: Sequence[int], count: int) -> Iterator[float]:
    """Yield the offsets nearest to the wanted ones, by least squares, at which there is room."""
    sizes = [1 if node < count else BEND for node in layer]
    starts = [0, *accumulate((one + other) / 2 for one, other in pairwise(sizes))]
    blocks: list[tuple[float, float, int]] = []
    for node, offset, start in zip(layer, wanted, starts, strict=True):
        weight = 1 if node < count else _STRAIGHTNESS
        block = (weight * (offset - start), weight, 1)
        while blocks and blocks[-1][0] / blocks[-1][1] >= block[0] / block[1]:
            total, heavy, nodes = blocks.pop()
            block = (total + block[0], heavy + block[1], nodes + block[2])
        blocks.append(block)
    means = (total / weight for total, weight, nodes in blocks for _ in range(nodes))
    return map(sum, zip(means, starts, strict=True))
