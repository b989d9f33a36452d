"""Refusals and faults of GMS: statuses, bodies, faults to come."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, Literal

from starlette.responses import Response

from mlcat_ingest.catalog.errors import AspectRefusedError
from mlcat_ingest.catalog.web.refusals import message_of, refusal
from support.gms.requests import SeenRequest

COMPUTED_FIELD: Final = "IsLatest should not be specified, this is a computed field."
"""The sentence of VersionPropertiesValidator.java."""

_ACTOR: Final = "urn:li:corpuser:datahub"


def answer(
    status: int, message: str, path: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a refusal in the shape of the family that `path` belongs to."""
    refused = refusal(status, message, path, headers=headers)
    return json_response(refused.body, status, refused.headers)


def refused(error: AspectRefusedError, path: str) -> Response:
    """Return a validator's refusal, as the embedded catalog words it."""
    return answer(422, message_of(error), path)


def json_response(
    body: Any, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with a JSON body."""
    return Response(json.dumps(body), status, headers, media_type="application/json")


def forbidden(urns: Sequence[str], path: str) -> Response:
    """Return the refusal of a whole request, which names the URNs. Source: AspectResource.java."""
    named = ", ".join(f"HttpStatus: 403 Urn: {urn}" for urn in urns)
    return answer(403, f"User {_ACTOR} is unauthorized to modify entity: {named}", path)


def forbidden_read(path: str) -> Response:
    """Return the refusal of a whole read, which names no URN. Source: AuthUtil.java."""
    return answer(403, f"{_ACTOR} is unauthorized to READ entities.", path)


def too_large(proposal: Mapping[str, Any], size: int, limit: int, path: str) -> Response:
    """Return the refusal of an aspect that is too large. Source: AspectSizeExceededException."""
    return answer(
        400,
        f"Size validation failed at PRE_DB_PATCH: {size} bytes exceeds threshold of {limit} bytes "
        f"for urn={proposal.get('entityUrn')}, aspect={proposal.get('aspectName')}",
        path,
    )


Fault = Literal["unavailable", "limited", "versions"]


@dataclass
class Events:
    """The faults to come, each for so many requests, and the requests so far, in order."""

    unavailable_status: int
    requests: list[SeenRequest] = field(default_factory=list)
    retry_after_s: float = 0
    _left: Counter[Fault] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    def expect(self, fault: Fault, count: int) -> None:
        """Let the next `count` requests that it concerns meet a fault."""
        with self._lock:
            self._left[fault] = count

    def fault(self, request: SeenRequest) -> Response | None:
        """Return the answer to a request that meets a fault, if it does."""
        headers = {"Retry-After": f"{self.retry_after_s:g}"}
        if request.path != "/config" and self._meets("limited"):
            return answer(429, "Too many requests", request.path, headers)
        if not request.is_write or not self._meets("unavailable"):
            return None
        if self.unavailable_status == 503:
            message = "Database temporarily unavailable, please retry"
            return answer(503, message, request.path, headers)
        return answer(500, "Failed to add after 3 retries", request.path)

    def refuses_versions(self) -> bool:
        """Return whether a request that brings versions is refused for a computed field."""
        return self._meets("versions")

    def _meets(self, fault: Fault) -> bool:
        with self._lock:
            self._left[fault] -= 1
            return self._left[fault] >= 0
