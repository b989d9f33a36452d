"""`mlcat-ingest run`: the main job, from a recipe or from an address of MLflow alone."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_codes import EXIT_OK
from mlcat_ingest.cli.options import SEE_MORE, Settings, say_options
from mlcat_ingest.cli.report_file import ReportFile
from mlcat_ingest.cli.signals import stop_on_sigterm

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report import Report
    from mlcat_ingest.pipeline.resolve import Resolved

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest recipe.yml\n"
    "  mlcat-ingest run recipe.yml --report report.json --log-format json\n"
    "  mlcat-ingest http://mlflow:5000 --to http://catalog:8080 --limit 100"
)
@click.argument("recipe")
@click.option("--to", metavar="URL", help="With an address: the catalog service to write to.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help="With an address: read at most N runs.",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="Write the report as JSON to FILE too, from the start on.",
)
@click.option(
    "--full",
    is_flag=True,
    help="Read everything and compare it with the catalog, whatever is remembered.",
)
@click.option(
    "--accept-renaming",
    is_flag=True,
    help="Go on where `naming`, `env` or `instance` now give other URNs than before.",
)
@click.option(
    "--no-input",
    is_flag=True,
    help="Assume that nobody watches: the recipe has to say where to write.",
)
@say_options
def command(
    recipe: str,
    to: str | None,
    limit: int | None,
    report_file: Path | None,
    *,
    full: bool,
    accept_renaming: bool,
    no_input: bool,
) -> int:
    """Run RECIPE, a YAML or JSON file (`-`: standard input) or the address of an MLflow server.

    Exit status: 0 everything arrived; 1 the source or the service failed; 2 the command, the
    recipe or a limit is at fault; 4 some records were rejected; 130 interrupted.
    """
    from mlcat_ingest.pipeline.pipeline import Pipeline
    from mlcat_ingest.pipeline.resolve import DEFAULT_CATALOG, embedded_sink
    from mlcat_ingest.recipe.dump import recipe_to_yaml

    if report_file is not None and not report_file.parent.is_dir():
        raise click.UsageError(f"--report: the folder {report_file.parent} does not exist")
    settings = Settings.current()
    resolved = read_recipe(recipe, to, limit)
    boxed = resolved.sink is None and not no_input
    if boxed:
        settings.tell(f"No sink is given: writing to the catalog in the box, ./{DEFAULT_CATALOG}")
        resolved = replace(resolved, sink=embedded_sink(Path.cwd()))
    pipeline = Pipeline(resolved)
    if _ADDRESS.match(recipe):
        settings.tell("# The recipe of this run; save it to change it.")
        settings.tell(recipe_to_yaml(resolved.recipe).rstrip())
    as_lines = settings.log_format == "json"
    kept = None if report_file is None else ReportFile(report_file, settings)
    with (
        stop_on_sigterm(),
        output.progress(quiet=settings.quiet, as_lines=as_lines) as progress,
    ):
        keep = None if kept is None else kept.keep
        report = pipeline.run(progress, keep, full=full, accept_renaming=accept_renaming)
    code = _tell(report, kept, settings)
    if boxed and report.failure is None:
        settings.tell(f"To look at it: mlcat-ingest catalog serve --db {DEFAULT_CATALOG}")
    return code


def read_recipe(recipe: str, to: str | None = None, limit: int | None = None) -> "Resolved":
    """Return the recipe in a file, or the one that an address of MLflow stands for.

    Raises:
        UsageError: `to` or `limit` is given with a file.
        RecipeError: it cannot be read, or something in it is wrong.
    """
    from mlcat_ingest.pipeline.resolve import load_resolved, resolve
    from mlcat_ingest.recipe.model import Recipe

    if not _ADDRESS.match(recipe):
        if to is not None or limit is not None:
            option = "--to" if to is not None else "--limit"
            raise click.UsageError(f"{option} goes with an address; a recipe says it itself")
        return load_resolved(recipe)
    return resolve(Recipe.for_tracking_uri(recipe, to, limit))


def _tell(report: "Report", kept: ReportFile | None, settings: Settings) -> int:
    from mlcat_ingest.pipeline.render import as_data, as_text

    failure = report.failure
    if failure is not None:
        cure = "" if failure.expected or settings.tracebacks else SEE_MORE
        settings.complain(f"{failure}{cure}", report.error)
    if settings.log_format == "json":
        output.out(_line(as_data(report)))
    elif report.records if failure else not (settings.quiet and report.exit_code == EXIT_OK):
        output.out(as_text(report, cause=False))
    return (kept.finish(report) if kept is not None else EXIT_OK) or report.exit_code


def _line(data: object) -> str:
    import json

    return json.dumps(data, ensure_ascii=False)
