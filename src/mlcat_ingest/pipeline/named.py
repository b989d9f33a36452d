"""A run that is after a few runs of MLflow by their ids: its sources, and what came of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mlcat_ingest.findings import Finding
from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.report import Report
from mlcat_ingest.sources.base import (
    Forgetful,
    KeepsIndex,
    Memory,
    ReadsNamedRuns,
    Source,
    Trace,
)


@dataclass(frozen=True, slots=True)
class Brought:
    """What came of runs that were asked for by their ids.

    No source came upon the `unknown` ones. Something of the `refused` ones did not arrive.
    """

    report: Report
    unknown: Sequence[str] = ()
    refused: frozenset[str] = frozenset()


def refused_among(run_ids: Sequence[str], letters: Iterable[str]) -> frozenset[str]:
    """Return which of the runs dead letters are about, told by the ids in their names.

    All are returned where one says nothing of that, such as that of an experiment: it may be of
    any.
    """
    found: set[str] = set()
    for letter in letters:
        about = [one for one in run_ids if one in letter]
        if not about:
            return frozenset(run_ids)
        found.update(about)
    return frozenset(found)


def named_sources(sources: Iterable[Source[Any]], run_ids: Sequence[str]) -> list[Source[Any]]:
    """Return what of `sources` a pass over these runs reads, in the same order.

    Feature stores are read for what runs are linked to, and nothing of them is written: without
    their index the same run would get other links than a scheduled one gives it. What neither reads
    runs by id nor keeps an index is left out.
    """
    chosen: list[Source[Any]] = []
    for source in sources:
        if isinstance(source, ReadsNamedRuns):
            source.only_runs(run_ids)
            chosen.append(source)
        elif isinstance(source, KeepsIndex):
            chosen.append(_IndexOnly(source))
    return chosen


class _IndexOnly:
    """A source of features that is read for its index; it has no records."""

    def __init__(self, source: Any) -> None:
        self._source = source

    @property
    def index(self) -> FeatureIndex:
        index: FeatureIndex = self._source.index
        return index

    def read(self, memory: Memory) -> Iterator[Sequence[object]]:
        del memory
        for _ in self._source.read(Forgetful()):
            yield ()

    def trace(self, record: object) -> Trace | None:
        del record
        return None

    def map(self, record: object) -> Iterable[Entity]:
        del record
        return ()

    def requests_made(self) -> int:
        made: int = self._source.requests_made()
        return made

    def check(self) -> Iterator[Finding]:
        return iter(())

    def close(self) -> None:
        self._source.close()
