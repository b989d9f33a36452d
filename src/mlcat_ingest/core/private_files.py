"""Files and folders that only their owner may use. Standard library only.

A lock or a spool may be in a folder where others can write, too: there a link is not followed, and
what is not a regular file is not opened.
"""

import errno
import os
import stat
from contextlib import ExitStack
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
"""Mode of a file that only its owner may use."""

_OTHERS: Final = 0o077


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, for their owner alone.

    Raises:
        OSError: it cannot be made.
    """
    if not path.is_dir():
        if not path.parent.exists():
            make_folder(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def open_file(path: str | os.PathLike[str], flags: int, mode: int = PRIVATE) -> int:
    """Return a descriptor of a regular file; one that is missing is made if `flags` ask for it.

    A file of this user gets `mode`.

    Raises:
        OSError: it is a link or not a regular file, or cannot be opened.
    """
    # Opening a pipe would wait for its other end.
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    with ExitStack() as unless_opened:
        unless_opened.callback(os.close, handle)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        if flags & os.O_CREAT:
            restrict(handle, mode)
        unless_opened.pop_all()
    return handle


def restrict(file: int | str, mode: int = PRIVATE) -> None:
    """Give a regular file of this user the rights for others that are in `mode`.

    Raises:
        OSError: it does not exist.
    """
    status = os.stat(file)  # noqa: PTH116 - a descriptor, too
    ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    if ours and status.st_mode & _OTHERS != mode & _OTHERS:
        os.chmod(file, stat.S_IMODE(status.st_mode) & ~_OTHERS | mode & _OTHERS)  # noqa: PTH101


def opener(path: str, flags: int) -> int:
    """Open a file for `open`: a link is followed, and a regular file is for its owner alone.

    Raises:
        OSError: it cannot be opened.
    """
    handle = os.open(path, flags | os.O_CLOEXEC, PRIVATE)
    restrict(handle)
    return handle
