"""A client of SageMaker: sessions of boto3, operations to their last page, translated errors."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mlcat_ingest.core.findings import RequestSide
from mlcat_ingest.core.paging import ListingPage, RecentIds, follow
from mlcat_ingest.sources.aws import NO_SUCH, aws_error, client_settings, open_session
from mlcat_ingest.sources.sagemaker.config import SagemakerConfig

Record = Mapping[str, Any]
"""One item of an answer of AWS."""

PAGE: Final = 100
"""Items in a page: the most that Search and ListFeatureGroups give."""

_ITEMS: Final = {
    "search": "Results",
    "list_feature_groups": "FeatureGroupSummaries",
    "list_tags": "Tags",
}
ACTIONS: Final = {
    "search": "sagemaker:Search",
    "list_feature_groups": "sagemaker:ListFeatureGroups",
    "describe_feature_group": "sagemaker:DescribeFeatureGroup",
    "list_tags": "sagemaker:ListTags",
    "get_caller_identity": "sts:GetCallerIdentity",
}
"""The action that a policy has to allow, by method."""


class SagemakerApi(RequestSide):
    """Sends requests to SageMaker, with translated errors. Connects on first use only."""

    def __init__(self, config: SagemakerConfig, client: Any = None) -> None:
        """Keep the configuration; `client` is made by it if not given."""
        self._config = config
        self._clients = {} if client is None else {"sagemaker": client}
        self._session: Any = None
        self.requests = 0

    def requests_made(self) -> int:
        """Return how many requests were sent to AWS so far."""
        return self.requests

    def pages(self, method: str, **parameters: Any) -> Iterator[Sequence[Record]]:
        """Yield every page of a listing.

        Raises:
            ProtocolMismatchError: the listing cannot end.
        """
        for answer in self._answers(method, **parameters):
            yield (answer or {}).get(_ITEMS[method]) or ()

    def _answers(self, method: str, **parameters: Any) -> Iterator[Record | None]:
        def fetch(token: str | None) -> ListingPage[Record | None]:
            more = {"NextToken": token} if token else {}
            answer = self._call(method, **parameters, **more)
            return ListingPage([answer], (answer or {}).get("NextToken"))

        seen = RecentIds(ACTIONS[method])
        for answers in follow(fetch, listing=ACTIONS[method]):
            for answer in answers:
                content = {**(answer or {}), "NextToken": None, "ResponseMetadata": None}
                seen.new([repr(content)])
                yield answer

    def search(self, resource: str, page: int = PAGE) -> Iterator[Sequence[Record]]:
        """Yield pages of all results for a kind: `FeatureGroup`, `FeatureMetadata`."""
        for results in self.pages("search", Resource=resource, MaxResults=page):
            yield [result[resource] for result in results if resource in result]

    def list_groups(self) -> Iterator[Sequence[Record]]:
        """Yield pages of the summaries of all feature groups."""
        return self.pages("list_feature_groups", MaxResults=PAGE)

    def describe(self, name: str) -> Record | None:
        """Return a feature group with all its features, None where there is none.

        Cost: one request for each 2,500 features.
        """
        group: dict[str, Any] = {}
        features: list[Any] = []
        for answer in self._answers("describe_feature_group", FeatureGroupName=name):
            if answer is None:
                return None
            features.extend(answer.get("FeatureDefinitions") or ())
            group = {**answer, **group}
        return {**group, "FeatureDefinitions": features}

    def tags(self, arn: str) -> Sequence[Record]:
        """Return the tags of a feature group.

        Cost: one request for each 50.
        """
        return [tag for page in self.pages("list_tags", ResourceArn=arn) for tag in page]

    def caller(self) -> tuple[str, str]:
        """Return account and region of the caller.

        Cost: one request.
        """
        answer = self._call("get_caller_identity") or {}
        return str(answer.get("Account", "")), self._session.region_name or ""

    def open_client(self, service: str = "sagemaker") -> Any:
        """Return a new client of boto3 with the recipe's credentials; nothing is contacted.

        Raises:
            BotoCoreError: the profile does not exist, or there is no region.
        """
        config = self._config
        if self._session is None:
            keys = {
                f"aws_{key}": None if secret is None else secret.get_secret_value()
                for key in ("access_key_id", "secret_access_key", "session_token")
                for secret in [getattr(config, key)]
            }
            self._session = open_session(
                **keys, region_name=config.region, profile_name=config.profile
            )
        return self._session.client(
            service,
            endpoint_url=config.endpoint_url if service == "sagemaker" else None,
            config=client_settings(timeout_s=config.timeout_s, retries=config.retries),
        )

    def close(self) -> None:
        """Close connections; safe to call twice."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _call(self, method: str, **parameters: Any) -> Record | None:
        """Return the answer to a request, None where it names no existing item."""
        from botocore.exceptions import BotoCoreError, ClientError

        action = ACTIONS[method]
        service = action.partition(":")[0]
        try:
            if service not in self._clients:
                self._clients[service] = self.open_client(service)
            answer: Record = getattr(self._clients[service], method)(**parameters)
        except ClientError as error:
            self.requests += _attempts(error.response)
            if error.response.get("Error", {}).get("Code") in NO_SUCH:
                return None
            raise aws_error(error, action) from None
        except BotoCoreError as error:
            raise aws_error(error, action) from None
        self.requests += _attempts(answer)
        return answer


def _attempts(answer: Record) -> int:
    """Return how many requests an answer took, retries included."""
    return 1 + int(answer.get("ResponseMetadata", {}).get("RetryAttempts", 0))
