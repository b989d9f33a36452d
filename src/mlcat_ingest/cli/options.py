"""Options that commands share, and their effects."""

import functools
import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from mlcat_ingest.cli import output
from mlcat_ingest.core.environment import local_path, require_extra
from mlcat_ingest.core.text import printable
from mlcat_ingest.errors import InvalidUrnError, RecipeError
from mlcat_ingest.pipeline.report.progress import OnProgress, PlainProgress
from mlcat_ingest.recipe.secrets import mask

if TYPE_CHECKING:
    from mlcat_ingest.client.rest.client import CatalogClient
    from mlcat_ingest.pipeline.report.report import Report
    from mlcat_ingest.workflows.names import SearchedCatalog
    from mlcat_ingest.workflows.resolve import ResolvedRecipe

log = logging.getLogger("mlcat_ingest.cli")

SEE_MORE: Final = "; run with -vv for a traceback"
"""Follows an unexpected error."""

LogFormat = Literal["text", "json"]

ReadSecret = Callable[[], str | None]
"""Returns a secret, None where none is given; its file is read anew."""


@dataclass
class OutputSettings:
    """The amount and the form of a command's output; one a process."""

    verbosity: int = 0
    quiet: bool = False
    log_format: LogFormat = "text"

    @property
    def tracebacks(self) -> bool:
        """True if the user wants to see where errors come from."""
        return self.verbosity > 1

    def start_logging(self) -> None:
        """Send log records to stderr as these settings say."""
        output.configure_logging(self.verbosity, quiet=self.quiet, log_format=self.log_format)

    def print_note(self, text: str) -> None:
        """Say something to who watches; nothing if the command is to be quiet."""
        if self.log_format == "json":
            log.info("%s", text)
        elif not self.quiet:
            click.echo(text, err=True)

    def print_error(self, message: str, error: BaseException | None = None) -> None:
        """Say what went wrong, one line a problem; and where, if that is wanted."""
        shown = error if self.tracebacks else None
        if self.log_format == "json":
            self.start_logging()
            log.error("%s", message, exc_info=shown)
            return
        if shown is not None:
            click.echo(output.traceback_of(shown), err=True)
        lines = (printable(mask(line)) for line in message.split("\n"))
        click.echo("mlcat-ingest: " + "\n".join(lines), err=True)

    def print_failure(self, report: "Report", prefix: str = "") -> None:
        """Say what ended the run of `report`, if something did."""
        failure = report.failure
        if failure is not None:
            cure = "" if failure.expected or self.tracebacks else SEE_MORE
            self.print_error(f"{prefix}{failure}{cure}", report.error)

    def progress(self) -> AbstractContextManager[OnProgress | None]:
        """Give what shows the progress of a run, nothing for a quiet command.

        It is a live line on a terminal; elsewhere, and in JSON, a line now and then.
        """
        if self.quiet:
            return nullcontext()
        if sys.stderr.isatty() and self.log_format == "text":
            return output.live_progress()
        return nullcontext(PlainProgress())

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


VERBOSE: Final = click.Option(
    ["-v", "--verbose"],
    count=True,
    expose_value=False,
    callback=_verbose,
    help="More output: -v adds debug messages, -vv tracebacks.",
)
QUIET: Final = click.Option(
    ["-q", "--quiet"],
    is_flag=True,
    expose_value=False,
    callback=_quiet,
    help="Print only warnings and errors.",
)
_LOG_FORMAT: Final = click.Option(
    ["--log-format"],
    type=click.Choice(["text", "json"]),
    expose_value=False,
    callback=_log_format,
    help="Format of log lines and progress on stderr.",
)


