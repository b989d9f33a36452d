"""`mlcat-ingest run`: the main job, from a recipe or from an address of MLflow alone."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_codes import EXIT_OK, exit_code_of
from mlcat_ingest.cli.gate_options import GateFile, gate_options
from mlcat_ingest.cli.hooks import drained_spool, spool_option, tell
from mlcat_ingest.cli.options import SEE_MORE, OutputSettings, say_options
from mlcat_ingest.cli.reading import ReadingOptions, reading_options
from mlcat_ingest.cli.run_files import OutputFiles, file_options
from mlcat_ingest.cli.signals import stop_on_sigterm
from mlcat_ingest.core.process import collecting_every, share_one_heap
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.hooks.settings import spool_of
from mlcat_ingest.hooks.spool import EventSpool

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report.report import HooksSummary, Report
    from mlcat_ingest.workflows.resolve import Resolved

# Rarer still gains nothing here and takes memory.
_OBJECTS_BETWEEN_COLLECTIONS: Final = 2_000


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest recipe.yml\n"
    "  mlcat-ingest run recipe.yml --report report.json --log-format json\n"
    "  mlcat-ingest recipe.yml --fail-on-tests 'has-owner' --junit tests.xml\n"
    "  mlcat-ingest recipe.yml --metrics-file /var/lib/node_exporter/mlflow.prom\n"
    "  mlcat-ingest http://mlflow:5000 --to http://catalog:8080 --limit 100"
)
@reading_options
@file_options
@gate_options
@spool_option
@click.option(
    "--dry-run", is_flag=True, help="Show what would be written, and write nothing; see `plan`."
)
@say_options
def command(
    reading: ReadingOptions,
    report_file: Path | None,
    metrics_file: Path | None,
    fail_on_tests: re.Pattern[str] | None,
    junit_file: Path | None,
    spool: Path | None,
    *,
    dry_run: bool,
) -> int:
    """Run RECIPE, a YAML or JSON file (`-`: standard input) or the address of an MLflow server.

    What waits in the spool of run hooks is brought in then, too; see `hooks`.

    Exit status: 0 everything arrived; 1 the source or the service failed; 2 the command, the
    recipe or a limit is at fault; 3 metadata tests did not pass (--fail-on-tests); 4 some records
    were rejected, or the service dropped something; 130 interrupted. Where several hold, 2 goes
    before 1, 1 before 4, 4 before 3; the drain of hooks counts too.
    """
    from mlcat_ingest.cli.plan import show_plan

    share_one_heap()
    if dry_run:
        _refuse_with_dry_run(report_file, metrics_file, fail_on_tests, junit_file)
        return show_plan(reading)
    settings = OutputSettings.current()
    files = OutputFiles(report_file, metrics_file, settings)
    gate = GateFile(fail_on_tests, junit_file, settings)
    return _run(reading, spool, files, gate, settings)


def _run(
    reading: ReadingOptions,
    spool: Path | None,
    files: OutputFiles,
    gate: GateFile,
    settings: OutputSettings,
) -> int:
    """Run what `reading` names, write `files` and what the gate found, and return the status."""
    from mlcat_ingest.pipeline.report.report import worst
    from mlcat_ingest.recipe.dump import recipe_to_yaml
    from mlcat_ingest.workflows.ingest import Pipeline
    from mlcat_ingest.workflows.resolve import DEFAULT_CATALOG

    resolved, boxed = reading.resolved(settings, "writing to")
    pipeline = Pipeline(resolved)
    if reading.is_address:
        settings.tell("# The recipe of this run; save it to change it.")
        settings.tell(recipe_to_yaml(resolved.recipe).rstrip())
    as_lines = settings.log_format == "json"
    with (
        collecting_every(_OBJECTS_BETWEEN_COLLECTIONS),
        stop_on_sigterm(),
        output.progress(quiet=settings.quiet, as_lines=as_lines) as progress,
    ):
        report = pipeline.run(
            progress,
            files.keep,
            full=reading.full,
            accept_renaming=reading.accept_renaming,
            gate=gate.options(resolved.recipe.name),
        )
        if report.failure is None and not report.interrupted:
            report = replace(report, hooks=_drain(resolved, reading, spool, settings))
    try:
        _tell(report, settings)
    finally:
        # Also where standard output takes nothing more.
        failed = worst(files.finish(report), gate.finish())
    if boxed and report.failure is None:
        settings.tell(f"To look at it: mlcat-ingest catalog serve --db {DEFAULT_CATALOG}")
    return worst(report.exit_code, failed)


def _drain(
    resolved: "Resolved", reading: ReadingOptions, folder: Path | None, settings: OutputSettings
) -> "HooksSummary | None":
    """Bring in what run hooks have left in the spool, and return what came of it."""
    from mlcat_ingest.pipeline.report.report import HooksSummary, failure_of
    from mlcat_ingest.recipe import secrets

    spool = EventSpool(spool_of(reading.recipe, str(folder or "")))
    left = spool.pending()
    if not left:
        return None
    try:
        drained = drained_spool(resolved, reading.recipe, spool)
    except MlcatError as error:
        settings.complain(f"hooks: {error}", error)
        failure = failure_of(error, secrets.mask)
        return HooksSummary(exit_code_of(error), left=left, failure=failure)
    tell(drained, settings)
    return drained.summary()


def _refuse_with_dry_run(*given: object) -> None:
    options = ("--report", "--metrics-file", "--fail-on-tests", "--junit")
    wrong = [name for name, value in zip(options, given, strict=True) if value is not None]
    if wrong:
        raise click.UsageError(f"{wrong[0]} goes with a run; --dry-run makes a plan only")


def _tell(report: "Report", settings: OutputSettings) -> None:
    from mlcat_ingest.pipeline.report.render import as_data, as_text

    failure = report.failure
    if failure is not None:
        cure = "" if failure.expected or settings.tracebacks else SEE_MORE
        settings.complain(f"{failure}{cure}", report.error)
    if settings.log_format == "json":
        output.out(_line(as_data(report)))
    elif report.records if failure else not (settings.quiet and report.exit_code == EXIT_OK):
        output.out_report(as_text(report, cause=False))


def _line(data: object) -> str:
    import json

    return json.dumps(data, ensure_ascii=False)
