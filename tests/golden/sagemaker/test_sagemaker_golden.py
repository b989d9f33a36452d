"""All that feature groups of SageMaker become: one line an aspect."""

from pathlib import Path

import pytest

from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import decoded_parts

pytest.importorskip("botocore", reason="the SDK of the extra `aws`")

from support.golden import as_lines, assert_valid
from support.merging import written
from support.reading import records_of
from support.sagemaker import ACCOUNT, REGION, Aws, group, offline

GOLDEN = Path(__file__).parent / "groups.jsonl"

STORED = offline("s3://lake/features", "s3://lake/features/drivers/data", "drivers_1691502397")
DRIVERS = group(
    "drivers",
    *("id:String", "at:String", "rate:Fractional", "trips:Integral", "seen:String:Set"),
    Description="how drivers do",
    OfflineStoreConfig=STORED,
    OnlineStoreConfig={"EnableOnlineStore": True, "StorageType": "InMemory"},
    RoleArn=f"arn:aws:iam::{ACCOUNT}:role/store",
    Tags=[
        {"Key": "team", "Value": "maps"},
        {
            "Key": "sagemaker:user-profile-arn",
            "Value": f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:user-profile/d-abc/ann",
        },
    ],
)
RATE = {
    "FeatureGroupName": "drivers",
    "FeatureName": "rate",
    "Description": "how often",
    "Parameters": [{"Key": "unit", "Value": "1/h"}, {"Key": "mlcat.type", "Value": "INTERVAL"}],
}


def entities() -> list[Entity]:
    aws = Aws().first(DRIVERS).metadata(RATE).groups(DRIVERS, group("bare", "id:String"))
    found = [one for record in records_of(aws.source) for one in aws.source.map(record)]
    aws.done()
    return found


def test_the_groups_give_these_entities(*, update_golden: bool) -> None:
    found = as_lines(entities())
    if update_golden:
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_all_of_it_can_be_sent_and_is_valid() -> None:
    for entity in entities():
        decoded_parts(entity.urn)
        assert_valid(written(entity))
