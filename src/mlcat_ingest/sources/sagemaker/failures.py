"""Errors of AWS and boto3 translated into errors of ours, each with its cure."""

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

_DENIED: Final = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"})
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_REFUSED: Final = frozenset(
    {
        *("UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException"),
        *("SignatureDoesNotMatch", "AuthFailure", "MissingAuthenticationToken"),
        *("MissingAuthenticationTokenException", "IncompleteSignature", "InvalidAccessKeyId"),
    }
)
_BUSY: Final = frozenset(
    {
        *("Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled"),
        *("RequestThrottledException", "TooManyRequestsException", "RequestLimitExceeded"),
        *("ProvisionedThroughputExceededException", "SlowDown"),
    }
)
_SIGNED_OUT: Final = frozenset(
    {
        *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"),
        *("TokenRetrievalError", "SSOTokenLoadError", "UnauthorizedSSOTokenError"),
        *("NoAuthTokenError", "LoginTokenLoadError", "RefreshWithMFAUnsupportedError"),
    }
)
_MISCONFIGURED: Final = {
    "ProfileNotFound": ("the AWS profile does not exist", "correct `profile`"),
    "NoRegionError": ("no AWS region is set", "set `region`"),
    "InvalidRegionError": ("invalid AWS region", "correct `region`"),
}
_LOOKS: Final = "set them in the recipe, the environment, `profile` or by an instance role"


def refusal(action: str, response: Mapping[str, Any]) -> MlcatError:
    """Return the error that stands for AWS's answer to `action`, such as `sts:AssumeRole`."""
    error = response.get("Error", {})
    code = str(error.get("Code", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code in _DENIED:
        return NotAuthorizedError(
            f"AWS denied {action}", hint=f"allow {action} in the policy of the role"
        )
    if code in _EXPIRED:
        return AuthenticationError(
            f"the AWS credentials have expired ({action})", hint="renew them and run again"
        )
    if code in _REFUSED:
        return AuthenticationError(f"AWS refused the credentials: {code} ({action})", hint=_LOOKS)
    if code in _BUSY:
        return RateLimitedError(
            f"AWS throttled {action}: {code}",
            hint="try again later, or raise `retries`",
        )
    if isinstance(status, int) and status >= 500:
        return SourceUnavailableError(f"{action} failed with {status} {code}".rstrip())
    return ProtocolMismatchError(f"{action} returned {code or status}")


def failure(action: str, error: Exception, region: str | None, *, known: bool) -> MlcatError:
    """Return the error that stands for one of boto3's own, by its name.

    `known` says whether the SDK knows the region.
    """
    name = type(error).__name__
    if name in _SIGNED_OUT:
        return AuthenticationError("no usable AWS credentials", hint=_LOOKS)
    if name in _MISCONFIGURED:
        message, hint = _MISCONFIGURED[name]
        return RecipeError(message, hint=hint)
    if name == "EndpointConnectionError" and region is not None and not known:
        return SourceUnavailableError(
            f"cannot reach AWS in {region}, a region unknown to the SDK",
            hint="correct `region`",
        )
    return SourceUnavailableError(
        f"AWS does not answer {action}: {name}",
        hint="check the network, `endpoint_url` and `region`",
    )
