"""`mlcat-ingest state`: what a recipe remembers between runs, and how to make it forget."""

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import Command, OutputSettings, read_recipe
from mlcat_ingest.cli.output import confirm
from mlcat_ingest.core.text import plural, utc_second
from mlcat_ingest.pipeline.report.report import EXIT_FAILED, EXIT_OK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mlcat_ingest.pipeline.state.inspection import PartitionSummary, Summary


@click.group(
    epilog="\b\nExamples:\n"
    "  mlcat-ingest state show recipe.yml\n"
    "  mlcat-ingest state show recipe.yml --json\n"
    "  mlcat-ingest state reset recipe.yml --yes"
)
def command() -> None:
    """Show or reset the state that a recipe keeps between runs.

    State is a cache: without it the next run reads everything again, and nothing is lost.
    """


@command.command(cls=Command, examples=["state show recipe.yml --json"])
@click.argument("recipe")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(recipe: str, *, as_json: bool) -> None:
    """Show the state of RECIPE, a file or an MLflow URL.

    Exit status: 0 with or without state; 1 damaged or unreachable database; 2 invalid recipe.
    """
    from mlcat_ingest.core.text import printable
    from mlcat_ingest.pipeline.state.inspection import summary

    resolved = read_recipe(recipe).recipe
    remembered = summary(resolved.state.url, resolved.name)
    if as_json:
        output.out_json(asdict(remembered))
    else:
        for line in _lines(remembered):
            output.out(printable(line))


@command.command(cls=Command, examples=["state reset recipe.yml --yes"])
@click.argument("recipe")
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
def reset(recipe: str, *, yes: bool) -> int:
    """Delete the state of RECIPE, a file or an MLflow URL: its next run reads everything again.

    The catalog and the state of other recipes in the same database do not change. A damaged file is
    set aside as a whole.

    Exit status: 0 with or without state; 1 a run of RECIPE is in progress, the database is
    unreachable, or the confirmation was declined; 2 invalid recipe, or no terminal for the
    confirmation.
    """
    from mlcat_ingest.pipeline.state.inspection import reset as forget
    from mlcat_ingest.pipeline.state.opening import printable_url

    resolved = read_recipe(recipe).recipe
    database = printable_url(resolved.state.url)
    if not yes and not confirm(f"Delete the state of {resolved.name!r} in {database}?"):
        return EXIT_FAILED
    if forget(resolved.state.url, resolved.name):
        OutputSettings.current().print_note(
            f"Deleted the state of {resolved.name!r} in {database}."
        )
    else:
        OutputSettings.current().print_note(f"{resolved.name!r} has no state in {database}.")
    return EXIT_OK


def _lines(remembered: "Summary") -> "Iterator[str]":
    yield f"{remembered.recipe}: state in {remembered.database}"
    if remembered.holder is not None:
        yield f"  running now: {remembered.holder}"
    if not remembered.parts:
        yield "  no state: the next run reads everything"
    for part in remembered.parts:
        instance = f", instance {part.instance}" if part.instance else ""
        yield f"  {part.source}{instance} into {part.catalog}"
        for name, value in _facts(part):
            yield f"    {name:<10} {value}"


def _facts(part: "PartitionSummary") -> "Iterator[tuple[str, str]]":
    yield "records", ", ".join(f"{n:,} {kind}" for kind, n in part.records.items()) or "none"
    if part.dirty:
        dirty = ", ".join(f"{n:,} {kind}" for kind, n in part.dirty.items())
        yield "dirty", f"{dirty}: the next run merges them again"
    for name, at_ms in (("last run", part.passed_at_ms), ("last full", part.full_at_ms)):
        yield name, "never" if at_ms is None else utc_second(at_ms)
    for kind, urn in part.names.items():
        yield f"{kind} as", urn
    if part.failing_entities:
        failing = plural(part.failing_entities, "entity", "entities")
        yield "tests", f"{failing} failed a test in the last evaluation"
