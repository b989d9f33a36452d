"""What a feature source puts into the index that links from runs are looked up in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mlcat_ingest.core.awaiting import Awaits
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.links.evidence import LinkOptions
from mlcat_ingest.links.features import Features, Wanted
from mlcat_ingest.links.index import FeatureIndex
from mlcat_ingest.links.refs import Ref
from mlcat_ingest.sources.definitions.config import FeatureStoreConfig
from mlcat_ingest.sources.definitions.model import (
    LABEL_VIEW,
    Broken,
    DatasetPlace,
    Definition,
    Feature,
    FeatureRef,
    FeatureSet,
    FeatureTable,
    Key,
)
from mlcat_ingest.sources.definitions.source import FeatureSource
from support.reading import finished_of

ELSEWHERE = LinkOptions().elsewhere


@dataclass
class Reader(Awaits):
    """Yields what a test says that the store holds."""

    definitions: Sequence[Definition]

    def server_id(self) -> str:
        return "store"

    def read(self) -> Iterator[Definition]:
        yield from self.definitions

    def requests_made(self) -> int:
        return 0

    def check(self) -> Iterator[Finding]:
        yield Finding("the store", "ok")

    def close(self) -> None:
        pass


def table(name: str, *features: str, kind: str = "Feature View", **more: object) -> FeatureTable:
    columns = tuple(Feature(name=feature) for feature in features)
    return FeatureTable(namespace="p", name=name, kind=kind, features=columns, **more)  # type: ignore[arg-type]


def read(*definitions: Definition, **config: object) -> FeatureIndex:
    made = FeatureStoreConfig.model_validate(config)
    source = FeatureSource(made, "feast", Reader(definitions))
    return index_of(source)


def index_of(source: FeatureSource) -> FeatureIndex:
    index = finished_of(source).index
    assert index is not None
    return index


def look_up(index: FeatureIndex, name: str, feature: str) -> Wanted:
    return Features([index]).look_up(Ref(name, feature, "p"), ELSEWHERE)


def test_what_is_read_is_what_is_linked() -> None:
    index = read(
        table("t", "a", keys=(Key(name="driver", column="driver_id"), Key(name="zone"))),
        FeatureSet(
            namespace="p", name="s", features=(FeatureRef("t", "a"),), aliases={"other": "t"}
        ),
        instance="eu",
    )
    held = look_up(index, "t", "a")
    assert held[1:3] == ("held", "urn:li:mlFeature:(eu.p.t,a)")
    assert look_up(index, "other", "a")[1:3] == held[1:3]
    assert [look_up(index, "t", key).state for key in ("driver_id", "zone", "driver")] == [
        "no_input",
        "no_input",
        "unknown",
    ]


def test_tables_that_are_left_out_are_for_the_catalog_to_tell_and_labels_are_never_inputs() -> None:
    labels = table("l", "x", kind=LABEL_VIEW)
    index = read(table("t", "a"), table("u", "b"), labels, tables={"allow": ["t"]})
    assert [look_up(index, *ref).state for ref in (("t", "a"), ("u", "b"), ("l", "x"))] == [
        "held",
        "to_ask",
        "no_input",
    ]


def test_what_could_not_be_read_makes_the_index_incomplete() -> None:
    index = read(table("t", "a"), Broken(namespace="p", name="u", reason="torn"))
    assert not Features([index]).knows_all_of("p")
    assert Features([read(table("t", "a"))]).knows_all_of("p")
    partly = read(table("t", "a", complete=False))
    assert look_up(partly, "t", "b").state == "to_ask"


def test_the_datasets_of_a_table_are_by_their_urns() -> None:
    index = read(table("t", "a", sources=(DatasetPlace("s3", "lake/t/dt=1/x.parquet"),)))
    urn = "urn:li:dataset:(urn:li:dataPlatform:s3,lake/t,PROD)"
    (found,) = Features([index]).with_source(urn)
    assert found.table == "t"


def test_each_reading_makes_the_index_anew() -> None:
    reader = Reader([table("t", "a")])
    source = FeatureSource(FeatureStoreConfig(), "feast", reader)
    assert look_up(index_of(source), "t", "a").state == "held"
    reader.definitions = [table("t", "b")]
    again = index_of(source)
    assert [look_up(again, "t", name).state for name in "ab"] == ["unknown", "held"]
