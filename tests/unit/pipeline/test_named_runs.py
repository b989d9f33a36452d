"""The sources of a run that is after a few runs by their ids."""

from collections.abc import Iterator, Sequence

from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.pipeline.named import named_sources
from mlcat_ingest.sources.base import Forgetful, KeepsIndex, Memory
from support.fakes import FakeSource


class Store(FakeSource):
    """A feature store whose index is there once it is read."""

    def __init__(self) -> None:
        super().__init__(pages=[["table"], ["table"]])
        self.index = FeatureIndex()
        self.read_with: list[Memory] = []

    def read(self, memory: Memory) -> Iterator[Sequence[object]]:
        self.read_with.append(memory)
        yield from super().read(memory)


class Runs(FakeSource):
    asked: Sequence[str] = ()
    found_runs: Sequence[str] = ()

    def only_runs(self, run_ids: Sequence[str]) -> None:
        self.asked = run_ids


def test_runs_are_asked_for_and_stores_read_for_their_index_alone() -> None:
    store, runs = Store(), Runs()
    [index_only, chosen] = named_sources([store, runs, FakeSource()], ["r1"])
    assert chosen is runs
    assert runs.asked == ["r1"]
    assert isinstance(index_only, KeepsIndex)
    memory = Forgetful()
    assert [one for page in index_only.read(memory) for one in page] == []
    assert store.read_with != [memory]
    assert index_only.index is store.index
    assert (index_only.requests_made(), list(index_only.check())) == (2, [])
    assert (index_only.trace(None), list(index_only.map(None))) == (None, [])
    index_only.close()
    assert store.closed == 1
