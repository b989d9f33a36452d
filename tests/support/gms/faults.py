"""Refusals and faults of GMS: statuses, bodies, faults to come."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final

from starlette.responses import Response

from mlcat_ingest.catalog.web.http import refusal
from support.gms.requests import SeenRequest

_ACTOR: Final = "urn:li:corpuser:datahub"


def answer(
    status: int, message: str, path: str, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a refusal in the shape of the family that `path` belongs to."""
    refused = refusal(status, message, path, headers=headers)
    return json_response(refused.value, status, refused.headers)


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


@dataclass
class Events:
    """The writes that are to fail, and the requests so far, in order."""

    unavailable_status: int
    requests: list[SeenRequest] = field(default_factory=list)
    _left: int = 0
    _lock: Lock = field(default_factory=Lock)

    def fail_writes(self, count: int) -> None:
        """Let the next `count` writes fail."""
        with self._lock:
            self._left = count

    def fault(self, request: SeenRequest) -> Response | None:
        """Return the answer to a write that fails; None if it does not."""
        if not request.is_write or not self._fails():
            return None
        if self.unavailable_status == 503:
            message = "Database temporarily unavailable, please retry"
            return answer(503, message, request.path, {"Retry-After": "0"})
        return answer(500, "Failed to add after 3 retries", request.path)

    def _fails(self) -> bool:
        with self._lock:
            self._left -= 1
            return self._left >= 0
