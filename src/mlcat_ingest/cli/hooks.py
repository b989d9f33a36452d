"""`mlcat-ingest hooks`: the spool of run hooks, looked at and drained."""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import (
    ADDRESS,
    Command,
    OutputSettings,
    ReadSecret,
    listening_options,
    read_recipe,
    secret_option,
)
from mlcat_ingest.core.environment import local_path, stop_on_signals
from mlcat_ingest.core.text import utc_second
from mlcat_ingest.hooks.settings import HookSettings, spool_of
from mlcat_ingest.hooks.spool import EventSpool, read_lines
from mlcat_ingest.pipeline.report.report import EXIT_OK

if TYPE_CHECKING:
    from mlcat_ingest.hooks.drain import DrainResult
    from mlcat_ingest.workflows.resolve import ResolvedRecipe

spool_option = click.option(
    "--spool",
    type=click.Path(path_type=Path, file_okay=False),
    envvar="MLCAT_SPOOL",
    metavar="DIR",
    help="Spool folder of the run hooks. Default: MLCAT_SPOOL, then .mlcat/spool beside the "
    "recipe.",
)


def _path_of(recipe: str) -> str:
    # A shell expands `~` in an argument, but nothing does in a variable.
    if ADDRESS.match(recipe) and not recipe.startswith("file:"):
        return recipe
    path = local_path(recipe)
    return recipe if path.is_dir() else str(path)  # the folder of an MLflow store


recipe_argument = click.argument("recipe", envvar="MLCAT_RECIPE", type=_path_of)


@click.group(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest hooks status recipe.yml\n"
    "  mlcat-ingest hooks drain recipe.yml"
)
def command() -> None:
    """Show or drain the spool, the folder of events that are not in the catalog yet."""


@command.command(cls=Command, examples=["hooks status recipe.yml --json"])
@recipe_argument
@spool_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(recipe: str, spool: Path | None, *, as_json: bool) -> None:
    """Show the pending and the dropped events in the spool of RECIPE, a file or an MLflow URL.

    The default of RECIPE is MLCAT_RECIPE.

    Exit status: 0 with or without pending events; 2 invalid recipe.
    """
    read_recipe(recipe)
    events = EventSpool(spool_of(recipe, str(spool or "")))
    facts = {
        "spool": str(events.folder),
        "waiting": events.pending(),
        "for_others": sum(
            bool(event.recipe) and not event.is_for(recipe) for event in events.events()
        ),
        "oldest_ms": events.oldest_ms(),
        "draining": events.is_draining(),
        "dropped": len(read_lines(events.dropped_file)),
        "refused": len(read_lines(events.refused_file)),
        "last_failure": events.backoff.reason(),
    }
    if as_json:
        output.out_json(facts)
        return
    since = ""
    if (oldest_ms := events.oldest_ms()) is not None:
        since = f", the oldest since {utc_second(oldest_ms)}"
    output.out(f"{facts['spool']}\n  waiting   {facts['waiting']}{since}")
    for name, line in (
        ("for_others", "  of these  {} for recipes with other names"),
        ("draining", "  a drain is running"),
        ("last_failure", "  the last background drain failed: {}"),
        ("refused", "  refused   {}, see refused.jsonl; every drain retries them"),
        ("dropped", "  dropped   {}, see dropped.jsonl; scheduled runs read them"),
    ):
        if facts[name]:
            output.out(line.format(facts[name]))


@command.command(cls=Command, examples=["hooks drain recipe.yml --spool /var/spool/mlcat"])
@recipe_argument
@click.option("--to", metavar="URL", help="With an MLflow URL: the catalog service to write to.")
@spool_option
@click.option("--follow", is_flag=True, help="Drain events as they come, until Ctrl-C or SIGTERM.")
def drain(recipe: str, to: str | None, spool: Path | None, *, follow: bool) -> int:
    """Ingest the runs and registered models whose events are in the spool of RECIPE.

    RECIPE is a file or an MLflow URL, by default MLCAT_RECIPE. A run of RECIPE may be in progress
    at the same time.

    Exit status: that of a run, with --follow 0; events of what did not arrive remain in the spool.
    """
    events, settings = EventSpool(spool_of(recipe, str(spool or ""))), OutputSettings.current()
    with stop_on_signals():
        from mlcat_ingest.hooks.drain import RETRY_BRIEFLY, drain_spool, follow_spool, with_options

        def load() -> "ResolvedRecipe":
            return with_options(read_recipe(recipe, to), RETRY_BRIEFLY)

        resolved = load()
        if follow:
            with suppress(KeyboardInterrupt):
                follow_spool(load, events, recipe, lambda result: print_drain(result, settings))
            return EXIT_OK
        result = drain_spool(resolved, events, recipe)
    print_drain(result, settings)
    return result.summary.exit_code


@command.command(cls=Command, examples=["hooks serve recipe.yml --port 8081"])
@recipe_argument
@spool_option
@listening_options(8081)
@secret_option(
    "secret",
    "MLCAT_WEBHOOK_SECRET",
    "Secret of the webhook in MLflow. Other users of this machine can see it in the process list: "
    "prefer MLCAT_WEBHOOK_SECRET or a file.",
    "File with that secret.",
)
def serve(recipe: str, spool: Path | None, host: str, port: int, secret: ReadSecret) -> int:
    """Receive webhooks of MLflow, as events for RECIPE, until Ctrl-C.

    The default of RECIPE is MLCAT_RECIPE. Drains start as on a server with the hook.
    """
    from mlcat_ingest.hooks.listener import Listener
    from mlcat_ingest.hooks.webhooks import Webhooks, serve_webhooks

    if not secret():
        raise click.UsageError("no secret of the webhook; set MLCAT_WEBHOOK_SECRET")
    if ADDRESS.match(recipe):
        raise click.UsageError("webhooks are received for a recipe, which has to be a file")
    read_recipe(recipe)
    folder = spool_of(recipe, str(spool or ""))
    settings = HookSettings.of({**os.environ, "MLCAT_RECIPE": recipe, "MLCAT_SPOOL": str(folder)})
    with stop_on_signals(), suppress(KeyboardInterrupt):
        webhooks = Webhooks(secret, Listener(settings))
        shown = "receiving webhooks at {} (Ctrl-C stops it)"
        serve_webhooks(webhooks, host, port, lambda address: output.out(shown.format(address)))
    return EXIT_OK


def print_drain(result: "DrainResult", settings: OutputSettings) -> None:
    """Print the outcome of a drain."""
    from mlcat_ingest.pipeline.report.render import hooks_line

    if result.report is not None:
        refused = f"the catalog refused some proposals, see {result.report.dead_letter_file}"
        settings.print_error(f"hooks: {result.report.failure or refused}", result.report.error)
    settings.print_note(f"hooks: {hooks_line(result.summary)}")
