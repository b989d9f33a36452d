"""Two feature stores that meet on a name, and what is no meeting."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from mlcat_ingest.errors import MlcatError, RecipeError, SourceUnavailableError
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.read.feature_tables import PrimaryKeys, refuse_collisions
from mlcat_ingest.pipeline.run import PipelineRun, RunOptions
from mlcat_ingest.sources.base import ComingTable
from support.fakes import FakeSink, FakeSource, model_urn
from support.recipes import a_recipe

FEAST, FILE = "feast:registry:default", "definitions:features.yml:default"


@dataclass
class Store(FakeSource):
    """A feature store of so many tables, or one that cannot be listed."""

    tables: Sequence[ComingTable] = ()
    unlisted: MlcatError | None = None
    listed: int = field(default=0)

    def coming_tables(self) -> Iterator[ComingTable]:
        self.listed += 1
        yield from self.tables
        if self.unlisted is not None:
            raise self.unlisted


def table(source: str, name: str = "rides.drivers") -> ComingTable:
    platform = source.partition(":")[0]
    urn = f"urn:li:mlFeatureTable:(urn:li:dataPlatform:{platform},{name})"
    return ComingTable(urn, name, source, f"urn:li:mlFeature:({name},rate)")


def refused(sources: Sequence[Store], sink: FakeSink | None = None) -> Mapping[int, MlcatError]:
    sink = sink or FakeSink()
    failures: dict[int, MlcatError] = {}
    refuse_collisions(sources, sink, PrimaryKeys(sink, lambda _: None), failures)
    return failures


def model(name: str) -> Entity:
    return Entity(model_urn(name), {"mlModelProperties": {"name": name}})


def of(source: str) -> Aspect:
    return {"customProperties": {"mlcat.source": source}}


def test_stores_of_two_kinds_may_not_share_a_name_though_their_tables_urns_differ() -> None:
    sources = [Store(tables=[table(FEAST)]), Store(tables=[table(FILE)])]
    with pytest.raises(RecipeError, match=f"{FEAST} and {FILE}.*namespace_prefix"):
        refused(sources)


def test_one_store_may_be_read_twice() -> None:
    source = Store(tables=[table(FEAST)])
    assert refused([source, source]) == {}


@pytest.mark.parametrize("kind", ["table", "feature"])
def test_a_store_that_the_catalog_has_the_name_from_is_met(kind: str) -> None:
    coming = table(FILE)
    stored = {
        "table": {coming.urn: {"mlFeatureTableProperties": of(FEAST)}},
        "feature": {str(coming.column): {"mlFeatureProperties": of(FEAST)}},
    }[kind]
    with pytest.raises(RecipeError, match=f"{FEAST} and {FILE}.*namespace_prefix"):
        refused([Store(tables=[coming])], FakeSink(stored))


@pytest.mark.parametrize(
    "aspects",
    [
        {"mlFeatureTableProperties": of(FILE)},
        {"mlFeatureTableProperties": {"description": "a person's"}},
        {"mlFeatureTableProperties": of(FEAST), "status": {"removed": True}},
        {"status": {"removed": False}},
    ],
)
def test_what_is_ours_nobodys_or_removed_is_no_clash(aspects: dict[str, Aspect]) -> None:
    coming = table(FILE)
    assert refused([Store(tables=[coming])], FakeSink({coming.urn: aspects})) == {}


def test_it_costs_two_reads_for_200_tables() -> None:
    sink = FakeSink()
    refused([Store(tables=[table(FILE, f"n.t{i}") for i in range(401)])], sink)
    assert sorted(map(len, sink.reads)) == [1, 1, 200, 200, 200, 200]


def test_nothing_is_written_where_stores_meet() -> None:
    first = Store(pages=[[model("a")]], tables=[table(FEAST)])
    sink = FakeSink()
    report = PipelineRun(
        [first, Store(tables=[table(FILE)])], sink, RunOptions(a_recipe("r"))
    ).execute()
    assert report.exit_code == 2
    assert sink.writes == []


def test_a_store_that_cannot_be_listed_hides_none_that_comes_before_it() -> None:
    down = SourceUnavailableError("down")
    first = Store(pages=[[model("a")]], tables=[table(FEAST)])
    second = Store(pages=[[model("b")]], tables=[table(FILE, "other")], unlisted=down)
    sink = FakeSink()
    report = PipelineRun([first, second], sink, RunOptions(a_recipe("r"))).execute()
    assert report.error is down
    assert sink.stored.keys() == {model_urn("a")}
    assert (first.listed, second.listed) == (1, 1)