class Command(click.Command):
    """A command with its examples, and with -v, -q and --log-format; logging is set up first."""

    def __init__(self, *args: Any, examples: Sequence[str], **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        lines = "".join(f"\n  mlcat-ingest {example}" for example in examples)
        self.epilog = f"\b\nExample{'s' if len(examples) > 1 else ''}:{lines}"
        self.params += (VERBOSE, QUIET, _LOG_FORMAT)

    def invoke(self, ctx: click.Context) -> Any:
        """Set up logging, and start the command."""
        OutputSettings.current().start_logging()
        return super().invoke(ctx)


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def options(*added: Decorator) -> Decorator:
    """Return what adds options and arguments to a command, in this order."""
    return lambda command: functools.reduce(lambda made, add: add(made), reversed(added), command)


service_options = options(
    click.option(
        "--server",
        metavar="URL",
        help="Address of the catalog service. Default: MLCAT_SERVER, DATAHUB_GMS_URL, then "
        "~/.datahubenv.",
    ),
    click.option(
        "--token",
        help="Bearer token. Other users of this machine can see it in the process list: "
        "prefer MLCAT_TOKEN, DATAHUB_GMS_TOKEN or ~/.datahubenv.",
    ),
)
"""Which catalog service to ask."""

catalog_options = options(
    click.option("--recipe", metavar="RECIPE", help="Read the catalog of this recipe."),
    service_options,
)
"""Which catalog to read; see `open_catalog`."""


@contextmanager
def open_catalog(
    recipe: str | None, server: str | None, token: str | None
) -> "Iterator[tuple[SearchedCatalog, str | None, Callable[[str], Mapping[str, str]]]]":
    """Open the catalog of a recipe, with its name and state, or else the service of the options.

    Raises:
        UsageError: both are given.
        RecipeError: there is no address, the recipe is wrong, or its sink keeps nothing.
        MlcatError: the catalog cannot be opened.
    """
    from mlcat_ingest.pipeline.state.session import known_bases
    from mlcat_ingest.workflows.ingest import Pipeline

    if recipe is None:
        with connect(server, token) as client:
            yield client, None, lambda _: {}
        return
    if server is not None or token is not None:
        raise click.UsageError("--server and --token exclude --recipe, which names both")
    resolved, _ = ReadingOptions(recipe).resolve(OutputSettings.current(), "reading")
    sink = Pipeline(resolved).build_sink()
    if not sink.facts.keeps:
        raise RecipeError(
            "the sink of the recipe keeps no entities to read", hint="set `sink` to the catalog"
        )
    with closing(sink):
        sink.open(read_only=True)
        name, state = resolved.recipe.name, resolved.recipe.state.url
        yield sink, name, functools.partial(known_bases, state, name, sink.address)


def connect(server: str | None, token: str | None) -> "CatalogClient":
    """Return a client of the service that the options, the environment or the file name.

    Raises:
        RecipeError: none of them names one.
    """
    from mlcat_ingest.client.rest.client import CatalogClient
    from mlcat_ingest.recipe.secrets import SECRETS

    client = CatalogClient(server, token)
    if client.credentials.token:
        SECRETS.add(client.credentials.token)
    return client


def checked_name(text: str) -> str:
    """Return the text of an argument, which is a name or a URN.

    Raises:
        BadParameter: it is empty, or begins as a URN and is none.
    """
    if not text.strip():
        raise click.BadParameter("the name is empty")
    return checked_urn(text) if text.startswith("urn:") else text


def checked_urn(text: str) -> str:
    """Return the text of an argument, which has to be a URN.

    Raises:
        BadParameter: it is none.
    """
    from mlcat_ingest.metadata.urn import entity_type_of

    try:
        entity_type_of(text)
    except InvalidUrnError as error:
        raise click.BadParameter(str(error)) from None
    return text


ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://|databricks$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The recipe of a command, and how to read it."""

    recipe: str
    to: str | None = None
    limit: int | None = None
    instance: str | None = None
    full: bool = False
    accept_renaming: bool = False
    adopt_since_ms: int | None = None
    no_input: bool = False

    def resolve(self, settings: OutputSettings, doing: str) -> "tuple[ResolvedRecipe, bool]":
        """Return the recipe with a sink, and True if that is the default: the embedded catalog.

        It is the default if the recipe names no sink and somebody watches; it is printed then.

        Raises:
            UsageError: something is given that goes with an address only.
            RecipeError: the recipe cannot be read, or something in it is wrong.
            MissingExtraError: it is the embedded catalog, whose packages are not installed.
        """
        from mlcat_ingest.workflows.resolve import DEFAULT_CATALOG, embedded_sink

        resolved = read_recipe(self.recipe, self.to, limit=self.limit, instance=self.instance)
        if resolved.sink is not None or self.no_input:
            return resolved, False
        require_extra(
            "catalog", "the embedded catalog (the recipe has no sink, and --to is not given)"
        )
        settings.print_note(f"No sink configured: {doing} the embedded catalog ./{DEFAULT_CATALOG}")
        return replace(resolved, sink=embedded_sink(Path.cwd())), True


def _milliseconds(_: click.Context, __: click.Parameter, time: datetime | None) -> int | None:
    return None if time is None else int(time.replace(tzinfo=UTC).timestamp() * 1000)


adopt_option = click.option(
    "--adopt",
    "adopt_since_ms",
    metavar="SINCE",
    callback=_milliseconds,
    type=click.DateTime(["%Y-%m-%d", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ"]),
    help="Take over what other states wrote under the name of the recipe, such as one that is "
    "lost, unless they have written since this time (UTC, for example 2026-01-31).",
)


def reading_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add RECIPE and the options on how it is read, given to the command as `ReadingOptions`."""

    @functools.wraps(command)
    def start(**given: Any) -> int:
        named = {name: given.pop(name) for name in ReadingOptions.__dataclass_fields__}
        return command(ReadingOptions(**named), **given)

    return _reading_options(start)


_reading_options = options(
    click.argument("recipe"),
    click.option(
        "--to", metavar="URL", help="With an MLflow URL: the catalog service to write to."
    ),
    click.option(
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        help="With an MLflow URL: read at most N runs.",
    ),
    click.option(
        "--instance",
        metavar="NAME",
        help="With an MLflow URL: prefix of all names, for a second server in one catalog.",
    ),
    click.option(
        "--full",
        is_flag=True,
        help="Compare everything with the catalog, not only the changes since the last run.",
    ),
    click.option(
        "--accept-renaming",
        is_flag=True,
        help="Allow changed `naming`, `env`, `instance` or `compat` settings, which change URNs.",
    ),
    adopt_option,
    click.option(
        "--no-input",
        is_flag=True,
        help="Non-interactive: fail if the recipe has no sink.",
    ),
)


def read_recipe(recipe: str, to: str | None = None, **options: Any) -> "ResolvedRecipe":
    """Return the recipe in a file, or the recipe for an address of MLflow.

    Raises:
        UsageError: `to` or an option of the source is given with a file.
        RecipeError: it cannot be read, or something in it is wrong.
    """
    from mlcat_ingest.recipe.model import Recipe
    from mlcat_ingest.workflows.resolve import load_resolved, resolve

    if not ADDRESS.match(recipe):
        for option, value in {"to": to, **options}.items():
            if value is not None:
                raise click.UsageError(
                    f"--{option} can only be used with an MLflow URL; set it in the recipe instead"
                )
        return load_resolved(recipe)
    return resolve(Recipe.for_tracking_uri(recipe, to, **options))


def listening_options(port: int) -> Decorator:
    """Return what adds --host and --port, by default `port`, to a command that serves."""
    return options(
        click.option(
            "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
        ),
        click.option(
            "--port",
            type=click.IntRange(0, 65_535),
            default=port,
            show_default=True,
            help="Port to listen on; 0 selects a free one.",
        ),
    )


def secret_option(name: str, variable: str, text: str, file_text: str) -> Decorator:
    """Return what adds --NAME, a secret, and --NAME-file, its file, with their help.

    The command gets a function that returns the secret, None for none, and reads the file anew.
    """
    key = name.replace("-", "_")

    def passed(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def start(**given: Any) -> Any:
            secret = functools.partial(_secret, f"--{name}", given[key], given.pop(f"{key}_file"))
            return command(**{**given, key: secret})

        return start

    return options(
        click.option(f"--{name}", envvar=variable, help=text),
        click.option(
            f"--{name}-file",
            envvar=f"{variable}_FILE",
            type=local_path,
            metavar="PATH",
            help=file_text,
        ),
        passed,
    )


def _secret(option: str, token: str | None, file: Path | None) -> str | None:
    """Return a secret, given as it is or in a file; it is masked in all output from now on."""
    from mlcat_ingest.recipe.secrets import SECRETS

    if token and file is not None:
        raise click.UsageError(
            f"{option} and {option}-file (or their variables) are both given; give one of them"
        )
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            # A decoding error quotes a part of the token.
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise RecipeError(f"{option}-file: cannot read {file}: {why}") from None
        if not token:
            raise RecipeError(f"{option}-file: {file} is empty")
    if token:
        SECRETS.add(token)
    return token
