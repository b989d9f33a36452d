"""Findings of `mlcat-ingest check`, and requests of a run that have no answer yet."""

from dataclasses import dataclass
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `mlcat-ingest check`: the check, its outcome, and the cure if it failed.

    `side` is that of the recipe, such as `source mlflow` or `sink rest`; the command sets it.
    """

    what: str
    outcome: Literal["ok", "warning", "failed"]
    detail: str = ""
    hint: str | None = None
    side: str = ""


@dataclass(frozen=True, slots=True)
class UnansweredRequest:
    """A request to `peer` without a usable answer for `seconds`.

    `failure` is how the service at `address` failed at the last attempt, empty during the first;
    `what` is what was asked for, empty for what the address says.
    """

    address: str
    seconds: float
    failure: str = ""
    peer: str = ""
    what: str = ""

    def __str__(self) -> str:
        if self.failure:
            return f"{self.address} {self.failure}; trying again for {self.seconds:.0f} s"
        return f"waiting for {self.peer} ({self.what or self.address}, {self.seconds:.0f} s)"


class RequestSide(Protocol):
    """A side of a run that sends requests; its methods may be called from any thread."""

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request that waits longest for its answer, None where there is none."""
        return None

    def requests_made(self) -> int:
        """Return how many requests were sent so far, retries included."""
        return 0

    def end_waits(self) -> None:
        """End every pause between attempts; no request is tried again from now on."""
        return None  # noqa: RET501 - without a statement it would be abstract


class NoRequests(RequestSide):
    """The requests of a side that sends none, or counts none."""


def longest_pending_request(*sides: RequestSide) -> UnansweredRequest | None:
    """Return the request that waits longest among those of `sides`; some may send none."""
    requests = (side.pending_request() for side in sides)
    return max(filter(None, requests), key=lambda request: request.seconds, default=None)
