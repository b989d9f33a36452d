"""The command `mlcat-ingest`: finds the command, and turns every error into one clear line."""

import gc
import importlib
import io
import os
import re
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NoReturn, cast

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import QUIET, SEE_MORE, VERBOSE, OutputSettings
from mlcat_ingest.cli.output import exit_code_of
from mlcat_ingest.core.environment import require_posix
from mlcat_ingest.errors import MlcatError, interrupt_behind
from mlcat_ingest.pipeline.report.report import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK

COMMANDS: Final = {
    "run": ("run:command", "Run a recipe: read, merge, write, evaluate, report."),
    "plan": ("plan:command", "Show what a run would write; write nothing."),
    "explain": ("service:explain_command", "Show who wrote each entry of an entity."),
    "card": ("service:card", "Print the card of a model, each line with its source."),
    "when": ("service:when_command", "Show which version had an alias on a date."),
    "retract": ("plan:retract_command", "Undo everything that a recipe has written."),
    "check": ("check:command", "Test a recipe's connections; change nothing."),
    "verify": ("plan:verify_command", "Compare the catalog with the sources; change nothing."),
    "demo": ("demo:command", "Ingest a small example into a local catalog."),
    "init": ("init:command", "Write a commented starter recipe."),
    "schema": ("init:schema_command", "Print the JSON Schema of recipes."),
    "state": ("state:command", "Show or reset the state of a recipe."),
    "hooks": ("hooks:command", "Show or process pending events of run hooks."),
    "catalog": ("catalog:command", "Serve the embedded catalog; push metadata tests."),
    "get": ("service:get", "Print the stored aspects of an entity."),
    "query": ("service:query", "Send a GraphQL query to the catalog."),
    "evaluate": ("service:evaluate", "Evaluate metadata tests of entities."),
    "task": ("service:task", "Print the status of a search-index task."),
}
"""Each command: its module and its function there, and its line in the help."""

_RECIPE: Final = re.compile(
    r"-|.*\.(?:ya?ml|json)|[a-z][a-z0-9+.-]*://.*|databricks", re.IGNORECASE | re.DOTALL
)
_HOST: Final = re.compile(
    r"(?:localhost|[\w-]+(?:\.[\w-]+){2,}|(?:[\w.-]+|\[[0-9a-f:]+\]):\d+)(?:/.*)?", re.IGNORECASE
)
"""An address without a scheme."""

_OWN_FLAGS: Final = re.compile(r"-[vq]+|--verbose|--quiet|-h|--help|--version")


class Commands(click.Group):
    """The commands, imported when they are called; a recipe or an address means `run`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help."""
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported now."""
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][0].partition(":")
        imported = importlib.import_module(f"mlcat_ingest.cli.{module}")
        return cast("click.Command", getattr(imported, function))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read an option of `run` before the recipe as one of `run`."""
        at = next((i for i, arg in enumerate(args) if not _OWN_FLAGS.fullmatch(arg)), None)
        if at is not None and args[at].startswith("-") and args[at] != "-":
            args = [*args[:at], "run", *args[at:]]
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command of the first word.

        Raises:
            UsageError: it is neither a command nor looks like a recipe or an address.
        """
        word = args[0]
        if word not in COMMANDS:
            if not _RECIPE.fullmatch(word):
                ctx.fail(_no_such(word))
            args = ["run", *args]
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, importing none."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _no_such(word: str) -> str:
    shown = click.format_filename(word)
    nearest = [f"http://{shown}"] if _HOST.fullmatch(word) else []
    nearest += get_close_matches(word, COMMANDS, n=1, cutoff=0.5)
    meant = f" Did you mean '{nearest[0]}'?" if nearest else ""
    return (
        f"'{shown}' is not a command. Expected a command, a recipe file (.yml, .yaml, "
        f".json, -) or an MLflow URL.{meant}"
    )


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="RECIPE | URL | COMMAND [ARGS]...",
    epilog="Example: mlcat-ingest recipe.yml",
)
@click.version_option(
    package_name="mlcat-ingest",
    message="mlcat-ingest %(version)s",
    help="Print the version and exit.",
)
def cli() -> None:
    """Ingest MLflow runs and feature stores into a DataHub-compatible catalog.

    `mlcat-ingest recipe.yml` runs a recipe; `mlcat-ingest http://mlflow:5000` needs no recipe.
    """


cli.params += (QUIET, VERBOSE)


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its status."""
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Output never fails on a character.
            stream.reconfigure(errors="backslashreplace")
    code = call(args)
    if code == EXIT_INTERRUPTED and threading.active_count() > 1:
        # A request under way in a library's pool would keep the process for its whole timeout.
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError):  # the reader has closed it
                stream.flush()
        os._exit(code)
    # Python would look for garbage three times more, among all that ends with the process.
    gc.freeze()
    sys.exit(code)


def call(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status; every error is one message on stderr."""
    settings = OutputSettings()
    try:
        require_posix()
        result = cli.main(args, prog_name="mlcat-ingest", standalone_mode=False, obj=settings)
        sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("mlcat-ingest: interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        output.drop_stdout()
        return EXIT_OK
    except Exception as error:  # noqa: BLE001 - the border to the user
        if interrupt_behind(error) is not None:
            click.echo("mlcat-ingest: interrupted", err=True)
            return EXIT_INTERRUPTED
        if isinstance(error, MlcatError):
            settings.print_error(str(error), error)
            return exit_code_of(error)
        cure = "" if settings.tracebacks else SEE_MORE
        settings.print_error(f"unexpected {type(error).__name__}: {error}{cure}", error)
        return EXIT_FAILED
    return result if isinstance(result, int) else EXIT_OK


def _open_what_is_closed() -> None:
    """Redirect closed standard streams to the null device.

    Their numbers would else go to the first files and sockets that are opened.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - to the end
            setattr(sys, name, nowhere)
