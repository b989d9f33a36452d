"""A sample of MLflow's runs, spread over the time in which they started."""

from collections.abc import Iterable, Iterator, Sequence
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

    Cost: with a limit its listing, and memory for twice the sample; else two requests for each
    window and one more for each page, and memory for a page.
    """
    if limit is None:
        yield from _spread_runs(reader, ids, only, sample or 0)
        return
    if limit <= 0:
        return
    pages = reader.runs(ids, only=replace(only, limit=limit))
    if sample is None:
        yield from pages
        return
    yield list(spread(_thin_out((run for page in pages for run in page), sample), sample))


def _thin_out(items: Iterable[ItemT], count: int) -> list[ItemT]:
    """Return `count` to twice as many of `items` at equal distances; all if there are fewer."""
    kept: list[ItemT] = []
    distance = 1
    for at, item in enumerate(items):
        if at % distance == 0:
            kept.append(item)
        if len(kept) > 2 * count:
            kept, distance = kept[::2], 2 * distance
    return kept


def _spread_runs(
    reader: Reader, ids: Sequence[str], only: RunFilter, sample: int
) -> Iterator[list[Run]]:
    """Yield runs of each window, then more of the windows that have more, where some lack."""
    windows = _windows_of(reader, ids, only, min(sample, _WINDOWS))
    full: list[tuple[RunFilter, int]] = []
    seen: set[str] = set()
    for window, part in zip(windows, _parts(sample, len(windows)), strict=True):
        before = len(seen)
        for page in _newest(reader, ids, window, part):
            seen.update(run.run_id for run in page)
            yield page
        if len(seen) - before == part:
            full.append((window, part))
    for (window, part), more in zip(full, _parts(sample - len(seen), len(full)), strict=True):
        for page in _newest(reader, ids, window, part + more) if more else ():
            yield [run for run in page if run.run_id not in seen]


def _parts(whole: int, count: int) -> list[int]:
    """Return `count` numbers that are nearly equal and add up to `whole`."""
    return [(at + 1) * whole // count - at * whole // count for at in range(count)]


def _windows_of(reader: Reader, ids: Sequence[str], only: RunFilter, count: int) -> list[RunFilter]:
    """Return windows of equal length, the first open to the past and the last to the future."""
    newest = [run for page in _newest(reader, ids, only, 1) for run in page]
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


def _newest(reader: Reader, ids: Sequence[str], only: RunFilter, count: int) -> Iterator[list[Run]]:
    return reader.runs(ids, only=replace(only, limit=count))
