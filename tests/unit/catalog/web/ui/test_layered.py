"""What holds for each drawing of a graph."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.catalog.web.ui.layered import BEND, Edge, draw


def test_the_sides_of_a_diamond_meet_and_a_long_edge_is_straight() -> None:
    drawing = draw(4, [(0, 1), (0, 2), (1, 3), (2, 3), (0, 3)])
    top, left, right, bottom = drawing.nodes
    assert (top.layer, left.layer, right.layer, bottom.layer) == (0, 1, 1, 2)
    assert drawing.crossings == 0
    assert abs(left.offset - right.offset) >= 1
    chain = draw(6, [*pairwise(range(6)), (0, 5)])
    bends = {round(place.offset, 1) for place in chain.ways[0, 5][1:-1]}
    assert len(bends) == 1


def test_an_edge_to_the_node_itself_is_not_drawn_and_nothing_is_no_fault() -> None:
    assert draw(1, [(0, 0)]).ways == {}
    assert draw(0, []).nodes == []


@given(st.integers(1, 20), st.data())
def test_edges_lead_through_each_layer_and_boxes_stand_apart(
    count: int, data: st.DataObject
) -> None:
    node = st.integers(0, count - 1)
    edges = data.draw(st.lists(st.tuples(node, node), max_size=40))
    drawing = draw(count, edges)
    assert len(drawing.nodes) == count
    assert set(drawing.ways) == {edge for edge in edges if edge[0] != edge[1]}
    for (start, end), way in drawing.ways.items():
        assert (way[0], way[-1]) == (drawing.nodes[start], drawing.nodes[end])
        assert len({after.layer - before.layer for before, after in pairwise(way)} - {1, -1}) == 0
        assert len({place.layer for place in way}) == len(way)
    boxes = dict.fromkeys(drawing.nodes, 1.0)
    assert len(boxes) == count
    bends = {place: BEND for way in drawing.ways.values() for place in way[1:-1]}
    for one, other in pairwise(sorted((bends | boxes).items())):
        if one[0].layer == other[0].layer:
            assert other[0].offset - one[0].offset >= (one[1] + other[1]) / 2 - 1e-9
    assert min(place.offset for place in {**boxes, **bends}) == 0


@given(st.permutations(range(12)), st.sets(st.tuples(st.integers(0, 11), st.integers(0, 11))))
def test_without_circles_each_edge_leads_to_a_later_layer(
    order: list[int], pairs: set[Edge]
) -> None:
    edges = [(order[start], order[end]) for start, end in pairs if start < end]
    drawing = draw(12, edges)
    assert all(way[0].layer < way[-1].layer for way in drawing.ways.values())
