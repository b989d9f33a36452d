"""What a feature group becomes; each defect of DataHub's sagemaker source is a test by its name."""

from datetime import UTC, datetime
from typing import Any

import pytest

from mlcat_ingest.metadata.naming import Naming
from mlcat_ingest.metadata.proposal import Entity, Note
from mlcat_ingest.sources.definitions.tables import (
    DatasetPlace,
    FeatureScope,
    FeatureTable,
    map_table,
)
from mlcat_ingest.sources.sagemaker.source import _TABLE_PROPERTIES, _GroupMapping

pytest.importorskip("botocore", reason="the SDK of the extra `aws`")

from botocore.session import get_session

from support.merging import Shelf
from support.reading import records_of
from support.sagemaker import ACCOUNT, REGION, Aws, arn, columns, group, offline

ROOT = "s3://lake/features"
OWN = f"{ROOT}/{ACCOUNT}/sagemaker/{REGION}/offline-store/drivers-1691502397/data"


def table(name: str = "drivers", *reported: str, **more: Any) -> FeatureTable:
    return _GroupMapping(own_folder=True, metadata={}).table(group(name, *reported, **more))


def mapped(aws: Aws) -> dict[str, Entity]:
    return {one.urn: one for record in records_of(aws.source) for one in aws.source.map(record)}


def test_record_identifier_is_the_key_and_no_feature() -> None:
    found = table()
    assert [(key.name, key.column, key.type) for key in found.keys] == [("id", "id", "TEXT")]
    assert [one.name for one in found.features] == ["at", "rate", "trips"]


def test_types() -> None:
    found = table("t", "id:String", "at:String", "n:Integral", "x:Fractional", "s:String")
    assert [one.type for one in found.features] == ["TIME", "ORDINAL", "CONTINUOUS", "TEXT"]


@pytest.mark.parametrize("kind", ["String", "Fractional"])
def test_datahub_defect_event_time_is_text_or_continuous(kind: str) -> None:
    at = table("t", "id:String", f"at:{kind}").features[0]
    assert at.type == "TIME"
    assert at.properties == {"sagemaker.feature_type": kind, "sagemaker.event_time": "true"}


def test_datahub_defect_collection_types_are_ignored() -> None:
    reported = ("id:String", "l:Integral:List", "v:Fractional:Vector", "s:String:Set")
    definitions = columns(*reported)
    definitions[2]["CollectionConfig"] = {"VectorConfig": {"Dimension": 8}}
    found = table("t", FeatureDefinitions=definitions)
    assert [one.type for one in found.features] == ["SEQUENCE", "SEQUENCE", "SET"]
    assert found.features[1].properties == {
        "sagemaker.feature_type": "Fractional",
        "sagemaker.collection_type": "Vector",
        "sagemaker.vector_dimension": "8",
    }


def test_a_type_that_is_not_known_is_noted_and_no_error() -> None:
    found = table("t", "id:String", "x:Quaternion", "y:String:Bag")
    assert [one.type for one in found.features] == ["UNKNOWN", "UNKNOWN"]
    assert [note.detail for note in found.notes] == ["Quaternion of x", "Bag of y"]


@pytest.mark.parametrize(
    ("chosen", "found_type", "notes"),
    [
        *((spelled, "COUNT", ()) for spelled in ("COUNT", "count", " Count ")),
        ("number", "ORDINAL", (Note("feature_type_unknown", "n: mlcat.type is 'number'"),)),
    ],
)
def test_people_choose_the_type_of_a_column_in_any_case_and_an_unknown_one_is_noted(
    chosen: str, found_type: str, notes: tuple[Note, ...]
) -> None:
    metadata = {("t", "n"): {"Parameters": [{"Key": "mlcat.type", "Value": chosen}]}}
    mapping = _GroupMapping(own_folder=True, metadata=metadata)
    found = mapping.table(group("t", "id:String", "n:Integral"))
    assert (found.features[-1].type, found.notes) == (found_type, notes)


def test_a_property_is_in_what_is_found_and_in_what_is_described() -> None:
    model = get_session().get_service_model("sagemaker")
    described = model.operation_model("DescribeFeatureGroup").output_shape
    for path in _TABLE_PROPERTIES.values():
        for group_shape in (model.shape_for("FeatureGroup"), described):
            shape = group_shape
            for step in path.split("."):
                shape = shape.members[step]


def test_datahub_defect_sources_are_a_prefix_that_groups_share() -> None:
    stored = offline(ROOT, OWN, "drivers_1691502397")
    assert table(OfflineStoreConfig=stored).sources == (
        DatasetPlace("glue", "Features.drivers_1691502397"),
        DatasetPlace("s3", OWN.removeprefix("s3://")),
    )
    shared = _GroupMapping(own_folder=False, metadata={}).table(
        group("t", OfflineStoreConfig=stored)
    )
    assert shared.sources[1] == DatasetPlace("s3", "lake/features")
    assert table(OfflineStoreConfig=offline(ROOT)).sources == (DatasetPlace("s3", "lake/features"),)
    assert table().sources == ()


def test_datahub_defect_tags_and_descriptions_are_dropped() -> None:
    tags = [{"Key": "team", "Value": "maps"}, {"Key": "aws:cloudformation:stack", "Value": "s"}]
    found = table(Description="how drivers do", Tags=tags)
    assert found.description == "how drivers do"
    assert found.tags == {"team": "maps"}
    assert found.properties["sagemaker.tag.aws:cloudformation:stack"] == "s"


