"""What happens to a server now and then, and the requests that it saw."""

from collections import Counter
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

from starlette.responses import Response

from mlcat_ingest.testing.gms import refusals
from mlcat_ingest.testing.gms.requests import SeenRequest

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
            return refusals.answer(429, "Too many requests", request.path, headers)
        if not request.is_write or not self._meets("unavailable"):
            return None
        if self.unavailable_status == 503:
            message = "Database temporarily unavailable, please retry"
            return refusals.answer(503, message, request.path, headers)
        return refusals.answer(500, "Failed to add after 3 retries", request.path)

    def refuses_versions(self) -> bool:
        """Return whether a request that brings versions is refused for a computed field."""
        return self._meets("versions")

    def _meets(self, fault: Fault) -> bool:
        with self._lock:
            self._left[fault] -= 1
            return self._left[fault] >= 0
