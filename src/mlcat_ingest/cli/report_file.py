"""The file of `--report`: whole at any moment, also of a run that is killed."""

from pathlib import Path
from typing import TYPE_CHECKING

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_codes import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.cli.whole_file import STDOUT, is_replaceable, write_whole

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report.report import Report


class ReportFile:
    """Takes the report of a run now and then, and in the end; `-` is standard output."""

    def __init__(self, path: Path, settings: OutputSettings) -> None:
        """Write nothing yet."""
        self._path = path
        self._settings = settings

    def keep(self, report: "Report") -> None:
        """Replace the file by the report of a run that goes on."""
        try:
            if self._path != STDOUT and is_replaceable(self._path):
                write_whole(self._path, [_text(report)])
        except OSError:
            return  # it is said in the end, when it counts

    def finish(self, report: "Report") -> int:
        """Write the report of a run that has ended; return an exit status."""
        text = _text(report)
        if self._path == STDOUT:
            output.out(text.rstrip("\n"))
            return EXIT_OK
        try:
            write_whole(self._path, [text])
        except OSError as error:
            self._settings.complain(
                f"the report cannot be written to {self._path}: {error.strerror}"
            )
            return EXIT_FAILED
        return EXIT_OK


def _text(report: "Report") -> str:
    from mlcat_ingest.pipeline.report.render import as_json

    return as_json(report)
