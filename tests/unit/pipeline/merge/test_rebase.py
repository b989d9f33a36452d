"""Putting back what somebody changed: entries by key, all else as one value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.pipeline.merge.aspects import rebase_aspect
from support.merging import HOME


@pytest.mark.parametrize(
    ("ancestor", "theirs", "current", "after"),
    [
        pytest.param(
            {"groups": ["a", "b"]},
            {"groups": ["b", "c"]},
            {"groups": ["a", "b", "d"]},
            {"groups": ["b", "d", "c"]},
            id="what they added and took away of a list",
        ),
        pytest.param(
            {"customProperties": {"a": "1", "b": "1", "c": "1"}},
            {"customProperties": {"a": "2", "b": "1", "d": "1"}},
            {"customProperties": {"a": "1", "b": "3", "c": "1"}},
            {"customProperties": {"a": "2", "b": "3", "d": "1"}},
            id="what they changed of a map",
        ),
        pytest.param(
            {"hyperParams": [{"name": "a", "value": "1"}]},
            {"hyperParams": [{"name": "a", "value": "2"}, {"name": "b"}]},
            {"hyperParams": [{"name": "c"}, {"name": "a", "value": "1"}]},
            {"hyperParams": [{"name": "c"}, {"name": "a", "value": "2"}, {"name": "b"}]},
            id="records by their key",
        ),
        pytest.param(
            {"description": "x", "name": "n", "created": {"time": 1}},
            {"description": "y", "created": {"time": 2}, "groups": ["a"]},
            {"description": "z", "name": "n", "created": {"time": 3}},
            {"description": "y", "created": {"time": 2}, "groups": ["a"]},
            id="values they set and cleared, and fields they added",
        ),
        pytest.param(
            {"groups": "odd"},
            {"groups": ["a"]},
            {"groups": ["b"]},
            {"groups": ["a"]},
            id="what is no collection throughout is one value",
        ),
    ],
)
def test_putting_back(ancestor: Aspect, theirs: Aspect, current: Aspect, after: Aspect) -> None:
    assert rebase_aspect(HOME, ancestor, [theirs], current) == after


def test_a_path_is_one_value() -> None:
    one, two, three = ({"path": [{"id": each}]} for each in "abc")
    assert rebase_aspect("browsePathsV2", one, [two], three) == two


def test_of_several_values_the_last_stands() -> None:
    one, two, three = ({"description": each} for each in "abc")
    assert rebase_aspect(HOME, one, [two, three], one) == three
    assert rebase_aspect(HOME, one, [two, one], three) is three


@pytest.mark.parametrize(
    ("ancestor", "theirs", "current"),
    [
        ({"description": "a"}, {"description": "a"}, {"description": "b"}),
        ({"groups": ["a"]}, {"groups": ["a"]}, {"groups": ["a", "b"]}),
        ({"groups": []}, {}, {"name": "n"}),
        ({"groups": ["a"]}, {"groups": ["b"]}, {"groups": ["b"]}),
    ],
)
def test_nothing_to_restore(ancestor: Aspect, theirs: Aspect, current: Aspect) -> None:
    assert rebase_aspect(HOME, ancestor, [theirs], current) is current


names = st.lists(st.sampled_from("abcdef"), unique=True)


@given(st.lists(names, min_size=1, max_size=4), names, names)
def test_the_entries_of_the_last_and_what_any_or_we_added_are_there(
    theirs: list[list[str]], ancestor: list[str], ours: list[str]
) -> None:
    before, now, *after = (
        {"customProperties": dict.fromkeys(some, "x")} for some in (ancestor, ours, *theirs)
    )
    rebased = set(rebase_aspect(HOME, before, after, now).get("customProperties", {}))
    start, last = set(ancestor), set(theirs[-1])
    assert rebased == last | (set().union(*theirs, ours) - start)
