"""The exit status of an error, and the signal that ends a command."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.pipeline.report.report import EXIT_FAILED, EXIT_USAGE


def exit_code_of(error: BaseException) -> int:
    """Return `EXIT_USAGE` for an error that the user has to cure, else `EXIT_FAILED`."""
    return EXIT_USAGE if isinstance(error, RecipeError) else EXIT_FAILED


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
