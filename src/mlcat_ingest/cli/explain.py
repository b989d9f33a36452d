"""`mlcat-ingest explain`: who wrote each entry of an entity."""

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import (
    OutputSettings,
    ReadingOptions,
    checked_urn,
    connect,
    output_options,
    service_options,
)
from mlcat_ingest.cli.plan import print_json_line
from mlcat_ingest.cli.service import aspects_of
from mlcat_ingest.pipeline.report.report import EXIT_OK


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest explain 'urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,iris,PROD)'\n"
    "  mlcat-ingest explain --recipe recipe.yml --json 'urn:li:mlModel:(…)'"
)
@click.argument("urn", type=checked_urn)
@click.option("--recipe", metavar="RECIPE", help="Read the catalog of this recipe.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
@service_options
@output_options
def command(
    urn: str, recipe: str | None, server: str | None, token: str | None, *, as_json: bool
) -> int:
    """Show who wrote each entry of the entity URN, and from which record.

    An entry belongs to a recipe if the recipe's base on the entity claims it. Other entries were
    written by a person or another tool, or are computed by the catalog. Nothing is written.
    `plan` shows the effect of a recipe's next run.

    Exit status: 0 the entity was found; 1 the catalog does not have the entity, or it failed; 2
    invalid command or recipe; 130 interrupted.
    """
    from mlcat_ingest.workflows.explain import (
        explain,
        explain_in_sink,
        explanation_data,
        explanation_lines,
    )
    from mlcat_ingest.workflows.ingest import Pipeline

    settings = OutputSettings.current()
    names = aspects_of(urn)
    name: str | None = None
    if recipe is None:
        with connect(server, token) as client:
            explanation = explain(client, urn, names)
    elif server is not None or token is not None:
        raise click.UsageError("--server and --token exclude --recipe, which names both")
    else:
        resolved, _ = ReadingOptions(recipe).resolve(settings, "reading")
        name = resolved.recipe.name
        explanation = explain_in_sink(Pipeline(resolved).build_sink(), urn, names)
    if as_json or settings.log_format == "json":
        print_json_line(explanation_data(explanation))
    else:
        output.out_lines(explanation_lines(explanation, name))
    return EXIT_OK
