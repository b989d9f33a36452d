from collections.abc import Iterator, Sequence
from dataclasses import replace

from mlcat_ingest.links.index import (
    FeatureIndex,
    FeatureMatch,
    FeatureRef,
    Features,
    FeatureSet,
    Ref,
)
from mlcat_ingest.links.rules import LinkOptions
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.metadata.validate import validate_aspect
from mlcat_ingest.sources.definitions.source import FeatureSource
from mlcat_ingest.sources.definitions.tables import (
    Broken,
    DatasetPlace,
    Definition,
    Feature,
    FeatureScope,
    FeatureTable,
    Key,
    map_table,
)
from mlcat_ingest.sources.options import FeatureStoreConfig
from support.reading import finished_of

RAW = "urn:li:dataset:(urn:li:dataPlatform:hive,raw.trips,PROD)"
SCOPE = FeatureScope(Naming("feast"), "feast:registry:default")
DRIVERS = FeatureTable(
    namespace="rides",
    name="drivers",
    kind="Feature View",
    owners=("ann@example.com",),
    tags={"team": "maps", "gold": ""},
    sources=(DatasetPlace("snowflake", "DB.PUBLIC.Drivers"), RAW),
    keys=(Key(name="driver", column="driver_id", type="ORDINAL"),),
    features=(
        Feature(name="rate", type="CONTINUOUS", description="how often", version="2"),
        Feature(name="trips", type="COUNT", sources=()),
    ),
)


def mapped(table: FeatureTable, scope: FeatureScope = SCOPE) -> dict[str, Entity]:
    return {entity.urn: entity for entity in map_table(scope, table)}


def test_columns_come_before_their_table() -> None:
    assert list(mapped(DRIVERS)) == [
        "urn:li:mlFeature:(rides.drivers,rate)",
        "urn:li:mlFeature:(rides.drivers,trips)",
        "urn:li:mlPrimaryKey:(rides.drivers,driver)",
        "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,rides.drivers)",
    ]


def test_every_aspect_is_one_that_the_catalog_takes() -> None:
    for entity in mapped(DRIVERS).values():
        for name, aspect in entity.aspects.items():
            written = {field: value for field, value in aspect.items() if value is not None}
            assert validate_aspect(entity_type_of(entity.urn), name, written) == []


def test_a_feature_has_the_sources_of_its_table_unless_it_names_its_own() -> None:
    rate, trips, key, _ = mapped(DRIVERS).values()
    urn = "urn:li:dataset:(urn:li:dataPlatform:snowflake,db.public.drivers,PROD)"
    assert rate.aspects["mlFeatureProperties"]["sources"] == [urn, RAW]
    assert trips.aspects["mlFeatureProperties"]["sources"] == []
    assert key.aspects["mlPrimaryKeyProperties"]["sources"] == [urn, RAW]


def test_a_tag_without_a_key_is_noted_and_not_written() -> None:
    keyless = replace(DRIVERS, tags={"": "maps", "team": "maps"})
    found = next(e for e in mapped(keyless).values() if e.entity_type == "mlFeatureTable")
    assert found.aspects["globalTags"] == {"tags": [{"tag": "urn:li:tag:team:maps"}]}
    assert [note.kind for note in found.notes] == ["tag_without_urn"]


def test_a_tag_with_an_address_has_no_credentials() -> None:
    leaky = replace(DRIVERS, tags={"repo": "https://ann:s3cret@h/r"})
    tags = next(e for e in mapped(leaky).values() if e.entity_type == "mlFeatureTable").aspects
    assert tags["globalTags"] == {"tags": [{"tag": "urn:li:tag:repo:https://h/r"}]}


def test_two_stores_with_one_project_have_folders_of_their_own() -> None:
    definition = FeatureTable(name="rides", namespace="shop", kind="Feature View")
    folders = {
        (instance, prefix): entity.aspects["browsePathsV2"]["path"]
        for instance, prefix in ((None, None), ("emea", None), ("emea", "b"))
        for entity in mapped(
            definition, FeatureScope(Naming("feast", "PROD", instance, prefix), "feast:r:default")
        ).values()
    }
    assert folders == {
        (None, None): [{"id": "shop"}],
        ("emea", None): [{"id": "emea.shop"}],
        ("emea", "b"): [{"id": "emea.b.shop"}],
    }


def test_a_column_that_is_defined_twice_counts_once_and_is_noted() -> None:
    table = FeatureTable(
        namespace=None, name="t", kind="Feature Group", features=(Feature(name="a"),) * 2
    )
    entities = mapped(table)
    assert list(entities) == [
        "urn:li:mlFeature:(t,a)",
        "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,t)",
    ]
    assert [note.kind for note in list(entities.values())[-1].notes] == ["column_defined_twice"]


def test_a_table_that_was_not_read_as_a_whole_says_nothing_of_its_lists() -> None:
    table = FeatureTable(namespace="p", name="t", kind="Feature View", complete=False)
    (entity,) = mapped(table).values()
    assert "mlFeatures" not in entity.aspects["mlFeatureTableProperties"]


ELSEWHERE = LinkOptions().elsewhere


class FakeSource(FeatureSource):
    """Yields what a test says that the store holds."""

    platform = "feast"

    def __init__(self, config: FeatureStoreConfig, definitions: Sequence[Definition]) -> None:
        super().__init__(config)
        self.given = definitions

    def server_id(self) -> str:
        return "store"

    def definitions(self) -> Iterator[Definition]:
        yield from self.given

    def close(self) -> None:
        pass


def table(name: str, *features: str, kind: str = "Feature View", **more: object) -> FeatureTable:
    columns = tuple(Feature(name=feature) for feature in features)
    return FeatureTable(namespace="p", name=name, kind=kind, features=columns, **more)  # type: ignore[arg-type]


def read(*definitions: Definition, **config: object) -> FeatureIndex:
    made = FeatureStoreConfig.model_validate(config)
    return index_of(FakeSource(made, definitions))


def index_of(source: FeatureSource) -> FeatureIndex:
    index = finished_of(source).index
    assert index is not None
    return index


def look_up(index: FeatureIndex, name: str, feature: str) -> FeatureMatch:
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
    labels = table("l", "x", kind="Label View")
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
    (found,) = Features([index]).by_source[urn]
    assert found.table == "t"


def test_each_reading_makes_the_index_anew() -> None:
    source = FakeSource(FeatureStoreConfig(), [table("t", "a")])
    assert look_up(index_of(source), "t", "a").state == "held"
    source.given = [table("t", "b")]
    again = index_of(source)
    assert [look_up(again, "t", name).state for name in "ab"] == ["unknown", "held"]
