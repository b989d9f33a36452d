"""How many runs are asked for at a time."""

from hypothesis import given
from hypothesis import strategies as st

from mlcat_ingest.sources.mlflow.read.listing import FIRST_RUNS, PageSize


@given(most=st.integers(1, 1_000), seen=st.lists(st.tuples(st.integers(0, 500), st.integers(0))))
def test_there_is_always_a_run_to_ask_for_and_never_more_than_wanted(
    most: int, seen: list[tuple[int, int]]
) -> None:
    size = PageSize(most, 10_000)
    assert size.runs == min(most, FIRST_RUNS)
    for runs, weight in seen:
        size.learn(runs, weight)
        assert 1 <= size.runs <= most


@given(st.integers(1, 500), st.integers(1, 100_000))
def test_as_many_as_the_last_page_says_will_fit(runs: int, each: int) -> None:
    size = PageSize(500, 10_000)
    size.learn(runs, runs * each)
    assert size.runs == 1 or size.runs * each <= 10_000
    assert size.runs == 500 or (size.runs + 1) * each > 10_000


def test_an_empty_page_says_nothing() -> None:
    size = PageSize(500, 10_000)
    size.learn(10, 1_000)
    assert size.runs == 100
    size.learn(0, 40)
    assert size.runs == 100
