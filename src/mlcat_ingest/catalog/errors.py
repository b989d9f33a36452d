"""The errors of the catalog service, each with the HTTP status that a client sees.

Their answers to a client are in `catalog/web/http.py`.
"""

from http import HTTPStatus
from typing import ClassVar

from mlcat_ingest.errors import MlcatError


class CatalogError(MlcatError):
    """The root: `http_status` is what the client sees.

    On the paths of OpenAPI that is `openapi_status`, if there is one, and DataHub gives the error a
    `title` there.
    """

    http_status: int = 500
    openapi_status: ClassVar[int | None] = None
    title: ClassVar[str | None] = None


class RefusedRequestError(CatalogError):
    """The request is refused whatever it asks for: its status says why."""

    def __init__(self, message: str, status: HTTPStatus, *, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.http_status = status


class BadRequestError(CatalogError):
    """The request is not understood: no JSON, a parameter missing or of the wrong type."""

    http_status = 400


class MalformedBodyError(BadRequestError):
    """The body of the request is not JSON that can be used."""

    title = "Invalid JSON format"


class UnknownFieldError(BadRequestError):
    """A query names a field that does not exist; the sentence has the nearest one."""


class ForbiddenError(CatalogError):
    """The request comes from a place, or with a token, that may not make it."""

    http_status = 403
    title = "Authorization Error"


class NotFoundError(CatalogError):
    """The entity, the aspect or the path does not exist."""

    http_status = 404


class InvalidProposalError(CatalogError):
    """A proposal cannot be written; the sentence names the field, and nothing was written."""

    http_status = 422
    openapi_status = 400
    title = "Validation Error"


class AspectRefusedError(InvalidProposalError):
    """The stored state, or a rule about the aspect, does not allow the write.

    The validators of a DataHub server have the same rules; `subtype` is the server's name for the
    kind of rule, `sentence` describes the violation.
    """

    subtype: ClassVar[str] = "VALIDATION"

    def __init__(self, urn: str, aspect: str, sentence: str) -> None:
        super().__init__(f"{urn}: {aspect}: {sentence}")
        self.urn = urn
        self.aspect = aspect
        self.sentence = sentence


class ComputedFieldError(AspectRefusedError):
    """A proposal has a field that the service computes, or changes one that never changes.

    A DataHub server sees it before it looks at the other proposals of the request.
    """


class VersionConflictError(AspectRefusedError):
    """A conflict: another version is stored than the writer expected, or one where none was."""

    subtype: ClassVar[str] = "PRECONDITION"
    openapi_status = 412
    title = "Precondition Error"


class TooManyRequestsError(CatalogError):
    """The service answers as many requests as it can, or the client tried too many wrong tokens.

    The client may come back after `retry_after_s` seconds.
    """

    http_status = 429

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BusyError(CatalogError):
    """Another process has locked the database for longer than the service waits."""

    http_status = 503


class StorageError(CatalogError):
    """The disk does not take what was to be written; nothing of it is there."""

    http_status = 507


class DamagedError(CatalogError):
    """The file of the database is damaged."""
