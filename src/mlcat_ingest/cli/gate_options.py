"""The options of the gate on metadata tests, and the file of `--junit`."""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlcat_ingest.cli.exit_codes import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.cli.whole_file import writable_in, write_whole

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.evaluate.gate import GateOptions, Judged


def gate_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --fail-on-tests and --junit."""
    command = click.option(
        "--junit",
        "junit_file",
        type=click.Path(dir_okay=False, writable=True, path_type=Path),
        metavar="FILE",
        help="With --fail-on-tests: write the results, entity by entity, as JUnit XML.",
    )(command)
    return click.option(
        "--fail-on-tests",
        "fail_on_tests",
        metavar="REGEX",
        callback=_pattern,
        help="Exit with 3 where an entity fails a metadata test whose URN or name REGEX is found "
        "in, or where the results are not known.",
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
    """Takes the results behind the gate's verdict, where a file is wanted."""

    def __init__(
        self, pattern: re.Pattern[str] | None, path: Path | None, settings: OutputSettings
    ) -> None:
        """Write nothing yet.

        Raises:
            UsageError: there is a file and nothing to put into it, or its folder does not exist.
        """
        if path is not None and pattern is None:
            raise click.UsageError("--junit goes with --fail-on-tests, which names the tests")
        writable_in(path, "--junit")
        self._pattern = pattern
        self._path = path
        self._name = ""
        self._settings = settings
        self._started_at_ms = time.time_ns() // 1_000_000
        self._problem: str | None = None

    def options(self, name: str) -> "GateOptions | None":
        """Return what a run of the recipe `name` needs to know of the gate; None: there is none."""
        from mlcat_ingest.pipeline.evaluate.gate import GateOptions

        self._name = name
        if self._pattern is None:
            return None
        return GateOptions(self._pattern, None if self._path is None else self._write)

    def finish(self) -> int:
        """Say what went wrong with the file; return an exit status."""
        if self._problem is None:
            return EXIT_OK
        self._settings.complain(self._problem)
        return EXIT_FAILED

    def _write(self, judged: "Judged") -> None:
        from mlcat_ingest.pipeline.evaluate.junit import as_junit

        path = self._path
        if path is None:
            return
        try:
            write_whole(path, as_junit(judged, self._name, self._started_at_ms))
        except OSError as error:
            self._problem = f"the test results cannot be written to {path}: {error.strerror}"
