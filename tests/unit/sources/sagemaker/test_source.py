"""How feature groups are read: pages, fallbacks, and what AWS refuses."""

from collections.abc import Iterator
from typing import Any

import pytest

from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RateLimitedError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.metadata.proposal import Aspect
from mlcat_ingest.recipe.loader import Origin
from mlcat_ingest.recipe.validate import validate_config
from mlcat_ingest.sources.aws import aws_error
from mlcat_ingest.sources.base import Unlisted
from mlcat_ingest.sources.definitions.tables import Broken, FeatureTable
from mlcat_ingest.sources.sagemaker.api import SagemakerApi
from mlcat_ingest.sources.sagemaker.config import SagemakerConfig
from mlcat_ingest.sources.sagemaker.source import SagemakerSource

pytest.importorskip("botocore", reason="the SDK of the extra `aws`")

from botocore.exceptions import ClientError

from support.reading import records_of
from support.sagemaker import ACCOUNT, REGION, Aws, arn, columns, group

PLACE = f"{ACCOUNT}_{REGION}"


def names(aws: Aws) -> list[str]:
    found = [one.name for one in aws.source.definitions() if isinstance(one, FeatureTable | Broken)]
    aws.done()
    return found


def feature(group_name: str, name: str, **more: Any) -> dict[str, Any]:
    return {"FeatureGroupName": group_name, "FeatureName": name, **more}


def test_groups_are_searched_for_to_the_last_page() -> None:
    aws = Aws().metadata()
    aws.groups(group("a"), more="2").groups(token="2", more="3").groups(group("b"), token="3")
    assert names(aws) == ["a", "b"]
    assert aws.source.traffic.requests_made() == 4


def test_what_people_wrote_of_features_is_joined_to_the_last_page() -> None:
    aws = Aws().metadata(feature("a", "rate", Description="how often"), more="2")
    parameters = [{"Key": "unit", "Value": "km"}]
    aws.metadata(feature("a", "trips", Parameters=parameters), feature("a", "at"), token="2")
    (found,) = aws.groups(group("a")).source.definitions()
    assert isinstance(found, FeatureTable)
    _, rate, trips = found.features
    assert rate.description == "how often"
    assert trips.properties["sagemaker.parameter.unit"] == "km"
    aws.done()


def test_datahub_defect_d14_a_group_of_more_than_one_page_of_features_is_read_for_ever() -> None:
    one, two = group("a"), group("a", FeatureDefinitions=columns("z:String"))
    aws = Aws(feature_metadata=False).refuses("search", "AccessDeniedException").listed("a")
    aws.described(one, more="2").described(two, token="2").tagged("a", team="maps")
    (found,) = aws.source.definitions()
    assert isinstance(found, FeatureTable)
    assert [column.name for column in found.features] == ["at", "rate", "trips", "z"]
    assert found.tags == {"team": "maps"}
    assert aws.source.traffic.requests_made() == 5
    aws.done()


def test_pages_that_go_round_in_circles_are_an_error() -> None:
    aws = Aws().metadata().groups(group("a"), more="2").groups(group("b"), token="2", more="2")
    with pytest.raises(ProtocolMismatchError, match=r"sagemaker:Search .* same page token"):
        list(aws.source.definitions())
    aws = Aws(feature_metadata=False).refuses("search", "AccessDenied").listed("a")
    aws.described(group("a"), more="2").described(group("a"), token="2", more="2")
    with pytest.raises(ProtocolMismatchError, match=r"DescribeFeatureGroup .* the same"):
        list(aws.source.definitions())


def test_pages_without_anything_new_are_an_error() -> None:
    aws = Aws().metadata().groups(group("a"), more="0")
    for number in range(25):
        aws.groups(group("a"), token=str(number), more=str(number + 1))
    with pytest.raises(ProtocolMismatchError, match=r"sagemaker:Search .* without anything new"):
        list(aws.source.definitions())


def test_where_search_is_denied_groups_are_listed_and_described() -> None:
    aws = Aws().refuses("search", "AccessDeniedException")
    aws.refuses("search", "AccessDeniedException").listed("a", more="2")
    aws.described(group("a")).tagged("a").listed("b", token="2")
    aws.described(group("b")).tagged("b")
    assert names(aws) == ["a", "b"]


def test_a_group_that_search_gives_in_part_is_described() -> None:
    part = {"FeatureGroupName": "a", "FeatureGroupArn": arn("a"), "FeatureGroupStatus": "Created"}
    aws = Aws().metadata().groups(part, group("b")).described(group("a")).tagged("a")
    assert names(aws) == ["a", "b"]


