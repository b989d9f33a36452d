"""`mlcat-ingest run`: the main job, from a recipe or from an address of MLflow alone."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.files import OutputFiles, output_file_options
from mlcat_ingest.cli.hooks import print_drain, spool_option
from mlcat_ingest.cli.options import (
    ADDRESS,
    Command,
    OutputSettings,
    ReadingOptions,
    reading_options,
)
from mlcat_ingest.cli.output import exit_code_of
from mlcat_ingest.core.environment import stop_on_signals
from mlcat_ingest.core.resources import collecting_every, share_one_heap
from mlcat_ingest.errors import MlcatError, RecipeError
from mlcat_ingest.hooks.settings import spool_of
from mlcat_ingest.hooks.spool import EventSpool
from mlcat_ingest.pipeline.report.report import EXIT_OK

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report.report import HooksSummary, Report
    from mlcat_ingest.pipeline.write.delivery import OnWritten
    from mlcat_ingest.workflows.resolve import ResolvedRecipe

# Rarer still gains nothing here.
_OBJECTS_BETWEEN_COLLECTIONS: Final = 20_000


@click.command(
    cls=Command,
    examples=[
        "recipe.yml",
        "run recipe.yml --report report.json --log-format json",
        "recipe.yml --fail-on-tests 'has-owner' --junit tests.xml",
        "recipe.yml --metrics-file /var/lib/node_exporter/mlflow.prom",
        "recipe.yml --changes changes.jsonl",
        "http://mlflow:5000 --to http://catalog:8080 --limit 100",
    ],
)
@reading_options
@output_file_options
@spool_option
@click.option("--dry-run", is_flag=True, help="Show the changes without writing them; see `plan`.")
def command(reading: ReadingOptions, spool: Path | None, *, dry_run: bool, **files: Any) -> int:
    """Run RECIPE: a YAML or JSON file, `-` for standard input, or the URL of an MLflow server.

    Pending events of run hooks are processed at the end of the run; see `hooks`.

    Exit status: 0 everything arrived; 1 the source or the service failed; 2 invalid command or
    recipe, or a limit was reached; 3 metadata tests did not pass (--fail-on-tests); 4 some records
    were rejected, or the service dropped something; 130 interrupted. If several apply, 2 has
    precedence over 1, 1 over 4, and 4 over 3. The processing of hook events counts too.
    """
    from mlcat_ingest.cli.plan import show_plan

    share_one_heap()
    for option in click.get_current_context().command.params:
        value = files.get(str(option.name))
        if dry_run and value is not None:
            raise click.UsageError(f"{option.opts[0]} cannot be combined with --dry-run")
        if isinstance(value, Path) and not value.parent.is_dir():
            folder = f"the folder {value.parent} does not exist"
            raise click.UsageError(f"{option.opts[0]}: {folder}")
    if dry_run:
        return show_plan(reading)
    settings = OutputSettings.current()
    return _run(reading, spool, OutputFiles(settings, **files), settings)


@collecting_every(_OBJECTS_BETWEEN_COLLECTIONS)
def _run(
    reading: ReadingOptions,
    spool: Path | None,
    files: OutputFiles,
    settings: OutputSettings,
) -> int:
    """Run what `reading` names, write `files`, and return the status."""
    from mlcat_ingest.pipeline.report.report import worst
    from mlcat_ingest.workflows.ingest import Pipeline
    from mlcat_ingest.workflows.resolve import DEFAULT_CATALOG

    resolved, is_default = reading.resolve(settings, "writing to")
    pipeline = Pipeline(resolved)
    changes = files.open_changes()
    if ADDRESS.match(reading.recipe):
        from mlcat_ingest.recipe.dump import recipe_to_yaml

        settings.print_note("# The recipe of this run; save it to change it.")
        settings.print_note(recipe_to_yaml(resolved.recipe).rstrip())
    with stop_on_signals(), settings.progress() as progress:
        report = pipeline.run(
            progress,
            files.keep,
            full=reading.full,
            accept_renaming=reading.accept_renaming,
            adopt_since_ms=reading.adopt_since_ms,
            gate=files.quality_gate(resolved.recipe.name),
            changes=changes,
        )
        if report.failure is None and not report.interrupted:
            report = replace(report, hooks=_drain(resolved, reading, spool, changes, settings))
    try:
        _print_report(report, settings)
    finally:
        # Also where standard output takes nothing more.
        failed = files.finish(report)
    if is_default and report.failure is None:
        from mlcat_ingest.client.embedded import serving_address

        how = serving_address(DEFAULT_CATALOG)
        how = how or f"mlcat-ingest catalog serve --db {DEFAULT_CATALOG}"
        settings.print_note(f"To view it: {how}")
    return worst(report.exit_code, failed)


def _drain(
    resolved: "ResolvedRecipe",
    reading: ReadingOptions,
    folder: Path | None,
    changes: "OnWritten | None",
    settings: OutputSettings,
) -> "HooksSummary | None":
    """Ingest the runs that hooks have left in the spool; return None for an empty one."""
    try:
        spool = EventSpool(spool_of(reading.recipe, str(folder or "")))
    except RecipeError:
        if folder is not None:
            raise
        return None  # without a home folder no hook has a spool there
    left = spool.pending()
    if not left:
        return None
    from mlcat_ingest.hooks.drain import drain_spool
    from mlcat_ingest.pipeline.report.report import HooksSummary, failure_of
    from mlcat_ingest.recipe import secrets

    try:
        result = drain_spool(resolved, spool, reading.recipe, changes)
    except MlcatError as error:
        settings.print_error(f"hooks: {error}", error)
        failure = failure_of(error, secrets.mask)
        return HooksSummary(exit_code_of(error), left=left, failure=failure)
    print_drain(result, settings)
    return result.summary


def _print_report(report: "Report", settings: OutputSettings) -> None:
    from mlcat_ingest.pipeline.report.render import as_data, as_text

    settings.print_failure(report)
    if settings.log_format == "json":
        output.out_json(as_data(report), indent=None)
    elif report.records if report.failure else not (settings.quiet and report.exit_code == EXIT_OK):
        output.out_report(as_text(report, cause=False))
