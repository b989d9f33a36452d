"""`mlcat-ingest retract`: takes back what a recipe wrote, after showing it and asking."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import OutputSettings, ReadingOptions, output_options, service_options
from mlcat_ingest.cli.output import confirm
from mlcat_ingest.cli.plan import print_entities, print_json, print_json_line
from mlcat_ingest.core.environment import stop_on_sigterm
from mlcat_ingest.core.text import plural
from mlcat_ingest.pipeline.report.report import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report.report import Report
    from mlcat_ingest.workflows.plan import Plan, Totals
    from mlcat_ingest.workflows.retract import Retraction


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest retract recipe.yml\n"
    "  mlcat-ingest retract recipe.yml --yes --json > retracted.jsonl\n"
    "  mlcat-ingest retract --recipe-name old-recipe --server http://datahub.example.com:8080"
)
@click.argument("recipe", required=False)
@click.option(
    "--recipe-name",
    metavar="NAME",
    help="Undo the writes of the recipe with this name; the recipe file may be deleted.",
)
@click.option(
    "--to", metavar="URL", help="With an MLflow URL: the catalog service that was written to."
)
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print all entities as JSON Lines.")
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
    """Undo everything that RECIPE, a file or an MLflow URL, has written to its catalog.

    The command shows the changes, as `plan` does, and asks for confirmation. Entries that the
    recipe added are deleted, unless another recipe claims them too. Single values are deleted if
    they are still those of the recipe. Changes by others are kept. An entity is soft-deleted if
    nothing of others remains on it. Then the state of the recipe is deleted; its next run writes
    everything again.

    Tags, users, domains and other entities that were created only as a reference are kept. The
    entities are found in the state of the recipe and by a search of the catalog; without either,
    the command changes nothing.

    With --recipe-name it undoes the writes of the recipe with that name. Instead of RECIPE, give
    the address of the catalog (--server, --token); a RECIPE is used only for its catalog and its
    state. The command then reads all entities that have a recipe's source.

    Exit status: 0 everything is retracted, or there was nothing to retract; 1 a side failed, a run
    is in progress, or the confirmation was declined; 2 invalid command or recipe, or no terminal
    for the confirmation; 4 the catalog refused some changes; 130 interrupted.
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
            settings.print_note(f"The catalog contains nothing of {plan.report.name!r}.")
            return EXIT_OK
        entities = plural(totals.entities, "entity", "entities")
        question = f"Retract {entities} from {plan.report.catalog}?"
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
            raise click.UsageError("--server and --token exclude RECIPE, which names both")
        resolved, _ = ReadingOptions(recipe, to).resolve(settings, "retracting from")
        return Pipeline(resolved).retraction(recipe_name)
    if recipe_name is None:
        raise click.UsageError("give a RECIPE, or --recipe-name for a recipe that no longer exists")
    if to is not None:
        raise click.UsageError("--to requires an address of MLflow; --server names the catalog")
    from mlcat_ingest.recipe.model import dead_letter_file
    from mlcat_ingest.recipe.secrets import mask
    from mlcat_ingest.workflows.resolve import service_sink
    from mlcat_ingest.workflows.retract import Retraction

    given = {"server": server, "token": token}
    sink = service_sink({key: value for key, value in given.items() if value is not None}).build()
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
    output.out_lines([Line(f"{plan.report.name}: to be retracted, nothing is written yet")])
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
