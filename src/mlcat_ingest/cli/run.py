"""`mlcat-ingest run`: the main job, from a recipe or from an address of MLflow alone."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_status import EXIT_OK, exit_code_of, stop_on_sigterm
from mlcat_ingest.cli.files import ChangesFile, GateFile, OutputFiles, file_options, gate_options
from mlcat_ingest.cli.hooks import print_drain, spool_option
from mlcat_ingest.cli.options import (
    OutputSettings,
    ReadingOptions,
    output_options,
    reading_options,
)
from mlcat_ingest.core.resources import collecting_every, share_one_heap
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.hooks.settings import spool_of
from mlcat_ingest.hooks.spool import EventSpool

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report.report import HooksSummary, Report
    from mlcat_ingest.pipeline.write.delivery import OnWritten
    from mlcat_ingest.workflows.resolve import ResolvedRecipe

# Rarer still gains nothing here and takes memory.
_OBJECTS_BETWEEN_COLLECTIONS: Final = 2_000


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest recipe.yml\n"
    "  mlcat-ingest run recipe.yml --report report.json --log-format json\n"
    "  mlcat-ingest recipe.yml --fail-on-tests 'has-owner' --junit tests.xml\n"
    "  mlcat-ingest recipe.yml --metrics-file /var/lib/node_exporter/mlflow.prom\n"
    "  mlcat-ingest recipe.yml --changes changes.jsonl\n"
    "  mlcat-ingest http://mlflow:5000 --to http://catalog:8080 --limit 100"
)
@reading_options
@file_options
@gate_options
@spool_option
@click.option("--dry-run", is_flag=True, help="Show the changes without writing them; see `plan`.")
@output_options
def command(
    reading: ReadingOptions,
    report_file: Path | None,
    metrics_file: Path | None,
    changes_file: Path | None,
    fail_on_tests: re.Pattern[str] | None,
    junit_file: Path | None,
    spool: Path | None,
    *,
    dry_run: bool,
) -> int:
    """Run RECIPE: a YAML or JSON file, `-` for standard input, or the URL of an MLflow server.

    Pending events of run hooks are processed at the end of the run; see `hooks`.

    Exit status: 0 everything arrived; 1 the source or the service failed; 2 invalid command or
    recipe, or a limit was reached; 3 metadata tests did not pass (--fail-on-tests); 4 some records
    were rejected, or the service dropped something; 130 interrupted. If several apply, 2 has
    precedence over 1, 1 over 4, and 4 over 3. The processing of hook events counts too.
    """
    from mlcat_ingest.cli.plan import show_plan

    share_one_heap()
    if dry_run:
        _refuse_with_dry_run(report_file, metrics_file, changes_file, fail_on_tests, junit_file)
        return show_plan(reading)
    settings = OutputSettings.current()
    files = OutputFiles(report_file, metrics_file, settings)
    gate = GateFile(fail_on_tests, junit_file, settings)
    return _run(reading, spool, files, ChangesFile(changes_file, settings), gate, settings)


def _run(
    reading: ReadingOptions,
    spool: Path | None,
    files: OutputFiles,
    changes_file: ChangesFile,
    gate: GateFile,
    settings: OutputSettings,
) -> int:
    """Run what `reading` names, write `files` and what the gate found, and return the status."""
    from mlcat_ingest.pipeline.report.report import worst
    from mlcat_ingest.recipe.dump import recipe_to_yaml
    from mlcat_ingest.workflows.ingest import Pipeline
    from mlcat_ingest.workflows.resolve import DEFAULT_CATALOG

    resolved, is_default = reading.resolve(settings, "writing to")
    pipeline = Pipeline(resolved)
    changes = changes_file.open()
    if reading.is_address:
        settings.print_note("# The recipe of this run; save it to change it.")
        settings.print_note(recipe_to_yaml(resolved.recipe).rstrip())
    with (
        collecting_every(_OBJECTS_BETWEEN_COLLECTIONS),
        stop_on_sigterm(),
        settings.progress() as progress,
    ):
        report = pipeline.run(
            progress,
            files.keep,
            full=reading.full,
            accept_renaming=reading.accept_renaming,
            gate=gate.options(resolved.recipe.name),
            changes=changes,
        )
        if report.failure is None and not report.interrupted:
            report = replace(report, hooks=_drain(resolved, reading, spool, changes, settings))
    try:
        _print_report(report, settings)
    finally:
        # Also where standard output takes nothing more.
        failed = worst(files.finish(report), changes_file.finish(), gate.finish())
    if is_default and report.failure is None:
        settings.print_note(f"To view it: mlcat-ingest catalog serve --db {DEFAULT_CATALOG}")
    return worst(report.exit_code, failed)


def _drain(
    resolved: "ResolvedRecipe",
    reading: ReadingOptions,
    folder: Path | None,
    changes: "OnWritten | None",
    settings: OutputSettings,
) -> "HooksSummary | None":
    """Ingest the runs that hooks have left in the spool; return None for an empty one."""
    from mlcat_ingest.hooks.drain import drain_spool
    from mlcat_ingest.pipeline.report.report import HooksSummary, failure_of
    from mlcat_ingest.recipe import secrets

    spool = EventSpool(spool_of(reading.recipe, str(folder or "")))
    left = spool.pending()
    if not left:
        return None
    try:
        result = drain_spool(resolved, spool, reading.recipe, changes)
    except MlcatError as error:
        settings.print_error(f"hooks: {error}", error)
        failure = failure_of(error, secrets.mask)
        return HooksSummary(exit_code_of(error), left=left, failure=failure)
    print_drain(result, settings)
    return result.summary()


def _refuse_with_dry_run(*given: object) -> None:
    options = ("--report", "--metrics-file", "--changes", "--fail-on-tests", "--junit")
    wrong = [name for name, value in zip(options, given, strict=True) if value is not None]
    if wrong:
        raise click.UsageError(f"{wrong[0]} cannot be combined with --dry-run")


def _print_report(report: "Report", settings: OutputSettings) -> None:
    from mlcat_ingest.pipeline.report.render import as_data, as_text

    settings.print_failure(report)
    if settings.log_format == "json":
        output.out_json(as_data(report), indent=None)
    elif report.records if report.failure else not (settings.quiet and report.exit_code == EXIT_OK):
        output.out_report(as_text(report, cause=False))
