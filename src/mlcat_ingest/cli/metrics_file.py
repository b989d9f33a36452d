"""The file of `--metrics-file`: what the last run came to, for Prometheus to pick up."""

from pathlib import Path
from typing import TYPE_CHECKING

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_codes import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.cli.whole_file import STDOUT, is_replaceable, write_whole

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report.report import Report


class MetricsFile:
    """Takes the report of a run that has ended; `-` is standard output."""

    def __init__(self, path: Path, settings: OutputSettings) -> None:
        """Write nothing yet."""
        self._path = path
        self._settings = settings

    def finish(self, report: "Report") -> int:
        """Write the metrics of a run, failed ones too; return an exit status."""
        from mlcat_ingest.pipeline.report.prometheus import as_prometheus

        try:
            text = as_prometheus(report, self._before())
            if self._path == STDOUT:
                output.out(text.rstrip("\n"))
            else:
                write_whole(self._path, [text])
        except OSError as error:
            self._settings.complain(
                f"the metrics cannot be written to {self._path}: {error.strerror}"
            )
            return EXIT_FAILED
        return EXIT_OK

    def _before(self) -> str:
        """Return what the file says so far, which knows of the last success."""
        if self._path == STDOUT or not is_replaceable(self._path) or not self._path.exists():
            return ""
        return self._path.read_bytes().decode("utf-8", "replace")
