"""What DataHub's own feast source gets wrong on the same registry, defect by defect.

Source: DataHub 1.7 with Feast 0.67 beside it, run on a registry of the same definitions.
"""

from collections import Counter
from functools import cache
from typing import Any

from mlcat_ingest.metadata.proposal import Entity
from support.feast import entities_of_registry

HEAD = "urn:li:dataset:(urn:li:dataPlatform:"


@cache
def found() -> dict[str, Entity]:
    return {entity.urn: entity for entity in entities_of_registry()}


def table(view: str) -> Entity:
    return found()[f"urn:li:mlFeatureTable:(urn:li:dataPlatform:feast,rides.{view})"]


def of_table(view: str) -> dict[str, Any]:
    return dict(table(view).aspects["mlFeatureTableProperties"])


def of_feature(view: str, name: str) -> dict[str, Any]:
    urn = f"urn:li:mlFeature:(rides.{view},{name})"
    return dict(found()[urn].aspects["mlFeatureProperties"])


def lineage(view: str) -> list[str]:
    """Return the datasets of the first feature of a view, without what all URNs share."""
    sources = found()[of_table(view)["mlFeatures"][0]].aspects["mlFeatureProperties"]["sources"]
    return [urn.removeprefix(HEAD).removesuffix(",PROD)") for urn in sources]


def names(aspect: str, key: str, field: str, entity: Entity) -> list[str]:
    return [entry[field] for entry in entity.aspects[aspect][key]]


def tags(entity: Entity) -> list[str]:
    return names("globalTags", "tags", "tag", entity)


def owners(entity: Entity) -> list[str]:
    return names("ownership", "owners", "owner", entity)


def test_a_query_based_source_ends_its_whole_ingestion() -> None:
    assert lineage("driver_query") == []
    assert [note.kind for note in table("driver_query").notes] == ["source_is_query"]


def test_an_on_demand_view_over_a_stream_view_ends_its_whole_ingestion() -> None:
    assert lineage("live_share") == [
        "kafka,rides.positions",
        "s3,ride-lake/drivers/daily.parquet",
        "bigquery,Rides.raw.Trips",
    ]


def test_six_kinds_of_sources_are_one_unknown_dataset_and_share_lineage() -> None:
    views = ["driver_ratings", "driver_hours", "driver_lake", "driver_accounts", "surge"]
    assert [lineage(view) for view in [*views, "driver_pushed"]] == [
        ["redshift,dwh.rides.driver_ratings"],
        ["hive,warehouse.driver_hours"],
        ["athena,lake.trips"],
        ["postgres,accounts.public.accounts"],
        ["trino,hive.rides.surge"],
        ["snowflake,analytics.features.driver_stats"],
    ]
    assert not [entity for entity in found().values() if "unknown" in str(entity.aspects)]


def test_a_snowflake_table_is_named_without_its_database_and_in_upper_case() -> None:
    assert lineage("driver_snowflake") == ["snowflake,analytics.features.driver_stats"]
    assert lineage("customer_stats") == ["snowflake,analytics.features.customer_stats"]


def test_objects_in_s3_and_gcs_are_local_files_with_dots_for_slashes() -> None:
    assert lineage("driver_types") == ["s3,ride-lake/drivers/daily.parquet"]
    assert lineage("customer_profile") == ["gcs,ride-lake/customers"]
    assert lineage("driver_hourly_stats") == ["file,repo/data/driver_stats.parquet"]


def test_stream_and_label_views_are_missing() -> None:
    kinds = Counter(
        entity.aspects["subTypes"]["typeNames"][0]
        for entity in found().values()
        if "subTypes" in entity.aspects
    )
    assert kinds == {
        "Feature View": 18,
        "Stream Feature View": 1,
        "On Demand Feature View": 2,
        "Label View": 1,
    }
    assert of_table("driver_live")["mlFeatures"] == ["urn:li:mlFeature:(rides.driver_live,n)"]


def test_feature_services_are_ignored() -> None:
    assert of_table("driver_hourly_stats")["customProperties"]["feast.services"] == (
        "driver_ranking, pairing"
    )


def test_tables_have_no_description() -> None:
    assert of_table("driver_hourly_stats")["description"] == "How drivers did in each hour"
    assert of_table("driver_live")["description"] == "What drivers do now"


def test_a_field_is_described_by_its_tag_alone() -> None:
    stats = "driver_hourly_stats"
    assert of_feature(stats, "conv_rate")["description"] == "Share of offers that were taken"
    assert of_feature(stats, "acc_rate")["description"] == "Share of offers accepted"
    tagged = found()[f"urn:li:mlFeature:(rides.{stats},acc_rate)"]
    assert tags(tagged) == []


def test_types_of_collections_are_unknown() -> None:
    types = {
        name: of_feature("driver_types", name)["dataType"]
        for name in ("as_list", "as_nested", "embedding", "as_set", "as_map", "as_json")
    }
    assert types == {
        "as_list": "SEQUENCE",
        "as_nested": "SEQUENCE",
        "embedding": "SEQUENCE",
        "as_set": "SET",
        "as_map": "MAP",
        "as_json": "MAP",
    }
    assert of_feature("driver_types", "as_image")["dataType"] == "IMAGE"
    assert of_feature("driver_types", "as_decimal")["dataType"] == "CONTINUOUS"


def test_on_demand_views_lose_owner_and_tags() -> None:
    assert owners(table("rate_at_hour")) == ["urn:li:corpuser:matching@example.com"]
    assert tags(table("rate_at_hour")) == ["urn:li:tag:team:matching"]


def test_only_the_tag_called_name_is_taken() -> None:
    assert tags(table("driver_hourly_stats")) == ["urn:li:tag:certified", "urn:li:tag:team:drivers"]
    rate = found()["urn:li:mlFeature:(rides.driver_hourly_stats,conv_rate)"]
    assert tags(rate) == ["urn:li:tag:owner-team:matching", "urn:li:tag:tier:gold"]


def test_only_owners_that_the_recipe_lists_are_taken() -> None:
    assert owners(table("driver_hourly_stats")) == ["urn:li:corpuser:Drivers@example.com"]
    key = found()["urn:li:mlPrimaryKey:(rides.driver_hourly_stats,driver)"]
    assert owners(key) == ["urn:li:corpuser:people@example.com"]


def test_the_entity_of_a_view_without_entities_is_a_key() -> None:
    assert of_table("surge")["mlPrimaryKeys"] == []
    assert of_table("rate_at_hour")["mlPrimaryKeys"] == []
    assert not [urn for urn in found() if "__dummy" in urn]


def test_a_join_key_is_a_feature_of_its_own_table_too() -> None:
    joined = {"driver_id", "customer_id"}
    assert not [
        urn
        for urn in found()
        if urn.startswith("urn:li:mlFeature:") and urn.rpartition(",")[2].rstrip(")") in joined
    ]
    keys = of_table("customer_stats")["mlPrimaryKeys"]
    assert keys == [
        "urn:li:mlPrimaryKey:(rides.customer_stats,customer)",
        "urn:li:mlPrimaryKey:(rides.customer_stats,driver)",
    ]


def test_the_fields_of_a_request_are_a_dataset() -> None:
    assert lineage("rate_at_hour") == ["file,repo/data/driver_stats.parquet"]
    assert of_table("rate_at_hour")["customProperties"]["feast.request_fields"] == "hour, zone"
