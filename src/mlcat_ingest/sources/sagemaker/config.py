"""The configuration of the SageMaker source, as the recipe spells it. Cheap to import."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import model_validator

from mlcat_ingest.recipe.connection import Retries, Timeout
from mlcat_ingest.recipe.fields import NotContent, OptionalSecret, PublicStr, ServiceUrl, named
from mlcat_ingest.sources.options import FeatureStoreConfig, check_compat


class SagemakerConfig(FeatureStoreConfig):
    """Feature groups of SageMaker Feature Store, in one account and region.

    The defaults are those of boto3: environment, profile, instance role.
    """

    key_hints: ClassVar[Mapping[str, str]] = {
        "extract_feature_groups": "is always on; delete it",
        **dict.fromkeys(("extract_models", "extract_jobs"), "is not supported; delete it"),
        **dict.fromkeys(
            ("role_arn", "aws_role", "external_id"),
            "belongs in a profile of ~/.aws/config, set as `profile` here",
        ),
        **dict.fromkeys(("database_pattern", "table_pattern"), "is called `tables` here"),
    }

    region: PublicStr | None = named("region", "aws_region")
    """The AWS region, such as `eu-west-1`."""

    profile: Annotated[PublicStr | None, NotContent()] = named("profile", "aws_profile")
    """A profile of the AWS configuration files, which may name a role to assume."""

    access_key_id: Annotated[OptionalSecret, NotContent()] = named(
        "access_key_id", "aws_access_key_id"
    )
    """An access key. Default: boto3's own lookup."""

    secret_access_key: Annotated[OptionalSecret, NotContent()] = named(
        "secret_access_key", "aws_secret_access_key"
    )
    """The secret of the access key."""

    session_token: Annotated[OptionalSecret, NotContent()] = named(
        "session_token", "aws_session_token"
    )
    """The session token of temporary keys."""

    endpoint_url: ServiceUrl | None = named("endpoint_url", "aws_endpoint_url")
    """Address of the service, such as a VPC endpoint. Default: the endpoint of the region."""

    compat: Literal["datahub"] | None = None
    """`datahub` writes to the entities of DataHub's own sagemaker source: names without account and
    region, and source datasets at the groups' common prefix in S3. It cannot be combined with
    `instance`, which that source lacks."""

    resolved_s3: bool = True
    """Whether the source dataset is the S3 folder of the group's own data, or the S3 prefix given
    at its creation. Default: `true`, or `false` with `compat`."""

    feature_metadata: bool = True
    """Whether to read the description and parameters of each feature: one request for each 100."""

    timeout_s: Timeout = 60.0
    """Seconds to wait for AWS to send something before the attempt counts as failed."""

    retries: Retries = 8
    """Retries of a request that failed or was throttled."""

    @property
    def names_own_folder(self) -> bool:
        """Return whether sources in S3 are the groups' own folders."""
        is_set = "resolved_s3" in self.model_fields_set
        return self.resolved_s3 if is_set else self.compat is None

    @model_validator(mode="after")
    def _options_fit(self) -> Self:
        check_compat(self.compat, self.instance)
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("`access_key_id` and `secret_access_key` must be set together")
        if self.session_token is not None and self.access_key_id is None:
            raise ValueError("`session_token` requires `access_key_id`")
        return self
