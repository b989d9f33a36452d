"""Requests without an answer yet: the progress line of a run names the longest one."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class UnansweredRequest:
    """A request without an answer for `seconds`; `is_retried` after an attempt that failed."""

    address: str
    seconds: float
    is_retried: bool

    def __str__(self) -> str:
        """Return it as words for the user."""
        again = ", retrying" if self.is_retried else ""
        return f"no answer from {self.address} for {self.seconds:.0f} s{again}"


class RequestSide(Protocol):
    """A side of a run that sends requests; its method may be called from any thread."""

    def pending_request(self) -> UnansweredRequest | None:
        """Return the request that waits longest for its answer, None where there is none."""
        return None


def longest_pending_request(*sides: RequestSide) -> UnansweredRequest | None:
    """Return the request that waits longest among those of `sides`; some may send none."""
    found = (side.pending_request() for side in sides)
    return max(filter(None, found), key=lambda one: one.seconds, default=None)
