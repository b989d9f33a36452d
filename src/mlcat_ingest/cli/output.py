"""Output of the command line: results, progress, log lines and questions, all without secrets."""

import contextlib
import json
import logging
import os
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import MlcatError, RecipeError
from mlcat_ingest.pipeline.report.progress import OnProgress, progress_line
from mlcat_ingest.pipeline.report.report import EXIT_FAILED, EXIT_USAGE
from mlcat_ingest.recipe.secrets import mask

if TYPE_CHECKING:
    from rich.progress import ProgressColumn

    from mlcat_ingest.workflows.plan_render import Line, Style


NOISY: Final = ("urllib3", "py.warnings", "databricks")
"""Libraries that log what we say in our own words: retries, deprecations, missing credentials."""

_DEBUG: Final = 2


def configure_logging(verbosity: int, *, quiet: bool, log_format: Literal["text", "json"]) -> None:
    """Send the log records of this process to stderr; a second call replaces the first set-up."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, StderrHandler)]:
        root.removeHandler(handler)
    handler = StderrHandler()
    handler.setFormatter(_JsonFormatter() if log_format == "json" else _TextFormatter())
    root.addHandler(handler)
    ours = logging.WARNING if quiet else logging.DEBUG if verbosity else logging.INFO
    logging.getLogger("mlcat_ingest").setLevel(ours)
    logging.captureWarnings(True)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.DEBUG if verbosity >= _DEBUG else logging.ERROR)


class StderrHandler(logging.Handler):
    """Writes to the stderr of that moment, so that a progress bar can move out of the way."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        # A closed stderr does not stop the work.
        with contextlib.suppress(OSError):
            click.echo(self.format(record), err=True)


class _TextFormatter(logging.Formatter):
    """`12:30:45 WARNING message`, and the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        time = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        line = f"{time} {level}{_message(record)}"
        error = _error_of(record)
        return line if error is None else f"{line}\n{traceback_of(error)}"


class _JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the numbers of progress."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        progress = getattr(record, "progress", None)
        if progress is not None:
            line["progress"] = progress
        error = _error_of(record)
        if error is not None:
            line["traceback"] = traceback_of(error)
        return json.dumps(line, ensure_ascii=False)


def _message(record: logging.LogRecord) -> str:
    return printable(mask(record.getMessage()))


def _error_of(record: logging.LogRecord) -> BaseException | None:
    return record.exc_info[1] if record.exc_info else None


def traceback_of(error: BaseException) -> str:
    """Return the traceback of `error` without secrets; every line of it is printable."""
    lines = "".join(traceback.format_exception(error)).rstrip().split("\n")
    return "\n".join(printable(mask(line)) for line in lines)


_COLOURS: Final = {"plain": "none", "added": "green", "changed": "yellow", "removed": "red"}

_NOTABLE: "Final[Mapping[str, Style]]" = {
    "FAILED ": "removed",
    "  gate         failed": "removed",
    "    newly failing:": "removed",
    "  refused": "removed",
    "  not usable": "removed",
    "warning": "changed",
    "  note ": "changed",
    "    still failing:": "changed",
    "    not evaluated:": "changed",
    "  gate         passed": "added",
}
"""The styles of lines of reports and findings, by how they begin."""


class StdoutError(MlcatError):
    """The result cannot be written to standard output."""


def out(text: str) -> None:
    """Write a result to stdout; drop it if the reader has closed the pipe.

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


def out_json(data: object, *, indent: int | None = 2) -> None:
    """Write a result to stdout as JSON; on one line if `indent` is None."""
    out(json.dumps(data, indent=indent, ensure_ascii=False))


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


def out_json_line(data: Mapping[str, Any]) -> None:
    """Write a result to stdout as JSON on one line, secrets hidden."""
    from mlcat_ingest.workflows.plan_render import json_line

    out(json_line(data))


def out_either(data: Mapping[str, Any], lines: "Iterable[Line]", *, as_json: bool) -> None:
    """Write a result to stdout: its data on one line if `as_json`, else its lines."""
    if as_json:
        out_json_line(data)
    else:
        out_lines(lines)


def out_report(text: str) -> None:
    """Write a report to stdout; what somebody should look at is coloured on a terminal."""
    from mlcat_ingest.workflows.plan_render import Line

    out_lines(
        Line(line, next((_NOTABLE[start] for start in _NOTABLE if line.startswith(start)), "plain"))
        for line in text.split("\n")
    )


def drop_stdout() -> None:
    """Let stdout lead nowhere, so that closing it at the end cannot fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def live_progress() -> Iterator[OnProgress]:
    """Give what shows the progress of a run in a live line on the terminal."""
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
        yield lambda now: live.update(task, description=progress_line(now))


def confirm(question: str) -> bool:
    """Return whether the user answers yes.

    Raises:
        UsageError: standard input is no terminal.
    """
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.UsageError(
            "confirmation required, but stdin is not a terminal; use --yes"
        ) from None


def exit_code_of(error: BaseException) -> int:
    """Return `EXIT_USAGE` for an error that the user has to cure, else `EXIT_FAILED`."""
    return EXIT_USAGE if isinstance(error, RecipeError) else EXIT_FAILED
