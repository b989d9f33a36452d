"""Sessions of boto3, and errors of AWS translated into errors of ours, each with its cure."""

from collections.abc import Mapping
from typing import Any, Final

from mlcat_ingest.errors import (
    AuthenticationError,
    MlcatError,
    NotAuthorizedError,
    ProtocolMismatchError,
    RateLimitedError,
    RecipeError,
    SourceUnavailableError,
)

NO_SUCH: Final = frozenset({"ResourceNotFound", "ResourceNotFoundException"})
"""Codes of AWS for an item that does not exist."""

_CONNECT_TIMEOUT_S: Final = 10
_CREDENTIALS: Final = "set them in the environment, in `profile` or by an instance role"
_NETWORK: Final = "check the network, `endpoint_url` and `region`"

_REFUSALS: Final[Mapping[str, tuple[type[MlcatError], str, str]]] = {
    **dict.fromkeys(
        ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"),
        (NotAuthorizedError, "AWS denied {action}", "allow {action} in the role's policy"),
    ),
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"),
        (
            AuthenticationError,
            "the AWS credentials have expired ({action})",
            "renew them and run again",
        ),
    ),
    **dict.fromkeys(
        (
            *("UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException"),
            *("SignatureDoesNotMatch", "AuthFailure", "MissingAuthenticationToken"),
            *("MissingAuthenticationTokenException", "IncompleteSignature", "InvalidAccessKeyId"),
            *("InvalidToken", "RequestTimeTooSkewed", "401"),
        ),
        (AuthenticationError, "AWS refused the credentials: {code} ({action})", _CREDENTIALS),
    ),
    **dict.fromkeys(
        (
            *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
            *("RequestThrottledException", "TooManyRequestsException", "RequestLimitExceeded"),
            *("ProvisionedThroughputExceededException", "SlowDown", "429"),
        ),
        (
            RateLimitedError,
            "AWS throttled {action}: {code}",
            "try again later, or raise `retries`",
        ),
    ),
    # An answer of S3 to HEAD, or of another service in its place, has the status alone.
    **dict.fromkeys(
        ("s3:NoSuchKey", "s3:NoSuchVersion", "s3:404"),
        (RecipeError, "no such object: {action}", "check the path, and run `feast apply`"),
    ),
    "s3:NoSuchBucket": (RecipeError, "no such bucket: {action}", "correct the bucket's name"),
    **dict.fromkeys(
        (
            *("s3:PermanentRedirect", "s3:301", "s3:307"),
            *("s3:AuthorizationHeaderMalformed", "s3:IllegalLocationConstraint"),
        ),
        (RecipeError, "the bucket is in another region: {action} returned {code}", "set `region`"),
    ),
    **dict.fromkeys(
        ("s3:AccessDenied", "s3:AllAccessDisabled", "s3:AccountProblem", "s3:403"),
        (
            NotAuthorizedError,
            "AWS denied {action}",
            "allow {action}; without s3:ListBucket, S3 denies a missing object too",
        ),
    ),
}
"""The error, its message and its hint by code, where these may have `{action}` and `{code}`.

A code that means something else to a service has the service's name before it.
"""

# boto3's own errors, by the names of their classes.
_SIGNED_OUT: Final = frozenset(
    {
        *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"),
        *("TokenRetrievalError", "SSOTokenLoadError", "UnauthorizedSSOTokenError"),
        *("NoAuthTokenError", "LoginTokenLoadError", "RefreshWithMFAUnsupportedError"),
    }
)
_MISCONFIGURED: Final = {
    "ProfileNotFound": ("the AWS profile does not exist", "correct `profile`"),
    "InvalidConfigError": ("the AWS profile is incomplete", "correct it in ~/.aws/config"),
    "NoRegionError": ("no AWS region is set", "set `region`"),
    "InvalidRegionError": ("invalid AWS region", "correct `region`"),
    "UnknownRegionError": ("invalid AWS region", "correct `region`"),
    "ParamValidationError": ("invalid name for {action}", "correct the name in the recipe"),
}


def open_session(**options: str | None) -> Any:
    """Return a session of boto3 with these credentials and region; nothing is contacted.

    Raises:
        BotoCoreError: the profile does not exist.
    """
    from boto3.session import Session

    return Session(**options)


def client_settings(*, timeout_s: float, retries: int) -> Any:
    """Return the settings of a client of boto3."""
    from botocore.config import Config

    # Adaptive, it sends less where AWS turns requests away, and waits between attempts.
    return Config(
        connect_timeout=_CONNECT_TIMEOUT_S,
        read_timeout=timeout_s,
        retries={"total_max_attempts": retries + 1, "mode": "adaptive"},
    )


def aws_error(error: Exception, action: str) -> MlcatError:
    """Return our error for an error of AWS or boto3 during an `action`.

    `action` is as a policy names it, such as `sagemaker:Search`.
    """
    from botocore.exceptions import ClientError

    if isinstance(error, ClientError):
        # boto3 assumes the role of a profile before the first request of any client.
        if error.operation_name.startswith("AssumeRole"):
            action = f"sts:{error.operation_name}"
        return _refusal(error.response, action)
    name = type(error).__name__
    if name in _SIGNED_OUT:
        return AuthenticationError("no usable AWS credentials", hint=_CREDENTIALS)
    if name in _MISCONFIGURED:
        message, hint = _MISCONFIGURED[name]
        return RecipeError(message.format(action=action), hint=hint)
    return SourceUnavailableError(
        f"AWS does not answer {action}: {name}",
        hint=_NETWORK,
    )


def _refusal(response: Mapping[str, Any], action: str) -> MlcatError:
    code = str(response.get("Error", {}).get("Code", ""))
    service = action.partition(":")[0]
    refusal = _REFUSALS.get(f"{service}:{code}") or _REFUSALS.get(code)
    if refusal is not None:
        error, message, hint = refusal
        return error(message.format(action=action, code=code), hint=hint.format(action=action))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if isinstance(status, int) and status >= 500:
        return SourceUnavailableError(
            f"{action} failed with {status} {code}".rstrip(), hint=_NETWORK
        )
    return ProtocolMismatchError(f"{action} returned {code or status}")
