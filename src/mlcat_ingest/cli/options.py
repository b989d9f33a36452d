"""Options that commands share, and what they set."""

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar

import click

from mlcat_ingest.cli import logs
from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import InvalidUrnError
from mlcat_ingest.recipe.secrets import mask

if TYPE_CHECKING:
    from mlcat_ingest.client.catalog_client import CatalogClient

log = logging.getLogger("mlcat_ingest.cli")

P = ParamSpec("P")
R = TypeVar("R")

SEE_MORE: Final = "; -vv shows where it comes from"
"""What follows on an error that nobody expected."""

LogFormat = Literal["text", "json"]


@dataclass
class OutputSettings:
    """How much a command says, and in which form; one a process."""

    verbosity: int = 0
    quiet: bool = False
    log_format: LogFormat = "text"

    @property
    def tracebacks(self) -> bool:
        """Whether the user wants to see where errors come from."""
        return self.verbosity > 1

    def start_logging(self) -> None:
        """Send log records to stderr as these settings say."""
        logs.set_up(self.verbosity, quiet=self.quiet, log_format=self.log_format)

    def tell(self, text: str) -> None:
        """Say something to who watches; nothing if the command is to be quiet."""
        if self.log_format == "json":
            log.info("%s", text)
        elif not self.quiet:
            click.echo(text, err=True)

    def complain(self, message: str, error: BaseException | None = None) -> None:
        """Say what went wrong, one line a problem; and where, if that is wanted."""
        shown = error if self.tracebacks else None
        if self.log_format == "json":
            self.start_logging()
            log.error("%s", message, exc_info=shown)
            return
        if shown is not None:
            click.echo(logs.traceback_of(shown), err=True)
        lines = (printable(mask(line)) for line in message.split("\n"))
        click.echo("mlcat-ingest: " + "\n".join(lines), err=True)

    @classmethod
    def current(cls) -> "OutputSettings":
        """Return the settings of the command that runs."""
        return click.get_current_context().ensure_object(cls)


def _verbose(context: click.Context, _: click.Parameter, count: int) -> None:
    context.ensure_object(OutputSettings).verbosity += count


def _quiet(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's
    context.ensure_object(OutputSettings).quiet |= value


def _log_format(context: click.Context, _: click.Parameter, value: LogFormat | None) -> None:
    if value is not None:
        context.ensure_object(OutputSettings).log_format = value


def say_options(command: Callable[P, R]) -> Callable[P, R]:
    """Add -v, -q and --log-format, and set up logging before the command starts."""

    @functools.wraps(command)
    def started(*args: P.args, **kwargs: P.kwargs) -> R:
        OutputSettings.current().start_logging()
        return command(*args, **kwargs)

    for option in (
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            expose_value=False,
            callback=_log_format,
            help="Form of log lines and progress on stderr.",
        ),
        quiet_option,
        verbose_option,
    ):
        started = option(started)
    return started


verbose_option = click.option(
    "-v",
    "--verbose",
    count=True,
    expose_value=False,
    callback=_verbose,
    help="Say more; twice: also where errors come from.",
)
quiet_option = click.option(
    "-q",
    "--quiet",
    is_flag=True,
    expose_value=False,
    callback=_quiet,
    help="Say nothing unless something went wrong.",
)


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --server and --token: which catalog service to ask."""
    command = click.option(
        "--token",
        help="Bearer token. Others on this machine can see it in the list of processes: better "
        "set MLCAT_TOKEN or DATAHUB_GMS_TOKEN, or use ~/.datahubenv.",
    )(command)
    return click.option(
        "--server",
        metavar="URL",
        help="Address of the catalog service. Default: MLCAT_SERVER, DATAHUB_GMS_URL or what "
        "~/.datahubenv says.",
    )(command)


def connect(server: str | None, token: str | None) -> "CatalogClient":
    """Return a client of the service that the options, the environment or the file name.

    Raises:
        RecipeError: none of them names one.
    """
    from mlcat_ingest.client.catalog_client import CatalogClient
    from mlcat_ingest.recipe.secrets import SECRETS

    client = CatalogClient(server, token)
    if client.credentials.token:
        SECRETS.add(client.credentials.token)
    return client


# Generic only since click 8.2, which many environments hold back.
if TYPE_CHECKING:
    _TextType = click.ParamType[str]
else:
    _TextType = click.ParamType


class UrnType(_TextType):
    """An argument that is a URN."""

    name = "urn"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value`, or end with a usage error."""
        from mlcat_ingest.metadata.urn import entity_type_of

        try:
            entity_type_of(value)
        except InvalidUrnError as error:
            self.fail(str(error), param, ctx)
        return value


URN = UrnType()
