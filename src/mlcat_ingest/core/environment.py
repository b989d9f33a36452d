"""The surroundings of a process: values of environment variables, locks, and the signal to end.

Standard library only.
"""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Final
from urllib.parse import unquote, urlsplit

from mlcat_ingest.errors import RecipeError

_ON: Final = frozenset({"1", "true", "t", "yes", "y", "on"})
_OFF: Final = frozenset({"", "0", "false", "f", "no", "n", "off"})

SWITCH: Final = "neither on nor off; set it to 1 or 0"
"""What is wrong with a variable that `is_on` does not know."""


def is_on(text: str) -> bool | None:
    """Return whether a switch is on, None for a text that is neither on nor off."""
    word = text.strip().lower()
    return True if word in _ON else False if word in _OFF else None


def local_path(text: str) -> Path:
    """Return the path that a variable holds, from a `file:` address too; `~` is the home folder.

    Raises:
        RecipeError: the home folder is not known.
    """
    path = unquote(urlsplit(text).path) if text.lower().startswith("file:") else text
    expanded = os.path.expanduser(path)  # noqa: PTH111 - never raises
    if expanded.startswith("~"):
        raise RecipeError(
            f"the home folder in {text} is not known", hint="set HOME, or use an absolute path"
        )
    return Path(expanded)


def require_posix() -> None:
    """Check that this is Linux or macOS: Windows has no `flock`, which every lock needs.

    Raises:
        RecipeError: this is Windows.
    """
    if sys.platform == "win32":
        raise RecipeError(
            "mlcat-ingest runs on Linux and macOS, not on Windows",
            hint="run it in WSL or in a Linux container",
        )


@contextmanager
def stop_on_sigterm() -> Iterator[None]:
    """Let SIGTERM, as schedulers and containers send it, end a command as Ctrl-C does."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before if before is not None else signal.SIG_DFL)