def test_a_group_that_is_being_deleted_or_gone_is_none() -> None:
    aws = Aws().refuses("search", "AccessDenied").refuses("search", "AccessDenied")
    aws.listed("a", "b").refuses("describe_feature_group", "ResourceNotFound")
    aws.described(group("b", FeatureGroupStatus="Deleting")).tagged("b")
    assert names(aws) == []


def test_a_group_that_may_not_be_described_is_reported_and_hides_no_other() -> None:
    aws = Aws(feature_metadata=False).refuses("search", "AccessDenied").listed("a", "b")
    aws.refuses("describe_feature_group", "AccessDeniedException").described(group("b")).tagged("b")
    broken, found = aws.source.definitions()
    assert isinstance(broken, Broken)
    assert "sagemaker:DescribeFeatureGroup" in broken.reason
    assert isinstance(found, FeatureTable)
    aws.done()


@pytest.mark.parametrize(
    "strange",
    [
        {"FeatureDefinitions": [3]},
        {"FeatureDefinitions": [{"FeatureType": "String"}]},
        {"Tags": {"a": "b"}},
        {"OfflineStoreConfig": "s3://bucket"},
        {"OnlineStoreConfig": ["x"]},
    ],
)
def test_a_group_of_a_strange_form_hides_no_other(strange: dict[str, Any]) -> None:
    class Api(SagemakerApi):
        def search(self, resource: str, page: int = 0) -> Iterator[list[dict[str, Any]]]:
            del page
            yield [group("a", **strange), group("b")] if resource == "FeatureGroup" else []

    config = SagemakerConfig.model_validate({"region": REGION})
    broken, found = SagemakerSource(config, Api(config)).definitions()
    assert isinstance(broken, Broken)
    assert isinstance(found, FeatureTable)
    assert (broken.name, found.name) == ("a", "b")
    assert broken.reason.startswith("not shaped as SageMaker's: ")


def test_tags_that_may_not_be_read_stay_as_they_are_and_are_asked_for_once() -> None:
    aws = Aws(feature_metadata=False).refuses("search", "AccessDenied").listed("a", "b")
    aws.described(group("a")).refuses("list_tags", "AccessDeniedException").described(group("b"))
    tables = [one for one in aws.source.definitions() if isinstance(one, FeatureTable)]
    assert [one.unread for one in tables] == [frozenset({"tags", "owners"})] * 2
    aws.done()


def test_features_whose_descriptions_may_not_be_read_are_noted_once() -> None:
    aws = Aws().refuses("search", "AccessDeniedException").groups(group("a"), group("b"))
    first, second = (one for one in aws.source.definitions() if isinstance(one, FeatureTable))
    assert [note.kind for note in first.notes] == ["feature_metadata_unread"]
    assert second.notes == ()
    assert first.features[0].unread == frozenset({"description"})
    aws.done()


def test_with_neither_search_nor_list_the_actions_are_named() -> None:
    aws = Aws().refuses("search", "AccessDenied").refuses("search", "AccessDenied")
    aws.refuses("list_feature_groups", "AccessDeniedException")
    with pytest.raises(NotAuthorizedError, match="allow sagemaker:ListFeatureGroups"):
        list(aws.source.definitions())


@pytest.mark.parametrize(
    ("code", "status", "error", "words"),
    [
        ("ExpiredTokenException", 400, AuthenticationError, "have expired"),
        ("UnrecognizedClientException", 400, AuthenticationError, "refused the credentials"),
        ("InvalidSignatureException", 403, AuthenticationError, "refused the credentials"),
        ("ThrottlingException", 400, RateLimitedError, "sagemaker:Search.*ThrottlingException"),
        ("InternalFailure", 500, SourceUnavailableError, "failed with 500"),
        ("ValidationException", 400, ProtocolMismatchError, "ValidationException"),
    ],
)
def test_what_aws_refuses_is_an_error_that_says_what_to_do(
    code: str, status: int, error: type[MlcatError], words: str
) -> None:
    aws = Aws(feature_metadata=False).refuses("search", code, status)
    with pytest.raises(error, match=words):
        list(aws.source.definitions())


def source(**config: Any) -> SagemakerSource:
    return SagemakerSource(SagemakerConfig(retries=0, **config))


