"""A registry file in S3, or in what speaks S3; read by boto3 (extra `aws`)."""

import os
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from mlcat_ingest.core.extras import require_extra
from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    RateLimitedError,
    RecipeError,
    SourceUnavailableError,
)
from mlcat_ingest.sources.feast.config import FeastConfig
from mlcat_ingest.sources.feast.transport.whole import too_large

_CONNECT_TIMEOUT_S: Final = 10

# What S3 calls what went wrong; a HEAD or a service in its place gives the bare status.
_NO_SUCH_OBJECT: Final = frozenset({"NoSuchKey", "NoSuchVersion", "404"})
_ELSEWHERE: Final = frozenset(
    {"PermanentRedirect", "301", "307", "AuthorizationHeaderMalformed", "IllegalLocationConstraint"}
)
_FORBIDDEN: Final = frozenset({"AccessDenied", "AllAccessDisabled", "AccountProblem", "403"})
_REFUSED: Final = frozenset(
    {
        *("InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken"),
        *("TokenRefreshRequired", "RequestTimeTooSkewed", "401"),
    }
)
_BROKEN_BODY: Final = frozenset({"IncompleteReadError", "ResponseStreamingError"})
_BUSY: Final = frozenset({"SlowDown", "Throttling", "RequestLimitExceeded", "429"})


class S3Object:
    """Reads one object; see `Content`. What S3 answers is the object as of one moment."""

    def __init__(self, address: str, config: FeastConfig) -> None:
        """Contact nothing yet.

        Raises:
            RecipeError: the address names no object.
        """
        parts = urlsplit(address)
        self._bucket, self._key = parts.netloc, unquote(parts.path.lstrip("/"))
        self.shown = f"s3://{self._bucket}/{self._key}"
        if not self._bucket or not self._key or self._key.endswith("/"):
            raise RecipeError(
                f"feast: {self.shown} names no object", hint="write s3://bucket/folder/registry.db"
            )
        self._config = config
        given = config.s3.endpoint_url or os.environ.get("FEAST_S3_ENDPOINT_URL")
        self._endpoint = given or None
        self._client: Any = None
        self.requests = 0

    def identity(self) -> str:
        """Return service, bucket and key."""
        host = urlsplit(self._endpoint).netloc.rpartition("@")[2] if self._endpoint else "s3"
        return f"{host}/{self._bucket}/{self._key}"

    def fetch(self) -> bytes:
        """Return the object's content; see `Content`.

        Raises:
            MissingExtraError: boto3 is not installed.
        """
        require_extra("aws", "a registry in S3")
        from botocore.exceptions import BotoCoreError, ClientError

        for left in range(self._config.retries, -1, -1):
            try:
                return self._content()
            except ClientError as error:
                raise self._refusal(error.response) from None
            except BotoCoreError as error:
                failure = self._failure(error)
                # boto3 tries a request again, but not a body that breaks off.
                if not left or type(error).__name__ not in _BROKEN_BODY:
                    raise failure from None
        raise AssertionError

    def _content(self) -> bytes:
        self.requests += 1
        answer = self._connected().get_object(Bucket=self._bucket, Key=self._key)
        body, size, limit = answer["Body"], answer["ContentLength"], self._config.max_bytes
        with body:
            if size > limit:
                raise too_large(self.shown, size, limit)
            content: bytes = body.read()
        return content

    def _connected(self) -> Any:
        if self._client is None:
            from boto3.session import Session
            from botocore.config import Config

            options, config = self._config.s3, self._config
            session = Session(profile_name=options.profile, region_name=options.region)
            retries = {"total_max_attempts": config.retries + 1, "mode": "standard"}
            self._client = session.client(
                "s3",
                endpoint_url=self._endpoint,
                config=Config(
                    connect_timeout=_CONNECT_TIMEOUT_S,
                    read_timeout=config.timeout_s,
                    retries=retries,
                ),
            )
        return self._client

    def _refusal(self, response: Any) -> MlcatError:
        """Return the error that stands for what S3 answered."""
        code = str(response.get("Error", {}).get("Code", ""))
        said = f"S3 answers {code or 'nothing'} for {self.shown}"
        region = (
            response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("x-amz-bucket-region")
        )
        if code == "NoSuchBucket":
            return RecipeError(f"{said}: there is no such bucket", hint="is its name right?")
        if code in _NO_SUCH_OBJECT:
            return RecipeError(
                f"{said}: there is no such object", hint="has `feast apply` been run there?"
            )
        if code in _ELSEWHERE:
            where = f" {region}" if region else ""
            return RecipeError(
                f"{said}: the bucket is in another region{where}", hint="set `s3.region`"
            )
        if code in _FORBIDDEN:
            return NotAuthorizedError(
                f"{said}: it may not be read",
                hint="s3:GetObject on it is needed; without s3:ListBucket, a missing object is "
                "forbidden, too",
            )
        if code in _REFUSED:
            return AuthenticationError(
                f"{said}: the credentials are refused",
                hint="boto3 takes them from the environment, from profiles or from the machine",
            )
        if code in _BUSY:
            return RateLimitedError(f"{said}: it asks for fewer requests", hint="try again later")
        return SourceUnavailableError(said, hint="is it S3, and is it well?")

    def _failure(self, error: Exception) -> MlcatError:
        """Return the error that stands for one of boto3's own, by its name."""
        match type(error).__name__:
            case "NoCredentialsError" | "PartialCredentialsError" | "TokenRetrievalError":
                return AuthenticationError(
                    f"there are no AWS credentials for {self.shown}",
                    hint="boto3 looks in the environment, in `s3.profile` and on the machine",
                )
            case "ProfileNotFound":
                return RecipeError(
                    f"there is no AWS profile {self._config.s3.profile!r}", hint="see `s3.profile`"
                )
            case "ParamValidationError" | "InvalidRegionError" | "UnknownRegionError":
                return RecipeError(
                    f"{self.shown} cannot be asked for: no bucket or region has such a name"
                )
            case name:
                where = self._endpoint or "S3"
                return SourceUnavailableError(
                    f"S3 does not answer for {self.shown}: {name}",
                    hint=f"can {where} be reached from here? see `s3.endpoint_url`",
                )

    def close(self) -> None:
        """Close the connections; safe to call twice."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
