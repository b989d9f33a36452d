"""The configuration of the SageMaker source, as the recipe spells it. Cheap to import."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, AliasChoices, Field, model_validator

from mlcat_ingest.recipe.connection import Retries, Timeout
from mlcat_ingest.recipe.fields import NotContent, OptionalSecret, PublicStr, ServiceUrl
from mlcat_ingest.sources.definitions.config import FeatureStoreConfig
from mlcat_ingest.sources.options import without_instance


def _role(text: str) -> str:
    if not text.startswith("arn:") or ":role/" not in text:
        raise ValueError("has to be the ARN of a role: arn:aws:iam::<account>:role/<name>")
    return text


class SagemakerConfig(FeatureStoreConfig):
    """Feature groups of SageMaker Feature Store, in one account and region.

    Options that are left out, boto3 finds as it always does: environment, profile, machine.
    """

    key_hints: ClassVar[Mapping[str, str]] = {
        "extract_feature_groups": "is all that this source does; delete it",
        **dict.fromkeys(("extract_models", "extract_jobs"), "is not read here; delete it"),
        **dict.fromkeys(("database_pattern", "table_pattern"), "is called `tables` here"),
    }

    region: PublicStr | None = Field(
        default=None, validation_alias=AliasChoices("region", "aws_region")
    )
    """The AWS region, such as `eu-west-1`."""

    profile: Annotated[PublicStr | None, NotContent()] = Field(
        default=None, validation_alias=AliasChoices("profile", "aws_profile")
    )
    """A profile of the AWS configuration files."""

    access_key_id: Annotated[OptionalSecret, NotContent()] = Field(
        default=None, validation_alias=AliasChoices("access_key_id", "aws_access_key_id")
    )
    """An access key, where boto3 shall not look for one."""

    secret_access_key: Annotated[OptionalSecret, NotContent()] = Field(
        default=None, validation_alias=AliasChoices("secret_access_key", "aws_secret_access_key")
    )
    """The secret of the access key."""

    session_token: Annotated[OptionalSecret, NotContent()] = Field(
        default=None, validation_alias=AliasChoices("session_token", "aws_session_token")
    )
    """The token that goes with temporary keys."""

    role_arn: Annotated[Annotated[PublicStr, AfterValidator(_role)] | None, NotContent()] = Field(
        default=None, validation_alias=AliasChoices("role_arn", "aws_role")
    )
    """ARN of a role to assume first, with those credentials."""

    external_id: Annotated[OptionalSecret, NotContent()] = None
    """The external id that the role may ask for."""

    endpoint_url: ServiceUrl | None = Field(
        default=None, validation_alias=AliasChoices("endpoint_url", "aws_endpoint_url")
    )
    """Address of the service, where it is not that of the region: a VPC endpoint, a test server."""

    compat: Literal["datahub"] | None = None
    """`datahub` writes to the entities that DataHub's own sagemaker source makes: names without
    account and region, and sources at the prefix in S3 that groups share. It excludes `instance`,
    which that source does not know."""

    resolved_s3: bool = True
    """Name the folder in S3 that holds a group's own data, and not the prefix that it was made
    under. Default: true, with `compat` false."""

    feature_metadata: bool = True
    """Read the description and the parameters of each feature, too: a request for each 100."""

    timeout_s: Timeout = 60.0
    """Seconds to wait for AWS to send something before the attempt counts as failed."""

    retries: Retries = 8
    """Further attempts after one that failed or was turned away, as AWS does beyond its rate."""

    @property
    def names_own_folder(self) -> bool:
        """Return whether sources in S3 are the groups' own folders."""
        is_set = "resolved_s3" in self.model_fields_set
        return self.resolved_s3 if is_set else self.compat is None

    @model_validator(mode="after")
    def _compat_has_no_instance(self) -> Self:
        return without_instance(self)

    @model_validator(mode="after")
    def _keys_are_whole(self) -> Self:
        if (self.access_key_id is None) != (self.secret_access_key is None):
            raise ValueError("`access_key_id` and `secret_access_key` go together")
        if self.session_token is not None and self.access_key_id is None:
            raise ValueError("`session_token` goes with `access_key_id`")
        if self.external_id is not None and self.role_arn is None:
            raise ValueError("`external_id` goes with `role_arn`")
        return self
