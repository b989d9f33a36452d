"""`mlcat-ingest plan`: what a run would write, entity by entity, with nothing written."""

import json
from itertools import islice
from typing import TYPE_CHECKING, Final

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import SEE_MORE, OutputSettings, say_options
from mlcat_ingest.cli.reading import ReadingOptions, reading_options
from mlcat_ingest.cli.signals import stop_on_sigterm
from mlcat_ingest.core.text import plural

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mlcat_ingest.pipeline.report.report import Report
    from mlcat_ingest.workflows.plan.diff import EntityDiff
    from mlcat_ingest.workflows.plan.plan import Plan, Totals

SHOWN: Final = 20
"""Entities that are shown in full; the others are counted."""


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest plan recipe.yml\n"
    "  mlcat-ingest plan recipe.yml --full --exit-code\n"
    "  mlcat-ingest plan recipe.yml --json | jq -r 'select(.action == \"remove\").urn'"
)
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object a line, all of them.")
@click.option("--exit-code", is_flag=True, help="End with 5 where there is something to write.")
@say_options
def command(reading: ReadingOptions, *, as_json: bool, exit_code: bool) -> int:
    """Show what a run of RECIPE would write, field by field, and write nothing anywhere.

    It reads what that run would read: what changed since the last one, or with --full everything.
    Neither the catalog nor what the recipe remembers is touched, and a run at work is not in the
    way. The first entities are shown in full; --json prints them all, and a summary as the last.

    Exit status: 0, also where there is something to write; 5 there with --exit-code; 1 the source
    or the service failed; 2 the command, the recipe or a limit is at fault; 130 interrupted.
    """
    return show_plan(reading, as_json=as_json, exit_code=exit_code)


def show_plan(reading: ReadingOptions, *, as_json: bool = False, exit_code: bool = False) -> int:
    """Make the plan of a recipe, print it, and return the exit status."""
    from mlcat_ingest.workflows.ingest import Pipeline
    from mlcat_ingest.workflows.plan.plan import Totals, exit_code_of_plan

    settings = OutputSettings.current()
    as_lines = settings.log_format == "json"
    pipeline = Pipeline(reading.resolved(settings, "comparing with")[0])
    with stop_on_sigterm():
        with output.progress(quiet=settings.quiet, as_lines=as_lines) as progress:
            plan = pipeline.plan(
                progress, full=reading.full, accept_renaming=reading.accept_renaming
            )
        totals = Totals(plan.batch_size)
        with plan:
            (print_json if as_json or as_lines else _print_text)(plan, totals)
    _complain(plan.report, settings)
    return exit_code_of_plan(plan.report, totals, tell_pending=exit_code)


def print_json(plan: "Plan", totals: "Totals") -> None:
    """Print a JSON object for each entity, and the summary as the last."""
    from mlcat_ingest.workflows.plan.render import entity_data, summary_data

    for one in _counted(plan.entities(), totals):
        print_json_line(entity_data(one))
    print_json_line(summary_data(plan.report, totals))


def _print_text(plan: "Plan", totals: "Totals") -> None:
    from mlcat_ingest.workflows.plan.render import head_lines, total_lines

    output.out_lines(head_lines(plan.report))
    print_entities(plan.entities(), totals)
    output.out_lines(total_lines(plan.report, totals))


def print_entities(entities: "Iterator[EntityDiff]", totals: "Totals") -> None:
    """Print the first entities in full, and count them all."""
    from mlcat_ingest.workflows.plan.render import Line, entity_lines

    passing = _counted(entities, totals)
    for one in islice(passing, SHOWN):
        output.out_lines(entity_lines(one))
    more = sum(1 for _ in passing)
    if more:
        others = plural(more, "more entity", "more entities")
        output.out_lines([Line(f"… and {others}, see --json")])


def _counted(entities: "Iterable[EntityDiff]", totals: "Totals") -> "Iterator[EntityDiff]":
    for one in entities:
        totals.add(one)
        yield one


def print_json_line(data: object) -> None:
    """Print a JSON object on a line, secrets hidden."""
    from mlcat_ingest.recipe.secrets import mask

    output.out(mask(json.dumps(data, ensure_ascii=False)))


def _complain(report: "Report", settings: OutputSettings) -> None:
    failure = report.failure
    if failure is None:
        return
    cure = "" if failure.expected or settings.tracebacks else SEE_MORE
    settings.complain(f"a run would end here: {failure}{cure}", report.error)
