"""Error responses: the status, the headers, and one JSON shape a family of paths.

On the paths of OpenAPI the shape is `{"error": ..., "message": ...}`; a proposal that cannot be
written is a 400 there and a version conflict a 412. Everywhere else it is what Rest.li clients
expect, `{"exceptionClass": ..., "message": ..., "status": ...}`, and both of them are a 422.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from mlcat_ingest.catalog.errors import (
    AspectRefusedError,
    CatalogError,
    ComputedFieldError,
    ForbiddenError,
    InvalidProposalError,
    MalformedBodyError,
    TooManyRequestsError,
    VersionConflictError,
)
from mlcat_ingest.errors import SkippableError

PREFIXES: Final = ("", "/gms", "/api/gms")
"""The prefixes of the endpoints: clients of a gateway put one before every path."""

_EXCEPTION_CLASS: Final = "com.linkedin.restli.server.RestLiServiceException"
_OPENAPI: Final = tuple(f"{prefix}/openapi/" for prefix in PREFIXES)

# What is left of a body that came too late or is too large is not read: its connection is of no
# more use.
_HEADERS: Final[Mapping[int, Mapping[str, str]]] = {
    401: {"WWW-Authenticate": "Bearer"},
    408: {"Connection": "close"},
    413: {"Connection": "close"},
    503: {"Retry-After": "1"},
}


_TITLES: Final[Mapping[type[CatalogError], str]] = {
    MalformedBodyError: "Invalid JSON format",
    VersionConflictError: "Precondition Error",
    InvalidProposalError: "Validation Error",
    ForbiddenError: "Authorization Error",
}
"""Error class to the title that DataHub gives it on the paths of OpenAPI."""


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """An error as an answer: its status, its JSON body, and its headers."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


def refusal_of(error: Exception, path: str) -> ErrorAnswer | None:
    """Return `error` as the answer to a client of `path`; None for a defect of the service."""
    if isinstance(error, CatalogError):
        status = _status_of(error, path)
        headers = dict(_HEADERS.get(status, {}))
        if isinstance(error, TooManyRequestsError):
            headers["Retry-After"] = str(error.retry_after_s)
        title = next((title for kind, title in _TITLES.items() if isinstance(error, kind)), None)
        return refusal(status, message_of(error), path, title=title, headers=headers)
    # A JSON text or a URN that cannot be used is always the client's.
    return refusal(400, str(error), path) if isinstance(error, SkippableError) else None


def refusal(
    status: int,
    message: str,
    path: str,
    *,
    title: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> ErrorAnswer:
    """Return a refusal in the shape of the family that `path` belongs to.

    `title` is the short name of the error, by default that of the HTTP status.
    """
    # A message may quote a lone surrogate from the request.
    text = message.encode("utf-8", "backslashreplace").decode()
    if is_openapi(path):
        error = title or HTTPStatus(status).phrase
        return ErrorAnswer(status, {"error": error, "message": text}, headers or {})
    body = {"exceptionClass": _EXCEPTION_CLASS, "message": text, "status": status}
    return ErrorAnswer(status, body, {"X-RestLi-Error-Response": "true", **(headers or {})})


def is_openapi(path: str) -> bool:
    """Return whether `path` is one of the OpenAPI family, a gateway's prefix before it or not."""
    return path.startswith(_OPENAPI)


def _status_of(error: CatalogError, path: str) -> int:
    if is_openapi(path):
        if isinstance(error, VersionConflictError):
            return 412
        if isinstance(error, InvalidProposalError):
            return 400
    return error.http_status


def message_of(error: CatalogError) -> str:
    """Return the sentence of an error; of a rule about an aspect, in the form of DataHub 1.7.

    Source: ValidationExceptionCollection and AspectValidationException of DataHub.
    """
    if not isinstance(error, AspectRefusedError):
        return str(error)
    stage, item = "", f"entityUrn={error.urn}, aspectName={error.aspect}, "
    if isinstance(error, ComputedFieldError):
        stage, item = "Failed to validate MCP due to: ", ""
    return (
        f"{stage}ValidationExceptionCollection{{EntityAspect:({error.urn},{error.aspect}) "
        f"Exceptions: [AspectValidationException({item}"
        f"subType={error.subtype}, msg={error.sentence})]}}"
    )
