"""Logging of the command line: one line a record on stderr, as text or JSON, without secrets."""

import contextlib
import json
import logging
import traceback
from datetime import UTC, datetime
from typing import Any, Final, Literal

import click

from mlcat_ingest.core.text import printable
from mlcat_ingest.recipe.secrets import mask

PROGRESS: Final = "mlcat_ingest.progress"
"""Logger of progress lines where there is no terminal; `record.progress` holds the numbers."""

NOISY: Final = ("urllib3", "py.warnings", "databricks")
"""Libraries that log what we say in our own words: retries, deprecations, missing credentials."""

_DEBUG: Final = 2


def set_up(verbosity: int, *, quiet: bool, log_format: Literal["text", "json"]) -> None:
    """Send the records of this process to stderr; called again, it replaces what it set up."""
    root = logging.getLogger()
    for handler in [one for one in root.handlers if isinstance(one, StderrHandler)]:
        root.removeHandler(handler)
    handler = StderrHandler()
    handler.setFormatter(JsonFormatter() if log_format == "json" else TextFormatter())
    root.addHandler(handler)
    ours = logging.ERROR if quiet else logging.DEBUG if verbosity else logging.INFO
    logging.getLogger("mlcat_ingest").setLevel(ours)
    logging.captureWarnings(True)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.DEBUG if verbosity >= _DEBUG else logging.ERROR)


class StderrHandler(logging.Handler):
    """Writes to what is stderr at that moment, so that a progress bar can move out of the way."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        # Where nobody reads stderr any more, the work goes on.
        with contextlib.suppress(OSError):
            click.echo(self.format(record), err=True)


class TextFormatter(logging.Formatter):
    """`12:30:45 WARNING message`, and the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record's line."""
        time = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S")
        level = "" if record.levelno == logging.INFO else f"{record.levelname} "
        line = f"{time} {level}{_message(record)}"
        error = _error_of(record)
        return line if error is None else f"{line}\n{traceback_of(error)}"


class JsonFormatter(logging.Formatter):
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
