"""Locks beside a database's file: held by one process, released at its end, naming the holder.

A lock is an exclusive `flock` on a file of its own, so the lock of a killed process is gone with
it. While it is held the file's text is one JSON object about the holder. The file itself stays.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from mlcat_ingest.core.environment import open_file, require_posix

if sys.platform != "win32":
    import fcntl

PATIENCE_S: Final = 1.0
"""Seconds to wait for a process that only looks at a lock, or writes its text."""

_PAUSE_S: Final = 0.02

T = TypeVar("T")


class FileLock:
    """A lock that is held by the one process that took it, until `release` or its end."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    @classmethod
    def take(cls, path: Path, holder: Mapping[str, Any]) -> Self | None:
        """Return the lock, or None where another process, or another part of this one, has it.

        Raises:
            OSError: the file cannot be made or written, or its file system has no locks.
            RecipeError: this is Windows.
        """
        require_posix()
        handle = open_file(path, os.O_RDWR | os.O_CREAT)
        with ExitStack() as unless_taken:
            unless_taken.callback(os.close, handle)
            # A process that only looks holds the lock for a moment too.
            if not _retry(lambda: _lock(handle)):
                return None
            lock = cls(handle)
            lock.write(holder)
            unless_taken.pop_all()
        return lock

    def write(self, holder: Mapping[str, Any]) -> None:
        """Write the holder's description for others to read."""
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps(dict(holder)).encode(), 0)

    def release(self) -> None:
        """Let others have the lock; safe to call twice."""
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = -1


def holder_of(path: Path) -> Mapping[str, Any] | None:
    """Return the description of a lock's holder, empty if there is none yet; None if it is free."""
    try:
        handle = open_file(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # While it is being rewritten the file is empty.
        holder = _retry(lambda: json.loads(os.pread(handle, 4096, 0)))
        return holder if isinstance(holder, dict) else {}
    else:
        return None
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


def _retry(attempt: Callable[[], T]) -> T | None:
    """Return the result of `attempt`, made again while it fails; None when the time is up."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        with suppress(BlockingIOError, ValueError):
            return attempt()
        if time.monotonic() > deadline:
            return None
        time.sleep(_PAUSE_S)