def test_datahub_defect_what_people_wrote_of_features_is_dropped() -> None:
    metadata = {
        ("t", "rate"): {
            "Description": "how often",
            "Parameters": [
                {"Key": "unit", "Value": "1/h"},
                {"Key": "mlcat.type", "Value": "INTERVAL"},
            ],
        }
    }
    found = _GroupMapping(own_folder=True, metadata=metadata).table(group("t"))
    rate = found.features[1]
    assert (rate.description, rate.type) == ("how often", "INTERVAL")
    assert rate.properties["sagemaker.parameter.unit"] == "1/h"
    assert found.features[2].description is None


def test_who_made_a_group_in_studio_owns_it() -> None:
    by = f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:user-profile/d-abc/ann"
    assert table(Tags=[{"Key": "sagemaker:user-profile-arn", "Value": by}]).owners == ("ann",)


def test_stores_states_and_times_are_properties() -> None:
    found = table(
        LastUpdateStatus={"Status": "Failed", "FailureReason": "no room"},
        OnlineStoreConfig={
            "EnableOnlineStore": True,
            "StorageType": "InMemory",
            "SecurityConfig": {"KmsKeyId": "alias/k"},
            "TtlDuration": {"Unit": "Days", "Value": 3},
        },
        OfflineStoreConfig={"S3StorageConfig": {"S3Uri": ROOT}, "TableFormat": "Iceberg"},
        OfflineStoreStatus={"Status": "Blocked", "BlockedReason": "denied"},
        OnlineStoreTotalSizeBytes=7,
        RoleArn="arn:aws:iam::1:role/r",
    )
    assert found.properties == {
        "sagemaker.arn": arn("drivers"),
        "sagemaker.status": "Created",
        "sagemaker.created_at": "2026-01-31T12:00:00+00:00",
        "sagemaker.last_update_status": "Failed",
        "sagemaker.last_update_failure": "no room",
        "sagemaker.record_identifier": "id",
        "sagemaker.event_time": "at",
        "sagemaker.role_arn": "arn:aws:iam::1:role/r",
        "sagemaker.online_store.enabled": "true",
        "sagemaker.online_store.storage": "InMemory",
        "sagemaker.online_store.kms_key": "alias/k",
        "sagemaker.online_store.ttl": "3 Days",
        "sagemaker.offline_store.status": "Blocked",
        "sagemaker.offline_store.blocked_reason": "denied",
        "sagemaker.offline_store.format": "Iceberg",
        "sagemaker.offline_store.s3_uri": ROOT,
    }


def test_datahub_defect_names_of_two_accounts_and_regions_meet() -> None:
    aws = Aws().first(group("drivers")).metadata().groups(group("drivers", "id:String"))
    (key, found) = mapped(aws).values()
    place = f"{ACCOUNT}_{REGION}"
    assert key.urn == f"urn:li:mlPrimaryKey:({place}.drivers,id)"
    assert found.urn == f"urn:li:mlFeatureTable:(urn:li:dataPlatform:sagemaker,{place}.drivers)"
    assert found.aspects["dataPlatformInstance"]["instance"] == (
        f"urn:li:dataPlatformInstance:(urn:li:dataPlatform:sagemaker,{place})"
    )
    custom = found.aspects["mlFeatureTableProperties"]["customProperties"]
    assert custom["mlcat.source"] == f"sagemaker:{place}:default"
    aws.done()


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"compat": "datahub"}, "drivers"),
        ({"instance": "prod"}, "prod.drivers"),
        ({"namespace_prefix": "n"}, f"{ACCOUNT}_{REGION}.n.drivers"),
    ],
)
def test_the_recipe_decides_on_the_instance(config: dict[str, str], name: str) -> None:
    aws = Aws(**config).first(group("drivers")).metadata().groups(group("drivers", "id:String"))
    assert list(mapped(aws))[-1] == f"urn:li:mlFeatureTable:(urn:li:dataPlatform:sagemaker,{name})"
    aws.done()


def test_like_datahub_sources_are_at_the_prefix_unless_reported_otherwise() -> None:
    assert not Aws(compat="datahub").config.names_own_folder
    assert Aws(compat="datahub", resolved_s3=True).config.names_own_folder
    assert Aws().config.names_own_folder
    assert not Aws(resolved_s3=False).config.names_own_folder


def test_what_may_not_be_read_of_a_feature_is_left_as_it_is() -> None:
    aws = Aws(feature_metadata=False).first(group("t")).groups(group("t"))
    entities = mapped(aws)
    feature = entities[f"urn:li:mlFeature:({ACCOUNT}_{REGION}.t,rate)"]
    assert "description" not in feature.aspects["mlFeatureProperties"]
    aws.done()


def test_a_group_that_was_made_again_has_its_new_folder_and_table_and_keeps_its_people() -> None:
    urn = f"urn:li:mlFeature:({ACCOUNT}_{REGION}.drivers,rate)"
    shelf, scope = (
        Shelf(urn),
        FeatureScope(Naming("sagemaker", instance=f"{ACCOUNT}_{REGION}"), "k"),
    )
    by_hand = "urn:li:dataset:(urn:li:dataPlatform:hive,by.hand,PROD)"
    found = []
    for epoch in ("1691502397", "1791502397"):
        folder = OWN.replace("1691502397", epoch)
        made = datetime.fromtimestamp(int(epoch), UTC)
        store = offline(ROOT, folder, f"drivers_{epoch}")
        again = table(CreationTime=made, OfflineStoreConfig=store)
        (feature,) = (one for one in map_table(scope, again) if one.urn == urn)
        shelf.ingest(feature.aspects)
        sources = shelf.aspects["mlFeatureProperties"]["sources"]
        found.append([one for one in sources if epoch not in one])
        assert len([one for one in sources if epoch in one]) == 2
        shelf.edit("mlFeatureProperties", sources=[*sources, by_hand])
    assert found == [[], [by_hand]]
