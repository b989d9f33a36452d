"""Locks beside a database's file: held by one process, gone with it, and saying who holds them.

A lock is an exclusive `flock` on a file of its own, so the lock of a killed process is gone with
it. While it is held the file's text is one JSON object about the holder. The file itself stays.
"""

import fcntl
import json
import os
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, Self

PATIENCE_S: Final = 1.0
"""Seconds to wait for who only looks at a lock, or writes its text."""

_PAUSE_S: Final = 0.02


class FileLock:
    """Held by the one process that took it; see `take`."""

    def __init__(self, handle: int) -> None:
        """Own `handle`, a file descriptor that has the lock."""
        self._handle = handle

    @classmethod
    def take(
        cls, path: Path, holder: Mapping[str, Any], *, patience_s: float = PATIENCE_S
    ) -> Self | None:
        """Return the lock, or None where another process, or another part of this one, has it.

        Raises:
            OSError: the file cannot be made or written, or its file system has no locks.
        """
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with ExitStack() as unless_taken:
            unless_taken.callback(os.close, handle)
            if not _locked_soon(handle, patience_s):
                return None
            lock = cls(handle)
            lock.say(holder)
            unless_taken.pop_all()
        return lock

    def say(self, holder: Mapping[str, Any]) -> None:
        """Write for others who holds the lock."""
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, json.dumps(dict(holder)).encode(), 0)

    def release(self) -> None:
        """Let others have the lock; safe to call twice."""
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = -1


def holder_of(path: Path, *, patience_s: float = PATIENCE_S) -> Mapping[str, Any] | None:
    """Return what the holder of a lock says, empty if it says nothing; None if nobody holds it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _text(handle, patience_s)
    else:
        return None
    finally:
        os.close(handle)


def _locked_soon(handle: int, patience_s: float) -> bool:
    # Somebody who only looks holds the lock for a moment too.
    deadline = time.monotonic() + patience_s
    while True:
        with suppress(BlockingIOError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE_S)


def _text(handle: int, patience_s: float) -> Mapping[str, Any]:
    # Between two of its words a holder says nothing.
    deadline = time.monotonic() + patience_s
    while True:
        with suppress(ValueError):
            value = json.loads(os.pread(handle, 4096, 0))
            return value if isinstance(value, dict) else {}
        if time.monotonic() > deadline:
            return {}
        time.sleep(_PAUSE_S)
