"""What the command line shows; the only user of rich, and only where there is a terminal."""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from mlcat_ingest.cli.logs import PROGRESS
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.pipeline.report.report import Progress
from mlcat_ingest.recipe.secrets import mask

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from mlcat_ingest.workflows.plan.render import Line, Style

PLAIN_INTERVAL_S: Final = 5.0
"""Seconds between two progress lines where there is no terminal."""

PATIENCE_S: Final = 5.0
"""Seconds without an answer from which on progress says so."""

_COLOURS: Final = {"plain": "none", "added": "green", "changed": "yellow", "removed": "red"}

_NOTABLE: "Final[Mapping[Style, Sequence[str]]]" = {
    "removed": (
        "FAILED ",
        "  gate         failed",
        "    newly failing:",
        "  refused",
        "  not usable",
    ),
    "changed": ("warning", "  note ", "    still failing:", "    not evaluated:"),
    "added": ("  gate         passed",),
}
"""How lines of reports and findings begin, by the colour that they have on a terminal."""

log = logging.getLogger(PROGRESS)

OnProgress = Callable[[Progress], None]
ShownProgress = AbstractContextManager[OnProgress | None]


class StdoutError(MlcatError):
    """What was asked for cannot be written to standard output."""


def out(text: str) -> None:
    """Write a result to stdout; where nobody reads it any more, it is dropped.

    Raises:
        StdoutError: it cannot be written, as on a full disk.
    """
    try:
        click.echo(text)
        sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
    except OSError as error:
        drop_stdout()
        raise StdoutError(f"standard output cannot be written: {error.strerror}") from error


def out_lines(lines: "Iterable[Line]") -> None:
    """Write lines of a result to stdout, in their colours on a terminal that shows colours."""
    if not sys.stdout.isatty():
        for line in lines:
            out(mask(line.text))
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    for line in lines:
        console.print(mask(line.text), style=_COLOURS[line.style])


def out_report(text: str) -> None:
    """Write a report to stdout; what somebody should look at is coloured on a terminal."""
    from mlcat_ingest.workflows.plan.render import Line

    styles = ((start, style) for style, starts in _NOTABLE.items() for start in starts)
    by_start = dict(styles)
    out_lines(
        Line(line, next((by_start[one] for one in by_start if line.startswith(one)), "plain"))
        for line in text.split("\n")
    )


def say(text: str) -> None:
    """Write a line for the user to stderr."""
    click.echo(text, err=True)


def drop_stdout() -> None:
    """Let stdout lead nowhere, so that closing it at the end cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def progress(*, quiet: bool, as_lines: bool = False) -> Iterator[OnProgress | None]:
    """Give what shows the progress of a run: a live line on a terminal, else a line now and then.

    Nothing is shown if `quiet`; `as_lines` asks for lines on a terminal too.
    """
    if quiet:
        yield None
    elif sys.stderr.isatty() and not as_lines:
        with _live() as show:
            yield show
    else:
        yield PlainProgress()


class PlainProgress:
    """Logs how far a run is, at most every five seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Be silent for the first five seconds."""
        self._clock = clock
        self._next_s = clock() + PLAIN_INTERVAL_S

    def __call__(self, now: Progress) -> None:
        """Log `now` if it is time."""
        if self._clock() < self._next_s:
            return
        self._next_s = self._clock() + PLAIN_INTERVAL_S
        log.info("%s", words(now), extra={"progress": _numbers(now)})


def words(now: Progress) -> str:
    """Return progress as one line, whose answer is waited for first."""
    awaited = now.awaited
    waiting = f"{awaited}; " if awaited and awaited.seconds >= PATIENCE_S else ""
    return waiting + (
        f"{now.records:,} records read, {now.entities:,} entities merged, "
        f"{now.written:,} written, {now.evaluated:,} evaluated"
    )


def _numbers(now: Progress) -> dict[str, Any]:
    names = Progress.__dataclass_fields__.keys() - {"awaited"}
    return {name: getattr(now, name) for name in names}


@contextmanager
def _live() -> Iterator[OnProgress]:
    from rich.console import Console
    from rich.progress import Progress as Live
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns: list[ProgressColumn] = [
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
    ]
    with Live(*columns, console=Console(stderr=True), transient=True) as live:
        task = live.add_task("connecting", total=None)
        yield lambda now: live.update(task, description=words(now))
