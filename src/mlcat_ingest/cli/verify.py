"""`mlcat-ingest verify`: whether the catalog holds what the sources hold, apart from any run."""

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import OutputSettings, ReadingOptions, output_options
from mlcat_ingest.cli.plan import print_changes, print_json_line
from mlcat_ingest.core.operating_system import stop_on_sigterm


@click.command(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest verify recipe.yml\n"
    "  mlcat-ingest verify recipe.yml --json | tail -n 1"
)
@click.argument("recipe")
@click.option("--json", "as_json", is_flag=True, help="Print all changes and the summary as JSON.")
@output_options
def command(recipe: str, *, as_json: bool) -> int:
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
    with stop_on_sigterm(), settings.progress() as progress:
        verification = verify(resolved, progress)
    report = verification.report
    with verification:
        if report.failure is None and not report.interrupted:
            if as_json or settings.log_format == "json":
                print_changes(verification.differing())
                print_json_line(verification.data())
            else:
                output.out_lines(verification.lines(details=settings.verbosity > 0))
    settings.print_failure(report, "not verified: ")
    return verification.exit_code
