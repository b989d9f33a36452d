"""`mlcat-ingest evaluate`: the metadata tests of entities."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_codes import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.options import URN, OutputSettings, connect, say_options, service_options
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS

if TYPE_CHECKING:
    from mlcat_ingest.client.base import TestOutcome
    from mlcat_ingest.client.catalog_client import CatalogClient


@click.command(
    epilog="\b\nExample:\n"
    "  mlcat-ingest evaluate --push 'urn:li:mlModelGroup:(urn:li:dataPlatform:mlflow,iris,PROD)'"
)
@click.argument("urns", nargs=-1, required=True, type=URN, metavar="URN...")
@click.option("--push", is_flag=True, help="Have the service store the results.")
@click.option(
    "--test", "tests", multiple=True, type=URN, metavar="URN", help="Only this test; repeatable."
)
@service_options
@say_options
def command(
    urns: tuple[str, ...],
    tests: tuple[str, ...],
    server: str | None,
    token: str | None,
    *,
    push: bool,
) -> int:
    """Evaluate the metadata tests of the entities URN and print their outcomes.

    Exit status: 0 they were evaluated, whatever came out; 1 some could not be, or are not in the
    catalog.
    """
    complain = OutputSettings.current().complain
    code = EXIT_OK
    with connect(server, token) as client:
        for start in range(0, len(urns), MAX_REQUEST_ITEMS):
            batch = urns[start : start + MAX_REQUEST_ITEMS]
            evaluation = client.evaluator.evaluate_batch(batch, should_push=push, test_urns=tests)
            for urn, outcome in evaluation.outcomes.items():
                _show(urn, outcome)
            left = [urn for urn in batch if urn not in evaluation.outcomes]
            absent = _absent(client, left)
            for urn in absent:
                complain(f"{urn} is not in the catalog")
            if absent:
                code = EXIT_FAILED
            if evaluation.not_evaluated is not None and len(absent) < len(left):
                complain(f"not evaluated: {evaluation.not_evaluated}")
                return EXIT_FAILED
    return code


def _absent(client: "CatalogClient", urns: Sequence[str]) -> list[str]:
    """Return those of `urns` that the catalog does not hold; removed ones it does."""
    from mlcat_ingest.metadata.registry import key_aspect_name
    from mlcat_ingest.metadata.urn import entity_type_of

    there: set[str] = set()
    for entity_type in dict.fromkeys(map(entity_type_of, urns)):
        some = [urn for urn in urns if entity_type_of(urn) == entity_type]
        there.update(client.read_many(some, [key_aspect_name(entity_type)]))
    return [urn for urn in urns if urn not in there]


def _show(urn: str, outcome: "TestOutcome") -> None:
    output.out(f"{urn}: {len(outcome.passing)} passing, {len(outcome.failing)} failing")
    for test in outcome.passing:
        output.out(f"  passing  {test}")
    for test in outcome.failing:
        output.out(f"  failing  {test}")
