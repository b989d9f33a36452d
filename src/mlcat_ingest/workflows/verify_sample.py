"""A sample of MLflow's runs, spread over the time in which they started."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from mlcat_ingest.sources.mlflow.read.reader import Reader, RunFilter
from mlcat_ingest.sources.mlflow.values.records import Run

ItemT = TypeVar("ItemT")

_WINDOWS: Final = 20
"""Stretches of time of which each gives its part of a sample."""


def spread(items: Sequence[ItemT], count: int | None) -> Sequence[ItemT]:
    """Return `count` of `items` at equal distances, all of them where `count` is None."""
    if count is None or len(items) <= count:
        return items
    return [items[at * len(items) // count] for at in range(count)]


def sampled_runs(
    reader: Reader, ids: Sequence[str], only: RunFilter, sample: int | None, limit: int | None
) -> Iterator[list[Run]]:
    """Yield the newest `limit` of the runs that `only` wants, or `sample` of the runs, or both.

    Cost: with a limit its listing; else up to 42 requests, and memory for the sample.
    """
    if limit is None:
        yield _spread_runs(reader, ids, only, sample or 0)
        return
    if limit <= 0:
        return
    pages = reader.runs(ids, only=replace(only, limit=limit))
    if sample is None:
        yield from pages
        return
    runs = [run for page in pages for run in page]
    yield list(spread(runs, sample))


def _spread_runs(reader: Reader, ids: Sequence[str], only: RunFilter, sample: int) -> list[Run]:
    """Return runs of each window, then more of the windows that have more, where some lack."""
    windows = _windows_of(reader, ids, only, min(sample, _WINDOWS))
    most = -(-sample // len(windows))
    pages = [_newest(reader, ids, window, most) for window in windows]
    full = [at for at, page in enumerate(pages) if len(page) == most]
    lacking = sample - sum(map(len, pages))
    if full and lacking > 0:
        most += -(-lacking // len(full))
        for at in full:
            pages[at] = _newest(reader, ids, windows[at], most)
    runs = {run.run_id: run for page in pages for run in page}
    return list(spread(list(runs.values()), sample))


def _windows_of(reader: Reader, ids: Sequence[str], only: RunFilter, count: int) -> list[RunFilter]:
    """Return windows of equal length, the first open to the past and the last to the future."""
    newest = _newest(reader, ids, only, 1)
    oldest = next(reader.runs(ids, only=only), None)
    if not newest or not oldest:
        return [only]
    first_ms, last_ms = oldest[0].start_time_ms or 0, newest[0].start_time_ms or 0
    length_ms = (last_ms - first_ms) // count
    if length_ms <= 0:
        return [only]
    edges = [first_ms + at * length_ms for at in range(1, count)]
    starts, ends = [only.since_ms, *edges], [*edges, only.before_ms]
    return [
        replace(only, since_ms=start, before_ms=end)
        for start, end in zip(starts, ends, strict=True)
    ]


def _newest(reader: Reader, ids: Sequence[str], only: RunFilter, count: int) -> list[Run]:
    pages = reader.runs(ids, only=replace(only, limit=count))
    return [run for page in pages for run in page]
