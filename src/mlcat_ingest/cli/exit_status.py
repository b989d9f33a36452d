"""Exit statuses of the command line, with their meaning, and the signal that ends a command.

    0    EXIT_OK           all that was asked for is done; a plan may find something to write
    1    EXIT_FAILED       a side failed, such as the source or the catalog; it may pass later
    2    EXIT_USAGE        the command, the recipe, a limit or the environment has to change
    3    EXIT_TESTS        metadata tests of the quality gate did not pass (`--fail-on-tests`)
    4    EXIT_PARTIAL      some records were rejected, or the catalog dropped something
    5    EXIT_PENDING      a plan found something to write, as `--exit-code` asks; or a removal
                           that affects models, as `--impact` does
    130  EXIT_INTERRUPTED  Ctrl-C or SIGTERM ended the command

Where several hold, the first of 130, 2, 1, 4, 3, 5 and 0 counts. The pipeline sets them on a
report, so the numbers and their order are constants of `pipeline/report/report.py`.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from mlcat_ingest.errors import RecipeError
from mlcat_ingest.pipeline.report.report import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PARTIAL,
    EXIT_PENDING,
    EXIT_TESTS,
    EXIT_USAGE,
)

__all__ = [
    "EXIT_FAILED",
    "EXIT_INTERRUPTED",
    "EXIT_OK",
    "EXIT_PARTIAL",
    "EXIT_PENDING",
    "EXIT_TESTS",
    "EXIT_USAGE",
    "exit_code_of",
]


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
