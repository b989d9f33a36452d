"""`mlcat-ingest hooks`: the spool of run hooks, looked at and drained."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import OutputSettings, say_options
from mlcat_ingest.cli.reading import read_recipe
from mlcat_ingest.cli.signals import stop_on_sigterm
from mlcat_ingest.hooks.settings import spool_of
from mlcat_ingest.hooks.spool import EventSpool

if TYPE_CHECKING:
    from mlcat_ingest.hooks.drain import Drained
    from mlcat_ingest.workflows.resolve import Resolved

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
@say_options
def status(recipe: str, spool: Path | None, *, as_json: bool) -> None:
    """Show what waits in the spool of RECIPE, a file or an address, and what was dropped.

    RECIPE is that of MLCAT_RECIPE where none is given.

    Exit status: 0, also where nothing waits; 2 the recipe is at fault.
    """
    read_recipe(recipe)
    found = EventSpool(spool_of(recipe, str(spool or "")))
    told = {
        "spool": str(found.folder),
        "waiting": found.pending(),
        "for_others": found.count(lambda event: bool(event.recipe) and not event.is_for(recipe)),
        "oldest_ms": found.oldest_ms(),
        "draining": found.is_draining(),
        "dropped": len(found.dropped()),
        "refused": len(found.refused()),
        "last_failure": found.why_paused(),
    }
    if as_json:
        output.out(json.dumps(told, indent=2, ensure_ascii=False))
        return
    output.out(f"{told['spool']}")
    output.out(f"  waiting   {told['waiting']}{_since(found.oldest_ms())}")
    if told["for_others"]:
        output.out(f"  of these  {told['for_others']} for recipes of other names")
    if told["draining"]:
        output.out("  a drain is at work")
    if told["last_failure"]:
        output.out(f"  the last background drain failed: {told['last_failure']}")
    if told["refused"]:
        output.out(f"  refused   {told['refused']}, see refused.jsonl; each drain tries again")
    if told["dropped"]:
        output.out(f"  dropped   {told['dropped']}, see dropped.jsonl; scheduled runs read them")


@command.command(
    epilog="\b\nExample:\n  mlcat-ingest hooks drain recipe.yml --spool /var/spool/mlcat"
)
@recipe_argument
@click.option("--to", metavar="URL", help="With an address: the catalog service to write to.")
@spool_option
@say_options
def drain(recipe: str, to: str | None, spool: Path | None) -> int:
    """Bring the runs that wait in the spool of RECIPE, a file or an address, into the catalog.

    RECIPE is that of MLCAT_RECIPE where none is given. It can be beside a run of RECIPE at work.

    Exit status: as that of a run; what did not arrive stays in the spool.
    """
    found = EventSpool(spool_of(recipe, str(spool or "")))
    with stop_on_sigterm():
        drained = drained_spool(read_recipe(recipe, to), recipe, found)
    settings = OutputSettings.current()
    tell(drained, settings)
    return drained.exit_code


def drained_spool(resolved: "Resolved", recipe: str, spool: EventSpool) -> "Drained":
    """Drain what is for this recipe; a spool that is not there is an empty one.

    Raises:
        MlcatError: the spool cannot be used, or the recipe has no sink.
    """
    from mlcat_ingest.hooks.drain import Drained, drain_into, wanted_by

    if not spool.pending():
        return Drained()
    drained = drain_into(resolved, spool, wanted_by(resolved, recipe))
    if drained.report is None and not drained.busy:
        spool.resume()
    return drained


def tell(drained: "Drained", settings: OutputSettings) -> None:
    """Say what came of a drain."""
    from mlcat_ingest.pipeline.report.render import hooks_line

    if drained.report is not None:
        refused = f"something was refused, see {drained.report.dead_letter_file}"
        settings.complain(f"hooks: {drained.report.failure or refused}", drained.report.error)
    settings.tell(f"hooks: {hooks_line(drained.summary())}")


def _since(oldest_ms: int | None) -> str:
    if oldest_ms is None:
        return ""
    oldest = datetime.fromtimestamp(oldest_ms / 1000, UTC)
    return f", the oldest since {oldest:%Y-%m-%d %H:%M:%S} UTC"
