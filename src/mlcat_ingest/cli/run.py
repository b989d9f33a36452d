"""`mlcat-ingest run`: the main job, from a recipe or from an address of MLflow alone."""

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_codes import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE
from mlcat_ingest.cli.gate_options import GateFile, gate_options
from mlcat_ingest.cli.options import SEE_MORE, Settings, say_options
from mlcat_ingest.cli.run_files import RunFiles, file_options
from mlcat_ingest.cli.signals import stop_on_sigterm

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report import Report
    from mlcat_ingest.pipeline.resolve import Resolved

_WORSE: Final = (EXIT_USAGE, EXIT_INTERRUPTED)
"""Exit statuses that a file which cannot be written does not change."""

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest recipe.yml\n"
    "  mlcat-ingest run recipe.yml --report report.json --log-format json\n"
    "  mlcat-ingest recipe.yml --fail-on-tests 'has-owner' --junit tests.xml\n"
    "  mlcat-ingest recipe.yml --metrics-file /var/lib/node_exporter/mlflow.prom\n"
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
@file_options
@gate_options
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
    metrics_file: Path | None,
    fail_on_tests: re.Pattern[str] | None,
    junit_file: Path | None,
    *,
    full: bool,
    accept_renaming: bool,
    no_input: bool,
) -> int:
    """Run RECIPE, a YAML or JSON file (`-`: standard input) or the address of an MLflow server.

    Exit status: 0 everything arrived; 1 the source or the service failed; 2 the command, the
    recipe or a limit is at fault; 3 metadata tests did not pass (--fail-on-tests); 4 some records
    were rejected; 130 interrupted. Where several hold, 2 goes before 1, 1 before 4, 4 before 3.
    """
    from mlcat_ingest.pipeline.pipeline import Pipeline
    from mlcat_ingest.pipeline.resolve import DEFAULT_CATALOG, embedded_sink
    from mlcat_ingest.recipe.dump import recipe_to_yaml

    settings = Settings.current()
    files = RunFiles(report_file, metrics_file, settings)
    gate = GateFile(fail_on_tests, junit_file, settings)
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
    with (
        stop_on_sigterm(),
        output.progress(quiet=settings.quiet, as_lines=as_lines) as progress,
    ):
        report = pipeline.run(
            progress,
            files.keep,
            full=full,
            accept_renaming=accept_renaming,
            gate=gate.options(resolved.recipe.name),
        )
    _tell(report, settings)
    failed = max(files.finish(report), gate.finish())
    if boxed and report.failure is None:
        settings.tell(f"To look at it: mlcat-ingest catalog serve --db {DEFAULT_CATALOG}")
    return report.exit_code if report.exit_code in _WORSE else failed or report.exit_code


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


def _tell(report: "Report", settings: Settings) -> None:
    from mlcat_ingest.pipeline.render import as_data, as_text

    failure = report.failure
    if failure is not None:
        cure = "" if failure.expected or settings.tracebacks else SEE_MORE
        settings.complain(f"{failure}{cure}", report.error)
    if settings.log_format == "json":
        output.out(_line(as_data(report)))
    elif report.records if failure else not (settings.quiet and report.exit_code == EXIT_OK):
        output.out(as_text(report, cause=False))


def _line(data: object) -> str:
    import json

    return json.dumps(data, ensure_ascii=False)
