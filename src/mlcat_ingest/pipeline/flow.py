"""The cancellation of a run, the bounded queues between its stages, and URNs in flight.

All waits of one run share one condition, so that a stop wakes every thread at once and no stage
polls. Each of them raises `StoppedError` once the run was stopped.
"""

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """The run was stopped while this stage waited; not a cause, only a way out."""


class Cancellation:
    """Stops all stages of one run: the condition that they wait on, and the first cause."""

    def __init__(self) -> None:
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

    @contextmanager
    def once(self, is_so: Callable[[], object], timeout_s: float | None = None) -> Iterator[None]:
        """Hold the condition once `is_so`, or after `timeout_s`."""
        with self.condition:
            self.condition.wait_for(lambda: self.stopped or is_so(), timeout_s)
            self.check()
            yield

    def pause(self, seconds: float) -> None:
        """Return after `seconds`."""
        with self.once(lambda: False, seconds):
            return

    def check(self) -> None:
        """Return, or raise `StoppedError` if the run was stopped."""
        if self.stopped:
            raise StoppedError


class Channel(Generic[T]):
    """A queue of one item between two stages, that its producer closes."""

    def __init__(self, cancellation: Cancellation) -> None:
        """Hold nothing yet."""
        self._cancellation = cancellation
        self._items: list[T] = []
        self._closed = False
        self.error: BaseException | None = None
        """The error that made the producer close early; set once the channel is closed."""

    def put(self, item: T) -> None:
        """Add `item`, waiting while there is another one."""
        with self._cancellation.once(lambda: not self._items):
            self._items.append(item)
            self._cancellation.condition.notify_all()

    def close(self, error: BaseException | None = None) -> None:
        """End the channel; `error` is what ended it early."""
        with self._cancellation.condition:
            self._closed = True
            self.error = error
            self._cancellation.condition.notify_all()

    def __iter__(self) -> Iterator[T]:
        """Yield items until the channel is closed and empty."""
        while True:
            with self._cancellation.once(lambda: self._items or self._closed):
                if not self._items:
                    return
                item = self._items.pop()
                self._cancellation.condition.notify_all()
            yield item


class InFlight:
    """Claims on URNs that are being read, merged or written: none of them twice at a time.

    A URN is buffered while its proposals wait for a batch to fill. A stage that waits for such a
    URN has to flush the batch, or it would wait for ever.
    """

    def __init__(self, cancellation: Cancellation) -> None:
        """Start with no URN claimed."""
        self._cancellation = cancellation
        self._claimed: set[str] = set()
        self._buffered: set[str] = set()
        self.releases = 0
        """How often URNs were released."""

    def claim(self, urns: Collection[str]) -> bool:
        """Claim all of `urns`, or return False where one of them is buffered."""
        requested = frozenset(urns)
        with self._cancellation.once(
            lambda: self._claimed.isdisjoint(requested) or not self._buffered.isdisjoint(requested)
        ):
            is_free = self._claimed.isdisjoint(requested)
            if is_free:
                self._claimed.update(requested)
            return is_free

    def mark_buffered(self, urns: Collection[str]) -> None:
        """Note that `urns` wait for a batch to fill."""
        with self._cancellation.condition:
            self._buffered.update(urns)
            self._cancellation.condition.notify_all()

    def mark_sent(self, urns: Collection[str]) -> None:
        """Note that `urns` are being sent."""
        with self._cancellation.condition:
            self._buffered.difference_update(urns)

    def release(self, urns: Collection[str]) -> None:
        """End the claims on `urns`."""
        with self._cancellation.condition:
            self._claimed.difference_update(urns)
            self.releases += 1
            self._cancellation.condition.notify_all()

    def wait_for_release(self, since: int) -> None:
        """Wait until `releases` is not `since` any more."""
        with self._cancellation.once(lambda: self.releases != since):
            return

    def wait_until_idle(self) -> bool:
        """Wait until all claimed URNs are buffered; return whether there are none."""
        with self._cancellation.once(lambda: len(self._claimed) == len(self._buffered)):
            return not self._claimed
