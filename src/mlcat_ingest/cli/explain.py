"""`mlcat-ingest explain`: who wrote each entry of an entity, and what the next run would do."""

from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_status import EXIT_OK, stop_on_sigterm
from mlcat_ingest.cli.options import (
    URN,
    OutputSettings,
    ReadingOptions,
    connect,
    output_options,
    service_options,
)
from mlcat_ingest.cli.plan import print_json_line
from mlcat_ingest.cli.service import aspects_of

if TYPE_CHECKING:
    from mlcat_ingest.workflows.explain import Explanation


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest explain 'urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,iris,PROD)'\n"
    "  mlcat-ingest explain --recipe recipe.yml --json 'urn:li:mlModel:(…)'"
)
@click.argument("urn", type=URN)
@click.option("--recipe", metavar="RECIPE", help="Also show the effect of the recipe's next run.")
@click.option(
    "--full",
    is_flag=True,
    help="With --recipe: the next run is a full one, regardless of state.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@service_options
@output_options
def command(
    urn: str,
    recipe: str | None,
    server: str | None,
    token: str | None,
    *,
    full: bool,
    as_json: bool,
) -> int:
    """Show who wrote each entry of the entity URN, when, and from which record.

    An entry belongs to a recipe if the recipe's base on the entity claims it. For other entries the
    output shows the catalog's record of the write: actor, run id, client.

    With --recipe, a file or an MLflow URL, the catalog is that of the recipe, and a plan of its
    next run shows the effect on each entry. The plan takes as long as `plan` does. Nothing is
    written.

    Exit status: 0 the entity was found; 1 the catalog does not have the entity, or a side failed; 2
    invalid command or recipe; 130 interrupted.
    """
    from mlcat_ingest.workflows.explain import explain

    settings = OutputSettings.current()
    as_json = as_json or settings.log_format == "json"
    if recipe is not None:
        if server is not None or token is not None:
            raise click.UsageError("--server and --token do not go with --recipe, which says both")
        return _explain_with_recipe(urn, recipe, settings, full=full, as_json=as_json)
    if full:
        raise click.UsageError("--full goes with --recipe")
    names = aspects_of(urn)
    with connect(server, token) as client:
        explanation = explain(client, urn, names)
    _print(explanation, as_json=as_json)
    return EXIT_OK


def _explain_with_recipe(
    urn: str, recipe: str, settings: OutputSettings, *, full: bool, as_json: bool
) -> int:
    from mlcat_ingest.workflows.explain import explain_in_sink, with_next_run
    from mlcat_ingest.workflows.ingest import Pipeline
    from mlcat_ingest.workflows.plan import Totals, exit_code_of_plan

    names = aspects_of(urn)
    reading = ReadingOptions(recipe, None, None, full=full, accept_renaming=False, no_input=False)
    pipeline = Pipeline(reading.resolve(settings, "reading")[0])
    with stop_on_sigterm():
        explanation = explain_in_sink(pipeline.build_sink(), urn, names)
        with settings.progress() as progress:
            plan = pipeline.plan(progress, full=full)
        with plan:
            code = exit_code_of_plan(plan.report, Totals(), tell_pending=False)
            if code == EXIT_OK:
                explanation = with_next_run(explanation, plan)
    _print(explanation, as_json=as_json)
    settings.print_failure(plan.report, "the effect of the next run is unknown: ")
    return code


def _print(explanation: "Explanation", *, as_json: bool) -> None:
    from mlcat_ingest.workflows.explain_render import explanation_data, explanation_lines

    if as_json:
        print_json_line(explanation_data(explanation))
    else:
        output.out_lines(explanation_lines(explanation))
