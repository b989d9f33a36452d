"""SageMaker feature groups into a catalog: through moto for what moto keeps, and over a socket.

moto knows no descriptions of groups and features, lists nothing and deletes nothing; what it does
not answer is tested with botocore's Stubber, see `tests/unit/sources/sagemaker`.
"""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from mlcat_ingest.errors import RateLimitedError
from mlcat_ingest.sources.sagemaker.api import SagemakerApi
from mlcat_ingest.sources.sagemaker.config import SagemakerConfig
from mlcat_ingest.sources.sagemaker.source import SagemakerSource
from mlcat_ingest.testing.service import ServiceAnswer, failing_service
from support.definitions import FeatureWorld
from support.sagemaker import ACCOUNT, REGION, columns

PLACE = f"{ACCOUNT}_{REGION}"
PROFILE = """[profile reader]
role_arn = arn:aws:iam::210987654321:role/reader
external_id = catalog
credential_source = Environment
"""
DRIVERS = f"urn:li:mlFeatureTable:(urn:li:dataPlatform:sagemaker,{PLACE}.drivers)"
RATE = f"urn:li:mlFeature:({PLACE}.drivers,rate)"
VECTOR = f"urn:li:mlFeature:({PLACE}.drivers,vector)"
THEIRS = "urn:li:mlFeature:(theirs.table,score)"


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Answer what is asked of AWS in this process, with made-up credentials."""
    (tmp_path / "aws_config").write_text(PROFILE)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws_config"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "made-up")
    with mock_aws():
        yield


def make(name: str, profile: str | None = None, **tags: str) -> None:
    client = SagemakerApi(SagemakerConfig(region=REGION, profile=profile)).open_client()
    client.create_feature_group(
        FeatureGroupName=name,
        RecordIdentifierFeatureName="id",
        EventTimeFeatureName="at",
        FeatureDefinitions=columns(
            "id:String", "at:Fractional", "rate:Fractional", "vector:Fractional:Vector"
        ),
        OfflineStoreConfig={"S3StorageConfig": {"S3Uri": "s3://lake/features"}},
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/store",
        Tags=[{"Key": key, "Value": value} for key, value in tags.items()],
    )
    client.close()


def source(**config: Any) -> dict[str, Any]:
    config = {"region": REGION, "feature_metadata": False, **config}
    return {"type": "sagemaker", "config": config}


@pytest.mark.usefixtures("aws")
def test_groups_are_ingested_and_merged(features: FeatureWorld) -> None:
    make("drivers", team="maps")
    recipe = features.recipe(source())
    assert features.run(recipe) == 0
    table = features.properties(DRIVERS)
    assert table["mlFeatures"] == [f"urn:li:mlFeature:({PLACE}.drivers,at)", RATE, VECTOR]
    assert table["mlPrimaryKeys"] == [f"urn:li:mlPrimaryKey:({PLACE}.drivers,id)"]
    assert features.properties(VECTOR)["dataType"] == "SEQUENCE"
    assert features.stored(DRIVERS)["globalTags"] == {"tags": [{"tag": "urn:li:tag:team:maps"}]}
    glue, folder = features.properties(RATE)["sources"]
    assert glue.startswith(
        "urn:li:dataset:(urn:li:dataPlatform:glue,sagemaker_featurestore.drivers"
    )
    beginning = f"urn:li:dataset:(urn:li:dataPlatform:s3,lake/features/{ACCOUNT}/{REGION}/"
    assert folder.startswith(f"{beginning}offline-store/drivers")

    features.emit(DRIVERS, {**table, "mlFeatures": [*table["mlFeatures"], THEIRS]})
    make("riders")
    assert features.run(recipe) == 0
    assert THEIRS in features.features_of(DRIVERS)
    assert features.run(recipe, "--full") == 0
    reported = json.loads((features.folder / "report.json").read_text())
    assert reported["proposals_sent"] == 0
    assert reported["source_requests"] == 2
    assert THEIRS in features.features_of(DRIVERS)


@pytest.mark.usefixtures("aws")
def test_groups_of_one_name_in_two_accounts_do_not_meet(
    features: FeatureWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    make("drivers")
    make("drivers", profile="reader")
    both = [source(), source(profile="reader")]
    assert features.run(features.recipe(*both)) == 0
    assert features.properties(DRIVERS)
    assert features.properties(DRIVERS.replace(ACCOUNT, "210987654321"))

    like_datahub = [source(compat="datahub"), source(profile="reader", compat="datahub")]
    assert features.run(features.recipe(*like_datahub, name="datahub")) == 2
    assert "namespace_prefix" in capsys.readouterr().err
    assert features.stored(DRIVERS.replace(f"{PLACE}.", "")) == {}


@pytest.mark.usefixtures("aws")
def test_an_account_without_groups_is_named_by_who_asks() -> None:
    groups = SagemakerSource(SagemakerConfig(region=REGION))
    assert groups.server_id() == PLACE
    groups.close()


def test_datahub_defect_dh6357_throttling_ends_the_run() -> None:
    kind = {"Content-Type": "application/x-amz-json-1.1"}
    busy = ServiceAnswer(400, b'{"__type": "ThrottlingException"}', kind)
    nothing = ServiceAnswer(200, b'{"Results": []}', kind)
    with failing_service([busy, nothing, busy]) as service:
        config = SagemakerConfig.model_validate(
            {
                "region": REGION,
                "endpoint_url": service.url,
                "retries": 1,
                "feature_metadata": False,
                "access_key_id": "AKIDEXAMPLE",
                "secret_access_key": "made-up",
            }
        )
        with closing(SagemakerSource(config)) as groups:
            assert list(groups.definitions()) == []
            assert groups.traffic.requests_made() == 2
            with pytest.raises(RateLimitedError, match="sagemaker:"):
                list(groups.definitions())
            assert groups.traffic.requests_made() == 4
