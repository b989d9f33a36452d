"""Files that a run writes: its report, metrics and changes, and the results of its quality gate.

A file is whole at any moment, and never takes the place of a device.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import OutputSettings, options
from mlcat_ingest.core.clock import now_ms
from mlcat_ingest.pipeline.report.report import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGateOptions, QualityGateResult
    from mlcat_ingest.pipeline.report.report import Report
    from mlcat_ingest.pipeline.write.delivery import OnWritten
    from mlcat_ingest.workflows.plan_render import ChangeLog


STDOUT: Final = Path("-")


def write_whole(path: Path, pieces: Iterable[str]) -> None:
    """Write `pieces` to `path`: what stood there before stays until all of it is written.

    A link stays a link, and a device or a pipe gets it directly.

    Raises:
        OSError: it cannot be written.
    """
    if not _is_replaceable(path):
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


def _is_replaceable(path: Path) -> bool:
    """Return whether another file may take the place of `path`: not that of a device or pipe."""
    return path.is_file() or not path.exists()


@dataclass
class OutputFiles:
    """The files that the options of one run ask for.

    Raises:
        UsageError: --junit has no tests to report.
    """

    settings: OutputSettings
    report_file: Path | None = None
    metrics_file: Path | None = None
    changes_file: Path | None = None
    junit_file: Path | None = None
    fail_on_tests: re.Pattern[str] | None = None

    def __post_init__(self) -> None:
        self._log: ChangeLog | None = None
        self._problems: list[str] = []
        if self.junit_file is not None and self.fail_on_tests is None:
            raise click.UsageError("--junit requires --fail-on-tests, which names the tests")

    def open_changes(self) -> "OnWritten | None":
        """Make the file of --changes empty, and return what writes it; None without --changes.

        Raises:
            UsageError: it cannot be written.
        """
        if self.changes_file is None:
            return None
        from mlcat_ingest.workflows.plan_render import ChangeLog

        try:
            self._log = ChangeLog(self.changes_file)
        except OSError as error:
            message = f"--changes: {self.changes_file} cannot be written: {error.strerror}"
            raise click.UsageError(message) from error
        return self._log.write

    def quality_gate(self, recipe: str) -> "QualityGateOptions | None":
        """Return the quality gate of a run of `recipe`; None without --fail-on-tests."""
        if self.fail_on_tests is None:
            return None
        from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGateOptions, junit_lines

        path, started_at_ms = self.junit_file, now_ms()
        if path is None:
            return QualityGateOptions(self.fail_on_tests)

        def write(result: "QualityGateResult") -> None:
            self._write("test results", path, junit_lines(result, recipe, started_at_ms))

        return QualityGateOptions(self.fail_on_tests, write)

    @property
    def keep(self) -> "Callable[[Report], None] | None":
        """Takes the reports of an unfinished run; None without --report, or on stdout."""
        from mlcat_ingest.pipeline.report.render import as_json

        path = self.report_file
        if path is None or path == STDOUT:
            return None

        def keep(report: "Report") -> None:
            with suppress(OSError):  # it is said in the end, when it counts
                if _is_replaceable(path):
                    write_whole(path, [as_json(report)])

        return keep

    def finish(self, report: "Report") -> int:
        """Write the files of a run that has ended; say what went wrong, and return a status."""
        from mlcat_ingest.pipeline.report.render import as_json

        if self.report_file is not None:
            self._write("report", self.report_file, [as_json(report)])
        if self.metrics_file is not None:
            self._write("metrics", self.metrics_file, _metrics(report, self.metrics_file))
        if self._log is not None:
            self._log.close()
            if self._log.problem is not None:
                self._problems.append(self._log.problem)
        for problem in self._problems:
            self.settings.print_error(problem)
        return EXIT_FAILED if self._problems else EXIT_OK

    def _write(self, content: str, path: Path, pieces: Iterable[str]) -> None:
        try:
            if path == STDOUT:
                output.out("".join(pieces).rstrip("\n"))
            else:
                write_whole(path, pieces)
        except OSError as error:
            self._problems.append(f"the {content} cannot be written to {path}: {error.strerror}")


def _metrics(report: "Report", path: Path) -> Iterator[str]:
    """Yield the metrics of a run; `path` has the time of the last success until they are there."""
    from mlcat_ingest.pipeline.report.render import as_prometheus

    before = path.read_bytes() if path != STDOUT and path.is_file() else b""
    yield as_prometheus(report, before.decode("utf-8", "replace"))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}") from error


fail_on_tests_option = click.option(
    "--fail-on-tests",
    "fail_on_tests",
    metavar="REGEX",
    type=_pattern,
    help="Exit with status 3 if any entity fails, or has no result for, a metadata test "
    "whose URN or name matches REGEX.",
)
_FILE: Final = click.Path(dir_okay=False, writable=True, path_type=Path)
_FILE_OR_STDOUT: Final = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)
output_file_options = options(
    click.option(
        "--report",
        "report_file",
        type=_FILE_OR_STDOUT,
        metavar="FILE",
        help="Also write the report as JSON to FILE; it is updated during the run.",
    ),
    click.option(
        "--metrics-file",
        type=_FILE_OR_STDOUT,
        metavar="FILE",
        help="Write metrics to FILE at the end of the run, for Prometheus' textfile collector.",
    ),
    click.option(
        "--changes",
        "changes_file",
        type=_FILE,
        metavar="FILE",
        help="Write each change to FILE as JSON Lines: entity, field, value before and after.",
    ),
    fail_on_tests_option,
    click.option(
        "--junit",
        "junit_file",
        type=_FILE,
        metavar="FILE",
        help="With --fail-on-tests: write the results as JUnit XML, one case per entity and test.",
    ),
)
"""The options of `OutputFiles`."""
