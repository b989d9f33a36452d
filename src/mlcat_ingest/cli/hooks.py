"""`mlcat-ingest hooks`: the spool of run hooks, looked at and drained."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_status import stop_on_sigterm
from mlcat_ingest.cli.options import OutputSettings, output_options, read_recipe
from mlcat_ingest.hooks.settings import spool_of
from mlcat_ingest.hooks.spool import EventSpool, read_lines

if TYPE_CHECKING:
    from mlcat_ingest.hooks.drain import DrainResult

spool_option = click.option(
    "--spool",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="MLCAT_SPOOL",
    metavar="DIR",
    help="Spool of run hooks. Default: MLCAT_SPOOL, else .mlcat/spool beside the recipe.",
)

recipe_argument = click.argument("recipe", envvar="MLCAT_RECIPE")


@click.group(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest hooks status recipe.yml\n"
    "  mlcat-ingest hooks drain recipe.yml"
)
def command() -> None:
    """Show or drain the spool, where run hooks keep events until the catalog knows of them."""


@command.command(epilog="\b\nExample:\n  mlcat-ingest hooks status recipe.yml --json")
@recipe_argument
@spool_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@output_options
def status(recipe: str, spool: Path | None, *, as_json: bool) -> None:
    """Show what waits in the spool of RECIPE, a file or an address, and what was dropped.

    RECIPE is that of MLCAT_RECIPE where none is given.

    Exit status: 0, also where nothing waits; 2 the recipe is at fault.
    """
    read_recipe(recipe)
    found = EventSpool(spool_of(recipe, str(spool or "")))
    facts = {
        "spool": str(found.folder),
        "waiting": found.pending(),
        "for_others": sum(
            bool(event.recipe) and not event.is_for(recipe) for event in found.events()
        ),
        "oldest_ms": found.oldest_ms(),
        "draining": found.is_draining(),
        "dropped": len(read_lines(found.dropped_file)),
        "refused": len(read_lines(found.refused_file)),
        "last_failure": found.backoff.reason(),
    }
    if as_json:
        output.out_json(facts)
        return
    output.out(f"{facts['spool']}\n  waiting   {facts['waiting']}{_since(found.oldest_ms())}")
    for name, line in (
        ("for_others", "  of these  {} for recipes of other names"),
        ("draining", "  a drain is at work"),
        ("last_failure", "  the last background drain failed: {}"),
        ("refused", "  refused   {}, see refused.jsonl; each drain tries again"),
        ("dropped", "  dropped   {}, see dropped.jsonl; scheduled runs read them"),
    ):
        if facts[name]:
            output.out(line.format(facts[name]))


@command.command(
    epilog="\b\nExample:\n  mlcat-ingest hooks drain recipe.yml --spool /var/spool/mlcat"
)
@recipe_argument
@click.option("--to", metavar="URL", help="With an address: the catalog service to write to.")
@spool_option
@output_options
def drain(recipe: str, to: str | None, spool: Path | None) -> int:
    """Bring the runs that wait in the spool of RECIPE, a file or an address, into the catalog.

    RECIPE is that of MLCAT_RECIPE where none is given. It can be beside a run of RECIPE at work.

    Exit status: as that of a run; what did not arrive stays in the spool.
    """
    found = EventSpool(spool_of(recipe, str(spool or "")))
    with stop_on_sigterm():
        from mlcat_ingest.hooks.drain import drain_spool

        result = drain_spool(read_recipe(recipe, to), found, recipe)
    print_drain(result, OutputSettings.current())
    return result.exit_code


def print_drain(result: "DrainResult", settings: OutputSettings) -> None:
    """Print the outcome of a drain."""
    from mlcat_ingest.pipeline.report.render import hooks_line

    if result.report is not None:
        refused = f"something was refused, see {result.report.dead_letter_file}"
        settings.print_error(f"hooks: {result.report.failure or refused}", result.report.error)
    settings.print_note(f"hooks: {hooks_line(result.summary())}")


def _since(oldest_ms: int | None) -> str:
    if oldest_ms is None:
        return ""
    oldest = datetime.fromtimestamp(oldest_ms / 1000, UTC)
    return f", the oldest since {oldest:%Y-%m-%d %H:%M:%S} UTC"
