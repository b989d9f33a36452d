"""What the stages of a run wait on: a gate that stops them all, bounded channels, claims on URNs.

All waits of one run share one condition, so that a stop wakes every thread at once and no stage
polls.
"""

import threading
from collections import deque
from collections.abc import Collection, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """The run was stopped while this stage waited; not a cause, only a way out."""


class Gate:
    """The condition that all stages of one run wait on, and the error that stopped the run."""

    def __init__(self) -> None:
        """Start open: nothing has stopped the run."""
        self.condition = threading.Condition()
        self.cause: BaseException | None = None
        self.stopped = False

    def stop(self, cause: BaseException | None) -> None:
        """Stop every stage; the first cause is kept."""
        with self.condition:
            if not self.stopped:
                self.cause = cause
            self.stopped = True
            self.condition.notify_all()

    def pause(self, seconds: float) -> None:
        """Return after `seconds`, while the run goes on.

        Raises:
            StoppedError: the run was stopped.
        """
        with self.condition:
            self.condition.wait_for(lambda: self.stopped, timeout=seconds)
        self.check()

    def check(self) -> None:
        """Return while the run goes on.

        Raises:
            StoppedError: the run was stopped.
        """
        if self.stopped:
            raise StoppedError


class Channel(Generic[T]):
    """A bounded queue between two stages that its producer closes."""

    def __init__(self, gate: Gate, size: int) -> None:
        """Hold at most `size` items."""
        self._gate = gate
        self._size = size
        self._items: deque[T] = deque()
        self._closed = False
        self.error: BaseException | None = None
        """What made the producer close early; set once the channel is closed."""

    def put(self, item: T) -> None:
        """Add `item`, waiting while the channel is full.

        Raises:
            StoppedError: the run was stopped.
        """
        condition = self._gate.condition
        with condition:
            condition.wait_for(lambda: self._gate.stopped or len(self._items) < self._size)
            self._gate.check()
            self._items.append(item)
            condition.notify_all()

    def close(self, error: BaseException | None = None) -> None:
        """Say that nothing more comes, and why if that is too early."""
        with self._gate.condition:
            self._closed = True
            self.error = error
            self._gate.condition.notify_all()

    def __iter__(self) -> Iterator[T]:
        """Yield items until the channel is closed and empty.

        Raises:
            StoppedError: the run was stopped.
        """
        condition = self._gate.condition
        while True:
            with condition:
                condition.wait_for(lambda: self._gate.stopped or self._items or self._closed)
                self._gate.check()
                if not self._items:
                    return
                item = self._items.popleft()
                condition.notify_all()
            yield item


class InFlight:
    """The URNs that are being read, merged or written: none of them twice at a time.

    A URN is parked while its proposals wait for a batch to fill. Who waits for a parked URN has to
    flush the batch, or would wait for ever.
    """

    def __init__(self, gate: Gate) -> None:
        """Start with no URN claimed."""
        self._gate = gate
        self._claimed: set[str] = set()
        self._parked: set[str] = set()

    def claim(self, urns: Collection[str]) -> bool:
        """Claim all of `urns`, or return False where one of them is parked.

        Raises:
            StoppedError: the run was stopped.
        """
        wanted = frozenset(urns)
        with self._gate.condition:
            self._gate.condition.wait_for(
                lambda: (
                    self._gate.stopped
                    or self._claimed.isdisjoint(wanted)
                    or not self._parked.isdisjoint(wanted)
                )
            )
            self._gate.check()
            if not self._claimed.isdisjoint(wanted):
                return False
            self._claimed.update(wanted)
            return True

    def park(self, urns: Collection[str]) -> None:
        """Say that `urns` wait for a batch to fill."""
        with self._gate.condition:
            self._parked.update(urns)
            self._gate.condition.notify_all()

    def unpark(self, urns: Collection[str]) -> None:
        """Say that `urns` are on their way."""
        with self._gate.condition:
            self._parked.difference_update(urns)

    def release(self, urns: Collection[str]) -> None:
        """Give `urns` free again."""
        with self._gate.condition:
            self._claimed.difference_update(urns)
            self._gate.condition.notify_all()

    def settle(self) -> bool:
        """Wait until nothing moves; return whether nothing is parked either.

        Raises:
            StoppedError: the run was stopped.
        """
        with self._gate.condition:
            self._gate.condition.wait_for(
                lambda: self._gate.stopped or len(self._claimed) == len(self._parked)
            )
            self._gate.check()
            return not self._claimed
