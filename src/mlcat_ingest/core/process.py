"""What is asked of Python and the C library where the whole process is ours."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

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
