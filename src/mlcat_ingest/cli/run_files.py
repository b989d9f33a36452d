"""The files that a run leaves behind: its report and its metrics."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlcat_ingest.cli.exit_codes import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.metrics_file import MetricsFile
from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.cli.report_file import ReportFile
from mlcat_ingest.cli.whole_file import writable_in

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report.report import Report


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --report and --metrics-file."""
    kind = click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path)
    command = click.option(
        "--metrics-file",
        type=kind,
        metavar="FILE",
        help="Write metrics of the run to FILE in the end, for Prometheus' textfile collector.",
    )(command)
    return click.option(
        "--report",
        "report_file",
        type=kind,
        metavar="FILE",
        help="Write the report as JSON to FILE too, from the start on.",
    )(command)


class OutputFiles:
    """Takes the report of a run, for each file that is wanted."""

    def __init__(self, report: Path | None, metrics: Path | None, settings: OutputSettings) -> None:
        """Write nothing yet.

        Raises:
            UsageError: the folder of a file does not exist.
        """
        writable_in(report, "--report")
        writable_in(metrics, "--metrics-file")
        self._report = None if report is None else ReportFile(report, settings)
        self._metrics = None if metrics is None else MetricsFile(metrics, settings)

    @property
    def keep(self) -> "Callable[[Report], None] | None":
        """What takes the report of a run that goes on, None where nobody wants it."""
        return None if self._report is None else self._report.keep

    def finish(self, report: "Report") -> int:
        """Write the files of a run that has ended; return an exit status."""
        files = [one for one in (self._report, self._metrics) if one is not None]
        codes = [file.finish(report) for file in files]
        return EXIT_FAILED if any(codes) else EXIT_OK
