"""The operations of SageMaker that the reader needs, to their last page."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from mlcat_ingest.errors import ProtocolMismatchError
from mlcat_ingest.sources.sagemaker.config import SagemakerConfig
from mlcat_ingest.sources.sagemaker.failures import NO_SUCH, failure, refusal
from mlcat_ingest.sources.sagemaker.session import AwsSession

Record = Mapping[str, Any]
"""What AWS says of one thing."""

PAGE: Final = 100
"""Things in a page: the most that Search and ListFeatureGroups give."""

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
    "assume_role": "sts:AssumeRole",
}
"""What a policy has to allow, by the method that asks for it."""


class SagemakerApi:
    """Asks SageMaker; every error is one of ours. Nothing is contacted before it is asked."""

    def __init__(self, config: SagemakerConfig, client: Any = None) -> None:
        """Keep the configuration; `client` is made by it if not given."""
        self._config = config
        self._client = client
        self._session: AwsSession | None = None
        self.requests = 0

    def pages(self, method: str, **parameters: Any) -> Iterator[Sequence[Record]]:
        """Yield every page of a listing.

        Raises:
            ProtocolMismatchError: the listing goes round in circles.
        """
        seen: set[str] = set()
        while True:
            answer = self._asked(method, **parameters) or {}
            yield answer.get(_ITEMS[method]) or ()
            token = answer.get("NextToken")
            if not token:
                return
            if token in seen:
                raise ProtocolMismatchError(f"{ACTIONS[method]} gave the same page token twice")
            seen.add(token)
            parameters["NextToken"] = token

    def found(self, resource: str, page: int = PAGE) -> Iterator[Sequence[Record]]:
        """Yield pages of all that Search finds of a kind: `FeatureGroup`, `FeatureMetadata`."""
        for results in self.pages("search", Resource=resource, MaxResults=page):
            yield [one[resource] for one in results if resource in one]

    def listed(self) -> Iterator[Sequence[Record]]:
        """Yield pages of the summaries of all feature groups."""
        return self.pages("list_feature_groups", MaxResults=PAGE)

    def described(self, name: str) -> Record | None:
        """Return a feature group with all its features, None where there is none.

        Cost: one request for each 2,500 features.
        """
        whole: dict[str, Any] = {}
        features: list[Any] = []
        seen: set[str | None] = {None}
        token: str | None = None
        while True:
            more = {} if token is None else {"NextToken": token}
            answer = self._asked("describe_feature_group", FeatureGroupName=name, **more)
            if answer is None:
                return None
            features.extend(answer.get("FeatureDefinitions") or ())
            whole = {**answer, **whole}
            token = answer.get("NextToken") or None
            if token is None:
                return {**whole, "FeatureDefinitions": features}
            if token in seen:
                raise ProtocolMismatchError(
                    f"{ACTIONS['describe_feature_group']} gave the same page token twice"
                )
            seen.add(token)

    def tags(self, arn: str) -> Sequence[Record]:
        """Return the tags of a thing.

        Cost: one request for each 50.
        """
        return [tag for page in self.pages("list_tags", ResourceArn=arn) for tag in page]

    def caller(self) -> tuple[str, str]:
        """Return account and region of who asks.

        Cost: one request.
        """
        with self._told(ACTIONS["get_caller_identity"]):
            session = self._session or AwsSession(self._config)
            client = session.sts()
        answer = self._ask(client, "get_caller_identity") or {}
        return str(answer.get("Account", "")), session.region or ""

    def close(self) -> None:
        """Close connections; safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _asked(self, method: str, **parameters: Any) -> Record | None:
        """Return the answer to one question, None for "there is no such thing"."""
        with self._told(ACTIONS[method]):
            client = self._connected()
        return self._ask(client, method, **parameters)

    def _connected(self) -> Any:
        if self._client is None:
            session = self._session = AwsSession(self._config)
            if self._config.role_arn is not None:
                given = self._ask(session.sts(), "assume_role", **session.role()) or {}
                session.take(given["Credentials"])
            self._client = session.sagemaker()
        return self._client

    def _ask(self, client: Any, method: str, **parameters: Any) -> Record | None:
        with self._told(ACTIONS[method]):
            try:
                answer: Record = getattr(client, method)(**parameters)
            except client.exceptions.ClientError as error:
                if error.response.get("Error", {}).get("Code") not in NO_SUCH:
                    raise
                answer = error.response
                self.requests += _attempts(answer)
                return None
            self.requests += _attempts(answer)
        return answer

    @contextmanager
    def _told(self, action: str) -> Iterator[None]:
        """Raise what AWS or boto3 raise inside as errors of ours."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            self.requests += _attempts(error.response)
            raise refusal(action, error.response) from None
        except BotoCoreError as error:
            session = self._session
            region = None if session is None else session.region
            known = session is None or session.knows_region()
            raise failure(action, error, region, known=known) from None


def _attempts(answer: Record) -> int:
    """Return how many requests an answer took, those that were turned away too."""
    return 1 + int(answer.get("ResponseMetadata", {}).get("RetryAttempts", 0))
