"""What DataHub's own feast source wrote of the same objects is taken over, and nothing else is.

The names are those of `FeastRepositorySource` of acryl-datahub 1.7.
"""

from typing import Any

import pytest
from datahub.emitter.mce_builder import (
    make_dataset_urn,
    make_ml_feature_urn,
    make_ml_primary_key_urn,
    make_tag_urn,
)

from mlcat_ingest.client.base import StoredEntity
from mlcat_ingest.metadata.identity import Writer
from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Aspect, Entity
from mlcat_ingest.pipeline.merge.entity import merge_entity
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.sources.definitions.tables import FeatureScope, map_table
from mlcat_ingest.sources.feast.registry import MESSAGES
from support.feast import read, registry, tables
from support.merging import Shelf

SCOPE = FeatureScope(Naming("feast"), "feast:registry:default")
RULES = MergeRules(Writer("feast"))
FEATURE = "urn:li:mlFeature:(p.view,rate)"
TABLE = "urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,p.view)"
BY_HAND = make_dataset_urn("hive", "by.hand")


def entities(**lists: Any) -> dict[str, Entity]:
    found = tables(read(registry(**lists)))
    return {one.urn: one for table in found.values() for one in map_table(SCOPE, table)}


def of_view(source: dict[str, Any], **view: Any) -> dict[str, Entity]:
    spec = {
        "name": "view",
        "project": "p",
        "features": [{"name": "rate", "value_type": 5, "tags": {"name": "gold", "team": "maps"}}],
        "batch_source": {"name": "s", **source},
        **view,
    }
    return entities(feature_views=[{"spec": spec}])


def shelf(entity: Entity, **stored: Aspect) -> Shelf:
    found = Shelf(entity.urn)
    for name, aspect in stored.items():
        found.put(name, aspect)
    return found


def ingest(on: Shelf, entity: Entity) -> StoredEntity:
    on.write(merge_entity(entity, on.stored(), RULES))
    return on.stored()


def sources_of(stored: StoredEntity) -> list[str]:
    found: list[str] = stored["mlFeatureProperties"].value["sources"]
    return found


FILE = {"type": 1, "file_options": {"uri": "s3://lake/x,y.parquet"}}
OTHERS = {
    "file, s3.lake.x,y.parquet": FILE,
    "bigquery, raw.Trips": {"type": 2, "bigquery_options": {"table": "raw.Trips"}},
    "snowflake, TRIPS": {
        "type": 8,
        "snowflake_options": {"table": "TRIPS", "database": "D", "schema": "S"},
    },
    "kafka, Trips": {"type": 3, "kafka_options": {"topic": "Trips"}},
    "kinesis, eu:trips": {
        "type": 4,
        "kinesis_options": {"region": "eu", "stream_name": "trips"},
    },
    "unknown, unknown": {"type": 10, "trino_options": {"table": "a.b.c"}},
}


@pytest.mark.parametrize(("named", "source"), OTHERS.items())
def test_datasets_of_its_names_give_way_and_those_of_people_stay(
    named: str, source: dict[str, Any]
) -> None:
    feature = of_view(source)[FEATURE]
    theirs = make_dataset_urn(*named.split(", "))
    properties = {"dataType": "CONTINUOUS", "sources": [theirs, BY_HAND]}
    stored = ingest(shelf(feature, mlFeatureProperties=properties), feature)
    ours = feature.aspects["mlFeatureProperties"]["sources"]
    assert set(sources_of(stored)) == {*ours, BY_HAND}


def test_its_one_tag_gives_way_and_those_of_people_stay() -> None:
    feature = of_view(FILE)[FEATURE]
    tags = [{"tag": make_tag_urn(name)} for name in ("gold", "by-hand")]
    on = shelf(feature, globalTags={"tags": tags}, mlFeatureProperties={"sources": []})
    found = ingest(on, feature)["globalTags"].value["tags"]
    expected = {"urn:li:tag:by-hand", "urn:li:tag:name:gold", "urn:li:tag:team:maps"}
    assert {one["tag"] for one in found} == expected
    # A person may use a tag of the same name, now that the recipe has its own.
    on.edit("globalTags", tags=[*found, {"tag": make_tag_urn("gold")}])
    again = ingest(on, feature)["globalTags"].value["tags"]
    assert {one["tag"] for one in again} == {*expected, "urn:li:tag:gold"}


def test_what_it_writes_again_is_taken_over_again() -> None:
    feature = of_view(FILE)[FEATURE]
    theirs = {"sources": [make_dataset_urn("file", "s3.lake.x,y.parquet")]}
    on = shelf(feature, mlFeatureProperties=theirs)
    first = sources_of(ingest(on, feature))
    on.put("mlFeatureProperties", theirs)
    assert sources_of(ingest(on, feature)) == first


def test_a_key_that_stands_for_no_entity_leaves_its_table() -> None:
    table = of_view(FILE, entities=["__dummy"])[TABLE]
    assert "__dummy" not in str(table.aspects)
    members = {
        "mlFeatures": [make_ml_feature_urn("p.view", name) for name in ("rate", "by-hand")],
        "mlPrimaryKeys": [make_ml_primary_key_urn("p.view", "__dummy")],
    }
    properties = ingest(shelf(table, mlFeatureTableProperties=members), table)
    value = properties["mlFeatureTableProperties"].value
    assert value["mlPrimaryKeys"] == []
    assert value["mlFeatures"] == members["mlFeatures"]


def test_an_on_demand_view_has_no_datasets_of_its_request() -> None:
    view = {"name": "base", "project": "p", "batch_source": {"name": "s", **FILE}}
    request = {"name": "hours", "type": 7}
    projection = {"feature_view_name": "base"}
    sources = {
        "request": MESSAGES["OnDemandSource"](request_data_source=request),
        "base": MESSAGES["OnDemandSource"](feature_view_projection=projection),
    }
    spec = {"name": "view", "project": "p", "features": [{"name": "rate"}], "sources": sources}
    feature = entities(feature_views=[{"spec": view}], on_demand_feature_views=[{"spec": spec}])[
        FEATURE
    ]
    theirs = [
        make_dataset_urn("request", "hours"),
        make_dataset_urn("file", "s3.lake.x,y.parquet"),
        BY_HAND,
    ]
    stored = ingest(shelf(feature, mlFeatureProperties={"sources": theirs}), feature)
    ours = feature.aspects["mlFeatureProperties"]["sources"]
    assert set(sources_of(stored)) == {*ours, BY_HAND}
    assert len(ours) == 1


def test_the_entries_of_another_recipe_are_not_taken_over() -> None:
    feature = of_view(FILE)[FEATURE]
    theirs = make_dataset_urn("file", "s3.lake.x,y.parquet")
    on = shelf(feature)
    on.ingest({"mlFeatureProperties": {"sources": [theirs]}}, MergeRules(Writer("other")))
    assert theirs in sources_of(ingest(on, feature))
