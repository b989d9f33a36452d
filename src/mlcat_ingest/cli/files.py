"""Files that a run leaves behind: its report, its metrics, and the results of its quality gate.

A file is whole at any moment, and never takes the place of a device.
"""

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_status import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.options import OutputSettings

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGateOptions, QualityGateResult
    from mlcat_ingest.pipeline.report.report import Report
    from mlcat_ingest.pipeline.write.delivery import OnWritten
    from mlcat_ingest.workflows.plan_render import ChangeLog


STDOUT: Final = Path("-")


def writable_in(path: Path | None, option: str) -> None:
    """Return if the folder of an option's file exists.

    Raises:
        UsageError: it does not.
    """
    if path is not None and not path.parent.is_dir():
        raise click.UsageError(f"{option}: the folder {path.parent} does not exist")


def is_replaceable(path: Path) -> bool:
    """Return whether another file may take the place of `path`: not that of a device or pipe."""
    return path.is_file() or not path.exists()


def write_whole(path: Path, pieces: Iterable[str]) -> None:
    """Write `pieces` to `path`: what stood there before stays until all of it is written.

    A link stays a link, and a device or a pipe gets it directly.

    Raises:
        OSError: it cannot be written.
    """
    if not is_replaceable(path):
        with path.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
        return
    target = path.resolve()
    partial = target.with_name(f"{target.name}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
        partial.replace(target)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


class _RunFile(ABC):
    """A file that takes the report of a run that has ended; `-` is standard output."""

    content: str

    def __init__(self, path: Path, settings: OutputSettings) -> None:
        """Write to `path`, and complain as `settings` say."""
        self._path = path
        self._settings = settings

    def finish(self, report: "Report") -> int:
        """Write the file of a run that has ended, or has failed; return an exit status."""
        try:
            text = self._text(report)
            if self._path == STDOUT:
                output.out(text.rstrip("\n"))
            else:
                write_whole(self._path, [text])
        except OSError as error:
            self._settings.print_error(
                f"the {self.content} cannot be written to {self._path}: {error.strerror}"
            )
            return EXIT_FAILED
        return EXIT_OK

    @abstractmethod
    def _text(self, report: "Report") -> str: ...


class ReportFile(_RunFile):
    """The file of `--report`, also for the report of an unfinished run."""

    content = "report"

    def keep(self, report: "Report") -> None:
        """Replace the file by the report of an unfinished run."""
        try:
            if self._path != STDOUT and is_replaceable(self._path):
                write_whole(self._path, [self._text(report)])
        except OSError:
            return  # it is said in the end, when it counts

    def _text(self, report: "Report") -> str:
        from mlcat_ingest.pipeline.report.render import as_json

        return as_json(report)


class MetricsFile(_RunFile):
    """The file of `--metrics-file`, for Prometheus; it keeps the time of the last success."""

    content = "metrics"

    def _text(self, report: "Report") -> str:
        from mlcat_ingest.pipeline.report.prometheus import as_prometheus

        before = b""
        if self._path != STDOUT and self._path.is_file():
            before = self._path.read_bytes()
        return as_prometheus(report, before.decode("utf-8", "replace"))


class ChangesFile:
    """The file of --changes, if it is asked for."""

    def __init__(self, path: Path | None, settings: OutputSettings) -> None:
        """Check the folder of the file.

        Raises:
            UsageError: it does not exist.
        """
        writable_in(path, "--changes")
        self._path = path
        self._settings = settings
        self._log: ChangeLog | None = None

    def open(self) -> "OnWritten | None":
        """Make the file empty, and return what writes it; None where it is not asked for.

        Raises:
            UsageError: it cannot be written.
        """
        if self._path is None:
            return None
        from mlcat_ingest.workflows.plan_render import ChangeLog

        try:
            self._log = ChangeLog(self._path)
        except OSError as error:
            message = f"--changes: {self._path} cannot be written: {error.strerror}"
            raise click.UsageError(message) from error
        return self._log.write

    def finish(self) -> int:
        """Close the file, and say what went wrong with it; return an exit status."""
        if self._log is None:
            return EXIT_OK
        self._log.close()
        if self._log.problem is None:
            return EXIT_OK
        self._settings.print_error(self._log.problem)
        return EXIT_FAILED


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --report, --metrics-file and --changes."""
    command = click.option(
        "--changes",
        "changes_file",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        metavar="FILE",
        help="Write each change to FILE as JSON Lines: entity, field, value before and after.",
    )(command)
    kind = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)
    command = click.option(
        "--metrics-file",
        type=kind,
        metavar="FILE",
        help="Write metrics to FILE at the end of the run, for Prometheus' textfile collector.",
    )(command)
    return click.option(
        "--report",
        "report_file",
        type=kind,
        metavar="FILE",
        help="Also write the report as JSON to FILE; it is updated during the run.",
    )(command)


class OutputFiles:
    """The files of --report and --metrics-file, as far as they are asked for."""

    def __init__(self, report: Path | None, metrics: Path | None, settings: OutputSettings) -> None:
        """Check the folders of the files.

        Raises:
            UsageError: the folder of a file does not exist.
        """
        writable_in(report, "--report")
        writable_in(metrics, "--metrics-file")
        self._report = None if report is None else ReportFile(report, settings)
        self._metrics = None if metrics is None else MetricsFile(metrics, settings)

    @property
    def keep(self) -> "Callable[[Report], None] | None":
        """Takes the reports of an unfinished run; None without --report."""
        return None if self._report is None else self._report.keep

    def finish(self, report: "Report") -> int:
        """Write the files of a run that has ended; return an exit status."""
        codes = [file.finish(report) for file in (self._report, self._metrics) if file]
        return max(codes, default=EXIT_OK)


def gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --fail-on-tests and --junit."""
    command = click.option(
        "--junit",
        "junit_file",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        metavar="FILE",
        help="With --fail-on-tests: write the results as JUnit XML, one case per entity and test.",
    )(command)
    return fail_on_tests_option(command)


def fail_on_tests_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --fail-on-tests."""
    return click.option(
        "--fail-on-tests",
        "fail_on_tests",
        metavar="REGEX",
        callback=_pattern,
        help="Exit with status 3 if any entity fails, or has no result for, a metadata test "
        "whose URN or name matches REGEX.",
    )(command)


def _pattern(
    context: click.Context, param: click.Parameter, value: str | None
) -> re.Pattern[str] | None:
    if value is None:
        return None
    try:
        return re.compile(value)
    except re.error as error:
        raise click.BadParameter(
            f"{value!r} is not a regular expression: {error}", ctx=context, param=param
        ) from error


class GateFile:
    """The file of --junit: the results behind the verdict of the quality gate."""

    def __init__(
        self, pattern: re.Pattern[str] | None, path: Path | None, settings: OutputSettings
    ) -> None:
        """Check the options of the quality gate.

        Raises:
            UsageError: there is a file and nothing to put into it, or its folder does not exist.
        """
        if path is not None and pattern is None:
            raise click.UsageError("--junit requires --fail-on-tests, which names the tests")
        writable_in(path, "--junit")
        self._pattern = pattern
        self._path = path
        self._name = ""
        self._settings = settings
        self._started_at_ms = time.time_ns() // 1_000_000
        self._problem: str | None = None

    def options(self, name: str) -> "QualityGateOptions | None":
        """Return the quality gate of a run of the recipe `name`; None: there is none."""
        from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGateOptions

        self._name = name
        if self._pattern is None:
            return None
        write = None if self._path is None else partial(self._write, self._path)
        return QualityGateOptions(self._pattern, write)

    def finish(self) -> int:
        """Say what went wrong with the file; return an exit status."""
        if self._problem is None:
            return EXIT_OK
        self._settings.print_error(self._problem)
        return EXIT_FAILED

    def _write(self, path: Path, result: "QualityGateResult") -> None:
        from mlcat_ingest.pipeline.evaluate.quality_gate import junit_lines

        try:
            write_whole(path, junit_lines(result, self._name, self._started_at_ms))
        except OSError as error:
            self._problem = f"the test results cannot be written to {path}: {error.strerror}"
