"""Resources of a process: heap, garbage collection, daemon threads, objects that are closed."""

import gc
import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Final, Self, TypeVar


class Pace:
    """Allows one line in `period_s` seconds, the first one `after_s` seconds from now."""

    def __init__(
        self, period_s: float, clock: Callable[[], float] = time.monotonic, *, after_s: float = 0.0
    ) -> None:
        self._period_s = period_s
        self._clock = clock
        self._next_s = clock() + after_s

    def allows(self) -> bool:
        """Return whether it is time for a line; then the next period begins."""
        now_s = self._clock()
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._period_s
        return True


_M_ARENA_MAX: Final = -8
"""The parameter of `mallopt(3)` that bounds how many heaps the C library keeps."""


def share_one_heap() -> None:
    """Let all threads allocate from one heap; for a process of ours, before it starts threads.

    glibc gives each thread a heap of its own and keeps the holes in each: the same run takes 6 to
    20 MiB less with one. Without glibc, nothing happens.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


@contextmanager
def collecting_every(objects: int) -> Iterator[None]:
    """Look for garbage each time so many `objects` were made, inside the block.

    Python does every 700, from 3.13 on every 2,000. A chunk or a batch is tens of thousands of
    objects that all live until it is written: looking among them finds nothing, and was a tenth
    of the work.
    """
    before = gc.get_threshold()
    gc.set_threshold(objects)
    try:
        yield
    finally:
        gc.set_threshold(*before)


T = TypeVar("T")
ItemT = TypeVar("ItemT")


def start_thread(
    work: Callable[[], T],
    name: str,
    on_error: Callable[[BaseException], None] | None = None,
) -> Future[T]:
    """Return the future result of `work`, started in a daemon thread of that name.

    Ctrl-C does not wait for such a thread. An error of `work` is passed to `on_error`, in that
    thread, and is raised again where the result is asked for.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            if on_error is not None:
                on_error(error)
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def map_ahead(fetch: Callable[[ItemT], T], items: Iterable[ItemT], ahead: int) -> Iterator[T]:
    """Yield what `fetch` returns for each item, in order, with up to `ahead` calls under way.

    Raises:
        Whatever `fetch` raises for an item whose turn has come.
    """
    under_way: deque[Future[T]] = deque()
    for item in items:
        under_way.append(start_thread(partial(fetch, item), "ahead"))
        if len(under_way) >= ahead:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


class Closing(ABC):
    """A resource that is closed at the end of a `with` block, however that ends."""

    @abstractmethod
    def close(self) -> None:
        """Release all that is held; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
