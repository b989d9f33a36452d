"""The sample of `verify`: spread over time, exact in number, the same each time, in pages."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from mlcat_ingest.sources.mlflow.read.reader import ALL_RUNS, Reader, RunFilter
from mlcat_ingest.sources.mlflow.values.records import Run
from mlcat_ingest.workflows.verify_sample import sampled_runs

PAGE = 10


@dataclass
class Runs:
    """Lists runs by their start in pages, as a reader does, and keeps the filters."""

    starts: Sequence[int]
    asked: list[RunFilter] = field(default_factory=list)

    def runs(self, ids: Sequence[str], *, only: RunFilter) -> Iterator[list[Run]]:
        self.asked.append(only)
        since, before = only.since_ms or 0, only.before_ms or 10**9
        found = sorted(start for start in self.starts if since <= start < before)
        if only.limit is not None:
            found = found[::-1][: only.limit]
        runs = [Run(str(start), ids[0], start_time_ms=start) for start in found]
        return (runs[at : at + PAGE] for at in range(0, len(runs), PAGE))

    def sample(self, sample: int | None, limit: int | None = None) -> list[list[int]]:
        reader = cast("Reader", cast("Any", self))
        pages = list(sampled_runs(reader, ["0"], ALL_RUNS, sample, limit))
        return [[run.start_time_ms or 0 for run in page] for page in pages]


@pytest.mark.parametrize("sample", [1, 7, 50, 100, 500])
def test_a_sample_has_its_size_and_is_the_same_each_time(sample: int) -> None:
    store = Runs(range(1_000))
    pages = store.sample(sample)
    starts = [start for page in pages for start in page]
    assert len(starts) == len(set(starts)) == sample
    assert max(map(len, pages)) <= PAGE
    assert store.sample(sample) == pages


def test_a_sample_is_of_all_times() -> None:
    starts = [start for page in Runs(range(1_000)).sample(100) for start in page]
    assert {start // 100 for start in starts} == set(range(10))


def test_times_of_few_runs_leave_more_to_the_others() -> None:
    store = Runs([0, *range(9_000, 10_000)])
    starts = [start for page in store.sample(100) for start in page]
    assert len(starts) == len(set(starts)) == 100
    assert 0 in starts
    assert len(store.asked) <= 2 + 20 + 20


@pytest.mark.parametrize("starts", [[], [5] * 3, range(30)])
def test_a_small_store_is_the_sample(starts: Sequence[int]) -> None:
    sampled = [start for page in Runs(starts).sample(100) for start in page]
    assert sorted(sampled) == sorted(starts)


@pytest.mark.parametrize(("limit", "first"), [(200, 800), (5, 995), (5_000, 0)])
def test_with_a_limit_the_sample_is_of_the_newest(limit: int, first: int) -> None:
    [starts] = Runs(range(1_000)).sample(10, limit)
    assert len(starts) == min(10, limit)
    assert min(starts) >= first
    if limit >= 200:
        assert max(starts) - min(starts) >= min(limit, 1_000) // 2
