"""The sources of a run that is after a few runs of MLflow by their ids."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from mlcat_ingest.findings import Finding
from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.sources.base import (
    Forgetful,
    KeepsIndex,
    Memory,
    ReadsNamedRuns,
    Source,
    Trace,
)


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