@pytest.fixture
def no_aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Make boto3 find nothing on this machine."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("no_aws")
@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        ({"region": REGION}, AuthenticationError, "no usable AWS credentials"),
        ({}, RecipeError, "no AWS region is set"),
        ({"region": REGION, "profile": "none"}, RecipeError, "AWS profile"),
        ({"region": "not a region"}, RecipeError, "invalid AWS region"),
    ],
)
def test_without_credentials_or_region_the_option_is_named(
    config: dict[str, Any], error: type[MlcatError], words: str
) -> None:
    with pytest.raises(error, match=words):
        list(source(**config).coming_tables())


@pytest.mark.process
@pytest.mark.usefixtures("no_aws")
def test_an_endpoint_that_does_not_answer_is_named_by_its_option() -> None:
    keys = {"access_key_id": "AKIDEXAMPLE", "secret_access_key": "made-up"}
    away = {"endpoint_url": "http://127.0.0.1:9", **keys}
    with pytest.raises(SourceUnavailableError, match="`endpoint_url` and `region`"):
        list(source(region=REGION, **away).coming_tables())


@pytest.mark.parametrize(
    "config",
    [
        {"access_key_id": "AKID"},
        {"session_token": "x"},
        {"compat": "datahub", "instance": "x"},
    ],
)
def test_options_that_do_not_go_together_are_refused(config: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"must be set together|requires `|combined with"):
        SagemakerConfig(**config)


def test_the_role_of_a_profile_that_cannot_be_assumed_is_named() -> None:
    answer: Any = {"Error": {"Code": "AccessDenied"}}
    error = aws_error(ClientError(answer, "AssumeRole"), "sagemaker:Search")
    assert isinstance(error, NotAuthorizedError)
    assert str(error.hint) == "allow sts:AssumeRole in the role's policy"


@pytest.mark.parametrize("key", ["role_arn", "aws_role", "external_id"])
def test_a_role_is_set_in_a_profile(key: str) -> None:
    _, problems = validate_config(SagemakerConfig, {key: "x"}, (), Origin())
    assert "belongs in a profile" in problems[0].render()


def test_datahubs_own_names_of_the_options_are_understood() -> None:
    config = SagemakerConfig.model_validate(
        {"aws_region": REGION, "aws_access_key_id": "AKID", "aws_secret_access_key": "made-up"}
    )
    assert config.region == REGION
    assert "made-up" not in repr(config)


def urns(*suffixes: str) -> list[Unlisted]:
    properties: Aspect = {}
    kinds = {
        "table": "urn:li:mlFeatureTable:(urn:li:dataPlatform:sagemaker,{}.{})",
        "feature": "urn:li:mlFeature:({}.{},{})",
        "key": "urn:li:mlPrimaryKey:({}.{},{})",
    }
    reported = (one.split(":") for one in suffixes)
    return [Unlisted(kinds[kind].format(PLACE, *names), properties) for kind, *names in reported]


def test_a_thing_is_gone_once_sagemaker_says_so_by_name() -> None:
    aws = Aws(feature_metadata=False).first(group("kept")).groups(group("kept"))
    list(records_of(aws.source))
    asked = urns("table:gone", "feature:gone:rate", "table:lag", "feature:lag:rate")
    asked += urns("feature:lag:dropped", "key:lag:id", "key:lag:rate", "table:denied")
    aws.refuses("describe_feature_group", "ResourceNotFound").described(group("lag"))
    aws.refuses("describe_feature_group", "AccessDeniedException")
    missing = list(aws.source.missing("", asked))
    assert all(one.second_pass for one in missing)
    gone = [one.is_gone() for one in missing]
    assert gone == [True, True, False, False, True, False, True, False]
    aws.done()


def test_the_doctor_names_each_action_that_is_denied() -> None:
    aws = Aws().first(group("a")).first(group("a"))
    aws.refuses("search", "AccessDeniedException").refuses("list_feature_groups", "AccessDenied")
    aws.described(group("a")).tagged("a")
    found = {one.what: one for one in aws.source.check()}
    assert found["SageMaker account and region"].detail == PLACE
    reported = {
        what.rpartition(": ")[2]: one.outcome for what, one in found.items() if ": " in what
    }
    assert reported == {
        "sagemaker:Search": "ok",
        "sagemaker:Search of features": "warning",
        "sagemaker:ListFeatureGroups": "warning",
        "sagemaker:DescribeFeatureGroup": "ok",
        "sagemaker:ListTags": "ok",
    }
    aws.done()


def test_the_doctor_says_where_nothing_can_be_read() -> None:
    aws = Aws().refuses("search", "AccessDenied").refuses("list_feature_groups", "AccessDenied")
    (finding,) = aws.source.check()
    assert finding.outcome == "failed"
    assert finding.hint is not None
    assert "sagemaker:ListFeatureGroups" in finding.hint
    aws.done()
