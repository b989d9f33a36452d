"""The one place that imports boto3: a client for SageMaker, made as the recipe says."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import SecretStr

from mlcat_ingest.sources.sagemaker.config import SagemakerConfig

_CONNECT_TIMEOUT_S: Final = 10
_SESSION_NAME: Final = "mlcat-ingest"


class AwsSession:
    """Credentials and region of a recipe, and the clients that they make."""

    def __init__(self, config: SagemakerConfig) -> None:
        """Find the credentials; nothing is contacted.

        Raises:
            BotoCoreError: the profile does not exist.
        """
        self._config = config
        self._session = self._made(
            _text(config.access_key_id),
            _text(config.secret_access_key),
            _text(config.session_token),
            config.region,
            config.profile,
        )

    @staticmethod
    def _made(
        key: str | None,
        secret: str | None,
        token: str | None,
        region: str | None,
        profile: str | None = None,
    ) -> Any:
        from boto3.session import Session

        return Session(
            aws_access_key_id=key,
            aws_secret_access_key=secret,
            aws_session_token=token,
            region_name=region,
            profile_name=profile,
        )

    @property
    def region(self) -> str | None:
        """Return the region that was found, None where none was."""
        found: str | None = self._session.region_name
        return found

    def knows_region(self) -> bool:
        """Return whether the SDK knows the region, which may be older than the region."""
        partitions = self._session.get_available_partitions()
        return any(
            self.region in self._session.get_available_regions("sagemaker", partition)
            for partition in partitions
        )

    def sts(self) -> Any:
        """Return a client of the service that tells who asks, and gives out roles."""
        return self._session.client("sts", config=self._options())

    def role(self) -> dict[str, str]:
        """Return what to ask for to get the recipe's role."""
        wanted = {"RoleArn": self._config.role_arn or "", "RoleSessionName": _SESSION_NAME}
        external_id = _text(self._config.external_id)
        return wanted if external_id is None else {**wanted, "ExternalId": external_id}

    def take(self, given: Mapping[str, Any]) -> None:
        """Use the temporary credentials of a role from now on."""
        self._session = self._made(
            given["AccessKeyId"], given["SecretAccessKey"], given["SessionToken"], self.region
        )

    def sagemaker(self) -> Any:
        """Return a client of SageMaker."""
        return self._session.client(
            "sagemaker", endpoint_url=self._config.endpoint_url, config=self._options()
        )

    def _options(self) -> Any:
        from botocore.config import Config

        # Adaptive, it sends less where AWS turns requests away, and waits between attempts.
        retries = {"total_max_attempts": self._config.retries + 1, "mode": "adaptive"}
        return Config(
            connect_timeout=_CONNECT_TIMEOUT_S,
            read_timeout=self._config.timeout_s,
            retries=retries,
        )


def _text(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
