"""SageMaker without AWS: groups as its service model shapes them, and a client that is told what
to answer. The Stubber of botocore checks questions and answers against that model."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from botocore.stub import Stubber
from pydantic import SecretStr

from mlcat_ingest.sources.sagemaker.api import PAGE, SagemakerApi
from mlcat_ingest.sources.sagemaker.config import SagemakerConfig
from mlcat_ingest.sources.sagemaker.source import SagemakerSource

ACCOUNT, REGION = "123456789012", "eu-west-1"
MOMENT = datetime(2026, 1, 31, 12, tzinfo=UTC)
FEATURES = ("id:String", "at:Fractional", "rate:Fractional", "trips:Integral")


def arn(name: str) -> str:
    return f"arn:aws:sagemaker:{REGION}:{ACCOUNT}:feature-group/{name}"


def columns(*reported: str) -> list[dict[str, Any]]:
    """Return feature definitions, each told as `name:type[:collection]`."""
    found = []
    for one in reported:
        name, kind, *collection = one.split(":")
        found.append({"FeatureName": name, "FeatureType": kind})
        if collection:
            found[-1]["CollectionType"] = collection[0]
    return found


def group(name: str, *reported: str, **more: Any) -> dict[str, Any]:
    """Return a feature group as Search and DescribeFeatureGroup give it."""
    return {
        "FeatureGroupArn": arn(name),
        "FeatureGroupName": name,
        "RecordIdentifierFeatureName": "id",
        "EventTimeFeatureName": "at",
        "FeatureDefinitions": columns(*(reported or FEATURES)),
        "CreationTime": MOMENT,
        "FeatureGroupStatus": "Created",
        **more,
    }


def offline(prefix: str, resolved: str = "", table: str = "") -> dict[str, Any]:
    store: dict[str, Any] = {"S3StorageConfig": {"S3Uri": prefix}}
    if resolved:
        store["S3StorageConfig"]["ResolvedOutputS3Uri"] = resolved
    if table:
        catalog = {"TableName": table, "Catalog": "AwsDataCatalog", "Database": "Features"}
        store["DataCatalogConfig"] = catalog
    return store


_ACTIVE: list[Stubber] = []


@cache
def _client() -> Any:
    """Return a client that is never let near AWS; making one reads the whole service model."""
    config = SagemakerConfig(
        region=REGION, access_key_id=SecretStr("AKIDEXAMPLE"), secret_access_key=SecretStr("none")
    )
    return SagemakerApi(config).open_client()


class Aws:
    """A client that answers what a test says, in that order, and the source that asks it."""

    def __init__(self, **config: Any) -> None:
        self.config = SagemakerConfig(region=REGION, **config)
        client = _client()
        self.api = SagemakerApi(self.config, client)
        while _ACTIVE:
            _ACTIVE.pop().deactivate()  # that of a test which ended early
        self.stub = Stubber(client)
        self.stub.activate()
        _ACTIVE.append(self.stub)
        self.source = SagemakerSource(self.config, self.api)

    def groups(
        self, *found: dict[str, Any], token: str | None = None, more: str | None = None
    ) -> "Aws":
        """Answer a Search for groups: the page after `token`, with `more` to come."""
        return self._search("FeatureGroup", found, token, more)

    def metadata(
        self, *found: dict[str, Any], token: str | None = None, more: str | None = None
    ) -> "Aws":
        return self._search("FeatureMetadata", found, token, more)

    def first(self, *found: dict[str, Any]) -> "Aws":
        """Answer the question for any one group."""
        return self._search("FeatureGroup", found, None, None, page=1)

    def _search(
        self,
        resource: str,
        found: Sequence[dict[str, Any]],
        token: str | None,
        more: str | None,
        page: int = PAGE,
    ) -> "Aws":
        asked: dict[str, Any] = {"Resource": resource, "MaxResults": page}
        answer: dict[str, Any] = {"Results": [{resource: one} for one in found]}
        return self.answers("search", answer, asked, token, more)

    def answers(
        self,
        method: str,
        answer: dict[str, Any],
        asked: dict[str, Any],
        token: str | None = None,
        more: str | None = None,
    ) -> "Aws":
        if token is not None:
            asked = {**asked, "NextToken": token}
        if more is not None:
            answer = {**answer, "NextToken": more}
        self.stub.add_response(method, answer, asked)
        return self

    def listed(self, *names: str, token: str | None = None, more: str | None = None) -> "Aws":
        summaries = [
            {"FeatureGroupName": name, "FeatureGroupArn": arn(name), "CreationTime": MOMENT}
            for name in names
        ]
        answer = {"FeatureGroupSummaries": summaries}
        return self.answers("list_feature_groups", answer, {"MaxResults": PAGE}, token, more)

    def described(self, whole: dict[str, Any], token: str | None = None, more: str = "") -> "Aws":
        # The service model has the token among what every answer holds.
        asked = {"FeatureGroupName": whole["FeatureGroupName"]}
        return self.answers("describe_feature_group", whole, asked, token, more)

    def tagged(self, name: str, **tags: str) -> "Aws":
        found = [{"Key": key, "Value": value} for key, value in tags.items()]
        return self.answers("list_tags", {"Tags": found}, {"ResourceArn": arn(name)})

    def refuses(self, method: str, code: str, status: int = 400) -> "Aws":
        self.stub.add_client_error(method, code, "as a test says", status)
        return self

    def done(self) -> None:
        """Say that everything was asked for."""
        self.stub.assert_no_pending_responses()
