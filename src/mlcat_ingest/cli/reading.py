"""Which recipe a command is about, how it is to be read, and where it writes."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mlcat_ingest.cli.options import OutputSettings
from mlcat_ingest.core.extras import require_extra

if TYPE_CHECKING:
    from mlcat_ingest.workflows.resolve import Resolved

_ADDRESS: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """What to read and how, as the command line says it."""

    recipe: str
    to: str | None
    limit: int | None
    full: bool
    accept_renaming: bool
    no_input: bool

    @property
    def is_address(self) -> bool:
        """Whether there is no recipe, only the address of a server."""
        return _ADDRESS.match(self.recipe) is not None

    def resolved(self, settings: OutputSettings, doing: str) -> "tuple[Resolved, bool]":
        """Return the recipe with a sink, and whether that is the catalog in the box.

        It is where the recipe names no sink and somebody watches, who is told what is being done.

        Raises:
            UsageError: something is given that goes with an address only.
            RecipeError: the recipe cannot be read, or something in it is wrong.
            MissingExtraError: it is the embedded catalog, whose packages are not installed.
        """
        from mlcat_ingest.workflows.resolve import DEFAULT_CATALOG, embedded_sink

        resolved = read_recipe(self.recipe, self.to, self.limit)
        if resolved.sink is not None or self.no_input:
            return resolved, False
        require_extra("catalog", "the embedded catalog (no sink and no --to is given)")
        settings.tell(f"No sink is given: {doing} the catalog in the box, ./{DEFAULT_CATALOG}")
        return replace(resolved, sink=embedded_sink(Path.cwd())), True


def reading_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add RECIPE and the options on how it is read, given to the command as `ReadingOptions`."""

    @functools.wraps(command)
    def started(**given: Any) -> int:
        named = {name: given.pop(name) for name in ReadingOptions.__dataclass_fields__}
        return command(ReadingOptions(**named), **given)

    for option in reversed(_OPTIONS):
        started = option(started)
    return started


_OPTIONS: Final = (
    click.argument("recipe"),
    click.option("--to", metavar="URL", help="With an address: the catalog service to write to."),
    click.option(
        "--limit",
        type=click.IntRange(min=1),
        metavar="N",
        help="With an address: read at most N runs.",
    ),
    click.option(
        "--full",
        is_flag=True,
        help="Read everything and compare it with the catalog, whatever is remembered.",
    ),
    click.option(
        "--accept-renaming",
        is_flag=True,
        help="Go on where `naming`, `env` or `instance` now give other URNs than before.",
    ),
    click.option(
        "--no-input",
        is_flag=True,
        help="Assume that nobody watches: the recipe has to say where to write.",
    ),
)


def read_recipe(recipe: str, to: str | None = None, limit: int | None = None) -> "Resolved":
    """Return the recipe in a file, or the one that an address of MLflow stands for.

    Raises:
        UsageError: `to` or `limit` is given with a file.
        RecipeError: it cannot be read, or something in it is wrong.
    """
    from mlcat_ingest.recipe.model import Recipe
    from mlcat_ingest.workflows.resolve import load_resolved, resolve

    if not _ADDRESS.match(recipe):
        if to is not None or limit is not None:
            option = "--to" if to is not None else "--limit"
            raise click.UsageError(f"{option} goes with an address; a recipe says it itself")
        return load_resolved(recipe)
    return resolve(Recipe.for_tracking_uri(recipe, to, limit))
