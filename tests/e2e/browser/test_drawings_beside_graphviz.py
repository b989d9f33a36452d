"""The crossings in drawings of lineage, with Graphviz as the judge."""

import random
import re
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from mlcat_ingest.catalog.web.ui.layered import Edge, draw

GRAPHS = 200
MOST_NODES = 60
DENSITIES = (0, 1.3, 1.6, 2)
MOST_OF_DOT = 1.3

Graph = tuple[int, Sequence[Edge]]


def random_graphs() -> list[Graph]:
    """Return connected graphs, a quarter of them trees, with up to two edges for each node."""
    rng = random.Random(44)
    graphs: list[Graph] = []
    for number in range(GRAPHS):
        count = rng.randint(5, MOST_NODES)
        edges = {(rng.randrange(node), node) for node in range(1, count)}
        while len(edges) < min(DENSITIES[number % 4] * count, count * (count - 1) // 2):
            start, end = sorted(rng.sample(range(count), 2))
            edges.add((start, end))
        graphs.append((count, sorted(edges)))
    return graphs


def crossings_of_dot(graphs: Sequence[Graph]) -> list[int]:
    """Return the crossings that Graphviz counts in its own order of the layers."""
    dot = shutil.which("dot")
    if dot is None:
        pytest.skip("no dot of Graphviz on this machine")
    text = "".join(
        f"digraph g{number} {{ {' '.join(f'{start}->{end};' for start, end in edges)} }}\n"
        for number, (_, edges) in enumerate(graphs)
    )
    done = subprocess.run(
        [dot, "-v", "-Tplain"], input=text, capture_output=True, text=True, check=True
    )
    counted = dict(re.findall(r"^mincross g(\d+): (\d+) crossings", done.stderr, re.MULTILINE))
    return [int(counted[str(number)]) for number in range(len(graphs))]


def test_two_sides_of_three_that_are_all_joined_cross_nine_times_by_both_counts() -> None:
    joined = [(start, end) for start in range(3) for end in range(3, 6)]
    assert draw(6, joined).crossings == 9
    assert crossings_of_dot([(6, joined)]) == [9]


def test_edges_cross_hardly_more_often_than_in_the_drawings_of_graphviz() -> None:
    graphs = random_graphs()
    judged = crossings_of_dot(graphs)
    drawn = [draw(*graph).crossings for graph in graphs]
    assert sum(judged) > 1_000
    assert sum(drawn) <= MOST_OF_DOT * sum(judged)
