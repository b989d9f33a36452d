"""`mlcat-ingest retract`: takes back what a recipe wrote, after showing it and asking."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_status import EXIT_FAILED, EXIT_OK, stop_on_sigterm
from mlcat_ingest.cli.options import OutputSettings, ReadingOptions, output_options, service_options
from mlcat_ingest.cli.output import confirm
from mlcat_ingest.cli.plan import print_entities, print_json, print_json_line

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report.report import Report
    from mlcat_ingest.workflows.plan import Plan, Totals
    from mlcat_ingest.workflows.retract import Retraction


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest retract recipe.yml\n"
    "  mlcat-ingest retract recipe.yml --yes --json > taken-back.jsonl\n"
    "  mlcat-ingest retract --recipe-name old-recipe --server http://datahub.example.com:8080"
)
@click.argument("recipe", required=False)
@click.option(
    "--recipe-name",
    metavar="NAME",
    help="Take back what the recipe of this name wrote, which need not exist any more.",
)
@click.option("--to", metavar="URL", help="With an address: the catalog service it was written to.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line.")
@service_options
@output_options
def command(
    recipe: str | None,
    recipe_name: str | None,
    to: str | None,
    server: str | None,
    token: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> int:
    """Take back what RECIPE, a file or an address, wrote to its catalog, and only that.

    First it shows what is to go, as `plan` does, and asks. Entries that the recipe added go,
    unless another recipe claims them too; single values go if they are still what it wrote; what
    others wrote stays, wherever it stands. An entity is marked as removed only where nothing of
    others remains on it. Then the recipe forgets what it remembered; its next run writes all anew.

    Tags, users, domains and other entities that were created only because something refers to them
    are left alone. The entities are known from what the recipe remembers and from a search of the
    catalog; where there is neither, nothing is done.

    With --recipe-name, and instead of RECIPE the address of the catalog (--server, --token), or
    RECIPE for its catalog and its state alone, it is what the recipe of that name wrote. All
    entities that the catalog says came from any recipe's source are read for that.

    Exit status: 0 it is gone, or there was nothing; 1 a side failed, a run is at work, or the
    answer was no; 2 the command or the recipe is at fault, or nobody is there to answer; 4 the
    catalog refused some; 130 interrupted.
    """
    if recipe_name == "":
        raise click.UsageError("--recipe-name is empty: give the name of a recipe")
    settings = OutputSettings.current()
    as_json = as_json or settings.log_format == "json"
    with (
        stop_on_sigterm(),
        _retraction(settings, recipe, recipe_name, to, server, token) as retraction,
    ):
        plan, totals = _show_plan(retraction, settings, as_json=as_json)
        if not totals.entities:
            settings.print_note(f"Nothing of {plan.report.name!r} is in the catalog.")
            return EXIT_OK
        question = f"Take this back from {totals.entities:,} entities of {plan.report.catalog}?"
        if not yes and not confirm(question):
            return EXIT_FAILED
        with settings.progress() as progress:
            report = retraction.execute(progress)
    return _print_report(report, settings, as_json=as_json)


def _retraction(
    settings: OutputSettings,
    recipe: str | None,
    recipe_name: str | None,
    to: str | None,
    server: str | None,
    token: str | None,
) -> "Retraction":
    """Return what takes back what the options name; nothing is contacted.

    Raises:
        UsageError: they do not go together.
        RecipeError: the recipe cannot be read, or the address is none.
    """
    if recipe is not None:
        from mlcat_ingest.workflows.ingest import Pipeline

        if server is not None or token is not None:
            raise click.UsageError("--server and --token do not go with RECIPE, which says both")
        reading = ReadingOptions(
            recipe, to, None, full=False, accept_renaming=False, no_input=False
        )
        resolved, _ = reading.resolve(settings, "taking back from")
        return Pipeline(resolved).retraction(recipe_name)
    if recipe_name is None:
        raise click.UsageError("name a RECIPE, or a recipe that no longer exists by --recipe-name")
    if to is not None:
        raise click.UsageError("--to goes with an address of MLflow; the catalog is --server")
    from mlcat_ingest.recipe.model import dead_letter_file
    from mlcat_ingest.recipe.secrets import mask
    from mlcat_ingest.workflows.resolve import service_sink
    from mlcat_ingest.workflows.retract import Retraction

    sink = service_sink(server, token).build()
    return Retraction(recipe_name, [], sink, None, dead_letter_file(Path.cwd(), recipe_name), mask)


def _show_plan(
    retraction: "Retraction", settings: OutputSettings, *, as_json: bool
) -> "tuple[Plan, Totals]":
    from mlcat_ingest.workflows.plan import Totals
    from mlcat_ingest.workflows.plan_render import Line, counts_lines

    with settings.progress() as progress:
        plan = retraction.plan(progress)
    totals = Totals()
    if as_json:
        print_json(plan, totals)
        return plan, totals
    output.out_lines([Line(f"{plan.report.name}: to be taken back, nothing is written yet")])
    print_entities(plan.entities(), totals)
    output.out_lines(counts_lines(plan.report, totals))
    return plan, totals


def _print_report(report: "Report", settings: OutputSettings, *, as_json: bool) -> int:
    from mlcat_ingest.pipeline.report.render import as_data, retraction_text

    settings.print_failure(report)
    if as_json:
        print_json_line({"kind": "report", **as_data(report)})
    elif not (settings.quiet and report.exit_code == EXIT_OK):
        output.out(retraction_text(report))
    return report.exit_code
