"""`mlcat-ingest retract`: takes back what a recipe wrote, after showing it and asking."""

from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.asking import agreed
from mlcat_ingest.cli.exit_codes import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.options import SEE_MORE, OutputSettings, say_options
from mlcat_ingest.cli.plan import print_entities, print_json, print_json_line
from mlcat_ingest.cli.reading import ReadingOptions
from mlcat_ingest.cli.signals import stop_on_sigterm

if TYPE_CHECKING:
    from mlcat_ingest.pipeline.report.report import Report
    from mlcat_ingest.workflows.plan.plan import Plan, Totals
    from mlcat_ingest.workflows.retract.retraction import Retraction


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest retract recipe.yml\n"
    "  mlcat-ingest retract recipe.yml --yes --json > taken-back.jsonl"
)
@click.argument("recipe")
@click.option("--to", metavar="URL", help="With an address: the catalog service it was written to.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line.")
@say_options
def command(recipe: str, to: str | None, *, yes: bool, as_json: bool) -> int:
    """Take back what RECIPE, a file or an address, wrote to its catalog, and only that.

    What is to go is shown first, as by `plan`, and asked about. Entries that the recipe added go,
    unless another recipe claims them too; single values go if they are still what it wrote; what
    others wrote stays, wherever it stands. An entity is marked as removed only where nothing of
    others remains on it. Then the recipe forgets what it remembered; its next run writes all anew.

    Tags, users, domains and other entities that were created only because something refers to them
    are left alone. What the recipe wrote is known from what it remembers and from a search of the
    catalog; where there is neither, nothing is done.

    Exit status: 0 it is gone, or there was nothing; 1 a side failed, a run is at work, or the
    answer was no; 2 the command or the recipe is at fault, or nobody is there to answer; 4 the
    catalog refused some; 130 interrupted.
    """
    from mlcat_ingest.workflows.ingest import Pipeline

    settings = OutputSettings.current()
    reading = ReadingOptions(recipe, to, None, full=False, accept_renaming=False, no_input=False)
    resolved, _ = reading.resolved(settings, "taking back from")
    as_json = as_json or settings.log_format == "json"
    with stop_on_sigterm(), Pipeline(resolved).retraction() as retraction:
        plan, totals = _shown(retraction, settings, as_json=as_json)
        if not totals.entities:
            settings.tell(f"Nothing of {resolved.recipe.name!r} is in the catalog.")
            return EXIT_OK
        question = f"Take this back from {totals.entities:,} entities of {plan.report.catalog}?"
        if not yes and not agreed(question):
            return EXIT_FAILED
        with _progress(settings) as progress:
            report = retraction.execute(progress)
    return _told(report, settings, as_json=as_json)


def _progress(settings: OutputSettings) -> "output.ShownProgress":
    return output.progress(quiet=settings.quiet, as_lines=settings.log_format == "json")


def _shown(
    retraction: "Retraction", settings: OutputSettings, *, as_json: bool
) -> "tuple[Plan, Totals]":
    from mlcat_ingest.workflows.plan.plan import Totals
    from mlcat_ingest.workflows.plan.render import Line, counts_lines

    with _progress(settings) as progress:
        plan = retraction.plan(progress)
    totals = Totals()
    if as_json:
        print_json(plan, totals)
        return plan, totals
    output.out_lines([Line(f"{plan.report.name}: to be taken back, nothing is written yet")])
    print_entities(plan.entities(), totals)
    output.out_lines(counts_lines(plan.report, totals))
    return plan, totals


def _told(report: "Report", settings: OutputSettings, *, as_json: bool) -> int:
    from mlcat_ingest.pipeline.report.render import as_data, retraction_text

    failure = report.failure
    if failure is not None:
        cure = "" if failure.expected or settings.tracebacks else SEE_MORE
        settings.complain(f"{failure}{cure}", report.error)
    if as_json:
        print_json_line({"kind": "report", **as_data(report)})
    elif not (settings.quiet and report.exit_code == EXIT_OK):
        output.out(retraction_text(report))
    return report.exit_code
