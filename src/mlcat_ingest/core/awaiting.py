"""Services that have not answered yet: what a progress line says of a run that seems to stand."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Awaited:
    """A request without an answer for `seconds`; `is_retried` after an attempt that failed."""

    address: str
    seconds: float
    is_retried: bool

    def __str__(self) -> str:
        """Return it as words for the user."""
        again = ", retrying" if self.is_retried else ""
        return f"no answer from {self.address} for {self.seconds:.0f} s{again}"


class Awaits(Protocol):
    """A side of a run that sends requests; `awaited` may be called from any thread."""

    def awaited(self) -> Awaited | None:
        """Return the request that waits longest for its answer, None where there is none."""
        return None


def longest_awaited(*sides: Awaits) -> Awaited | None:
    """Return the request that waits longest among those of `sides`; some may send none."""
    found = (side.awaited() for side in sides)
    return max(filter(None, found), key=lambda one: one.seconds, default=None)
