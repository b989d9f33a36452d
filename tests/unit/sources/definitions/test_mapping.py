from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.metadata.validate import validate_aspect
from mlcat_ingest.sources.definitions.mapping import map_table
from mlcat_ingest.sources.definitions.model import DatasetPlace, Feature, FeatureTable, Key
from mlcat_ingest.sources.definitions.scope import FeatureScope

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
