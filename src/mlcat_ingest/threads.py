"""Work in daemon threads: Ctrl-C does not wait for it, and its errors are not lost."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final, TypeVar

T = TypeVar("T")

_M_ARENA_MAX: Final = -8
"""The parameter of `mallopt(3)` that bounds how many heaps the C library keeps."""


def share_one_heap() -> None:
    """Let all threads allocate from one heap; for a process of ours, before it starts threads.

    glibc gives each thread a heap of its own and keeps the holes in each: the same run takes 6 to
    20 MiB less with one. Where there is no glibc, nothing happens.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)


def start(
    work: Callable[[], T],
    name: str,
    on_error: Callable[[BaseException], None] | None = None,
) -> Future[T]:
    """Return the result to come of `work`, begun in a daemon thread of that name.

    Whatever it raises is told to `on_error`, in that thread, and is raised again where the result
    is asked for.
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
