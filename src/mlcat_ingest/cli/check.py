"""`mlcat-ingest check`: the doctor, which connects to every side and changes nothing."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_codes import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.options import say_options
from mlcat_ingest.cli.run import read_recipe
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.findings import Finding

if TYPE_CHECKING:
    from mlcat_ingest.sinks.base import Sink
    from mlcat_ingest.sources.base import Source

_SIGNS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}


@click.command(epilog="\b\nExample:\n  mlcat-ingest check recipe.yml")
@click.argument("recipe")
@say_options
def command(recipe: str) -> int:
    """Check RECIPE, a file or an address: is it valid, does every side answer and let us in.

    Exit status: 0 nothing failed; 1 something did; 2 the recipe is wrong.
    """
    resolved = read_recipe(recipe)
    _show(Finding("recipe", "ok", f"{resolved.recipe.name}: valid"))
    failed = 0
    for source in resolved.sources:
        failed += _try(f"source {source.type}", source.build)
    if resolved.sink is None:
        _show(
            Finding(
                "sink",
                "warning",
                "none is given: a run writes to ./mlcat-catalog.db, with --no-input it fails",
            )
        )
    else:
        failed += _try(f"sink {resolved.sink.type}", resolved.sink.build)
    return EXIT_FAILED if failed else EXIT_OK


def _try(name: str, build: "Callable[[], Source[Any] | Sink]") -> int:
    """Show the findings of one side and return how many of them failed."""
    failed = 0
    for finding in _findings(name, build):
        _show(finding)
        failed += finding.outcome == "failed"
    return failed


def _findings(name: str, build: "Callable[[], Source[Any] | Sink]") -> Iterator[Finding]:
    try:
        with contextlib.closing(build()) as side:
            yield from side.check()
    except MlcatError as error:
        yield Finding(name, "failed", error.message, error.hint)


def _show(finding: Finding) -> None:
    from mlcat_ingest.pipeline.printable import printable
    from mlcat_ingest.recipe.secrets import mask

    detail = f": {finding.detail}" if finding.detail else ""
    output.out(printable(mask(f"{_SIGNS[finding.outcome]}  {finding.what}{detail}")))
    if finding.hint:
        output.out(printable(mask(f"         {finding.hint}")))
