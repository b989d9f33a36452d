"""What the operating system has to offer: locks between processes, and the signal to end."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from mlcat_ingest.errors import RecipeError


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
