"""`mlcat-ingest plan`, `verify` (a plan of everything, summed up) and `retract`."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.files import fail_on_tests_option
from mlcat_ingest.cli.options import (
    Command,
    OutputSettings,
    ReadingOptions,
    adopt_option,
    reading_options,
    service_options,
)
from mlcat_ingest.cli.output import confirm
from mlcat_ingest.core.environment import stop_on_signals
from mlcat_ingest.core.text import plural
from mlcat_ingest.pipeline.report.report import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlcat_ingest.pipeline.report.report import Report
    from mlcat_ingest.workflows.plan_diff import EntityDiff
    from mlcat_ingest.workflows.retract import Retraction


@click.command(
    cls=Command,
    examples=[
        "plan recipe.yml",
        "plan recipe.yml --full --exit-code",
        "plan recipe.yml --fail-on-tests has-owner",
        "plan features.yml --impact",
        "plan recipe.yml --json | jq -r 'select(.field == \"removed\").urn'",
    ],
)
@reading_options
@click.option("--json", "as_json", is_flag=True, help="Print all changes as JSON Lines.")
@click.option("--exit-code", is_flag=True, help="Exit with status 5 if there is anything to write.")
@click.option(
    "--impact",
    is_flag=True,
    help="List the models that use a feature which would be removed; exit with status 5 if there "
    "are any.",
)
@fail_on_tests_option
def command(
    reading: ReadingOptions,
    fail_on_tests: re.Pattern[str] | None,
    **flags: bool,
) -> int:
    """Show what a run of RECIPE would write, field by field, without writing anything.

    The plan reads the same records as the run would: the changes since the last run, or everything
    with --full. The catalog and the state of the recipe do not change, and a run may be in progress
    at the same time. The output shows the first entities in full; --json prints every change, and a
    summary at the end.

    With --fail-on-tests the metadata tests are evaluated on the entities as the run would leave
    them, including unchanged ones. Their results are not stored.

    Exit status: 0 the plan was made, with or without changes; 5 there are changes (--exit-code), or
    a model is affected (--impact); 1 the source or the service failed; 2 invalid command or recipe,
    or a limit was reached; 3 metadata tests would not pass (--fail-on-tests); 130 interrupted.
    """
    return show_plan(reading, fail_on_tests, **flags)


def show_plan(
    reading: ReadingOptions,
    fail_on_tests: re.Pattern[str] | None = None,
    *,
    as_json: bool = False,
    exit_code: bool = False,
    impact: bool = False,
) -> int:
    """Make the plan of a recipe, print it, and return the exit status."""
    from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGateOptions
    from mlcat_ingest.workflows.ingest import Pipeline
    from mlcat_ingest.workflows.plan_render import (
        head_lines,
        impact_data,
        impact_lines,
        summary_data,
        total_lines,
    )

    settings = OutputSettings.current()
    as_json = as_json or settings.log_format == "json"
    resolved, _ = reading.resolve(settings, "comparing with")
    pipeline = Pipeline(resolved)
    affected = False
    with stop_on_signals():
        with settings.progress() as progress:
            plan = pipeline.plan(
                progress,
                full=reading.full,
                accept_renaming=reading.accept_renaming,
                adopt_since_ms=reading.adopt_since_ms,
                gate=None if fail_on_tests is None else QualityGateOptions(fail_on_tests),
            )
        with plan:
            impacts = pipeline.impacts(plan) if impact and plan.report.failure is None else ()
            if not as_json:
                output.out_lines(head_lines(plan.report))
            _print_entities(plan.entities(), as_json=as_json)
            for one in impacts:
                affected |= one.models > 0
                output.out_either(impact_data(one), impact_lines(one), as_json=as_json)
            output.out_either(summary_data(plan), total_lines(plan), as_json=as_json)
    settings.print_failure(plan.report, "a run would fail here: ")
    return plan.exit_code(tell_pending=exit_code, affects_models=affected)


def _print_entities(entities: "Iterator[EntityDiff]", *, as_json: bool) -> None:
    """Print the first entities in full, and count the others; as JSON, each change in them."""
    from mlcat_ingest.workflows.plan_render import change_data, first_entity_lines

    if not as_json:
        output.out_lines(first_entity_lines(entities))
        return
    for entity in entities:
        for data in change_data(entity):
            output.out_json_line(data)


@click.command(cls=Command, examples=["verify recipe.yml", "verify recipe.yml --json | tail -n 1"])
@click.argument("recipe")
@click.option("--json", "as_json", is_flag=True, help="Print all changes and the summary as JSON.")
def verify_command(recipe: str, *, as_json: bool) -> int:
    """Compare the catalog with all that the sources have, and change nothing.

    A full plan that ignores the state and the limits of the recipe is made and summed up: entities
    that are missing, stale or to be removed. Entities that are stored and live should be found by
    a search of the catalog; the others are counted as not searchable. The output shows the first
    entities that differ, and with -v the counts where none does; --json prints every change as
    `plan` does, and the summary at the end.

    Exit status: 0 the catalog has everything; 4 something differs, or could not be compared; 1 a
    side failed; 2 invalid command or recipe; 130 interrupted.
    """
    from mlcat_ingest.workflows.verify import verify

    settings = OutputSettings.current()
    reading = ReadingOptions(recipe, full=True, accept_renaming=True)
    resolved, _ = reading.resolve(settings, "comparing with")
    with stop_on_signals(), settings.progress() as progress:
        verification = verify(resolved, progress)
    report = verification.report
    with verification:
        if report.failure is None and not report.interrupted:
            if as_json or settings.log_format == "json":
                _print_entities(verification.differing(), as_json=True)
                output.out_json_line(verification.data())
            else:
                output.out_lines(verification.lines(details=settings.verbosity > 0))
    settings.print_failure(report, "not verified: ")
    return verification.exit_code


@click.command(
    cls=Command,
    examples=[
        "retract recipe.yml",
        "retract recipe.yml --yes --json > retracted.jsonl",
        "retract --recipe-name old-recipe --server http://datahub.example.com:8080",
    ],
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
@adopt_option
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.option("--json", "as_json", is_flag=True, help="Print all entities as JSON Lines.")
@service_options
def retract_command(*, yes: bool, as_json: bool, **named: Any) -> int:
    """Undo everything that RECIPE, a file or an MLflow URL, has written to its catalog.

    The command shows the changes, as `plan` does, and asks for confirmation. Entries that the
    recipe added are deleted, unless another recipe claims them too. Single values are deleted if
    they are still those of the recipe. Changes by others are kept. An entity is soft-deleted if
    nothing of others remains on it. Then the state of the recipe is deleted; its next run writes
    everything again.

    Tags, users, domains and other entities that were created only as a reference are kept. The
    entities are found in the state of the recipe and by a search of the catalog; without either,
    the command changes nothing.

    What another state wrote under the name of RECIPE is kept, see --adopt.

    With --recipe-name it undoes all writes under that name. Instead of RECIPE, give
    the address of the catalog (--server, --token); a RECIPE is used only for its catalog and its
    state. The command then reads all entities that have a recipe's source.

    Exit status: 0 everything is retracted, or there was nothing to retract; 1 a side failed, a run
    is in progress, or the confirmation was declined; 2 invalid command or recipe, or no terminal
    for the confirmation; 4 the catalog refused some changes; 130 interrupted.
    """
    from mlcat_ingest.workflows.plan_render import Line, counts_lines, summary_data

    settings = OutputSettings.current()
    as_json = as_json or settings.log_format == "json"
    with stop_on_signals(), _retraction(settings, **named) as retraction:
        with settings.progress() as progress:
            plan = retraction.plan(progress)
        if not as_json:
            output.out_lines([Line(f"{plan.report.name}: to be retracted, nothing is written yet")])
        _print_entities(plan.entities(), as_json=as_json)
        output.out_either(summary_data(plan), counts_lines(plan), as_json=as_json)
        if not plan.totals.entities:
            settings.print_note(f"The catalog contains nothing of {plan.report.name!r}.")
            return EXIT_OK
        entities = plural(plan.totals.entities, "entity", "entities")
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
    adopt_since_ms: int | None,
) -> "Retraction":
    """Return what takes back what the options name; nothing is contacted.

    Raises:
        UsageError: they do not go together.
        RecipeError: the recipe cannot be read, or the address is none.
    """
    if recipe_name == "":
        raise click.UsageError("--recipe-name is empty: give the name of a recipe")
    if recipe is not None:
        from mlcat_ingest.workflows.ingest import Pipeline

        if server is not None or token is not None:
            raise click.UsageError("--server and --token exclude RECIPE, which names both")
        resolved, _ = ReadingOptions(recipe, to).resolve(settings, "retracting from")
        return Pipeline(resolved).retraction(recipe_name, adopt_since_ms)
    if recipe_name is None:
        raise click.UsageError("give a RECIPE, or --recipe-name for a recipe that no longer exists")
    if to is not None:
        raise click.UsageError("--to requires an address of MLflow; --server names the catalog")
    from mlcat_ingest.recipe.model import dead_letter_file
    from mlcat_ingest.workflows.resolve import service_sink
    from mlcat_ingest.workflows.retract import Retraction

    given = {"server": server, "token": token}
    sink = service_sink({key: value for key, value in given.items() if value is not None}).build()
    return Retraction(recipe_name, [], sink, None, dead_letter_file(Path.cwd(), recipe_name))


def _print_report(report: "Report", settings: OutputSettings, *, as_json: bool) -> int:
    from mlcat_ingest.pipeline.report.render import as_data, retraction_text

    settings.print_failure(report)
    if as_json:
        output.out_json_line({"kind": "report", **as_data(report)})
    elif not (settings.quiet and report.exit_code == EXIT_OK):
        output.out(retraction_text(report))
    return report.exit_code
