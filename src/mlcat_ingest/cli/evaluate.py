"""`mlcat-ingest evaluate`: the metadata tests of entities."""

from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_codes import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.options import URN, Settings, connect, say_options, service_options

if TYPE_CHECKING:
    from mlcat_ingest.client.results import TestOutcome

_BATCH = 200


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

    Exit status: 0 they were evaluated, whatever came out; 1 they could not be.
    """
    with connect(server, token) as client:
        for start in range(0, len(urns), _BATCH):
            batch = urns[start : start + _BATCH]
            evaluation = client.evaluate_batch(batch, should_push=push, test_urns=tests)
            for urn, outcome in evaluation.outcomes.items():
                _show(urn, outcome)
            if evaluation.not_evaluated is not None:
                Settings.current().complain(f"not evaluated: {evaluation.not_evaluated}")
                return EXIT_FAILED
    return EXIT_OK


def _show(urn: str, outcome: "TestOutcome") -> None:
    output.out(f"{urn}: {len(outcome.passing)} passing, {len(outcome.failing)} failing")
    for test in outcome.passing:
        output.out(f"  passing  {test}")
    for test in outcome.failing:
        output.out(f"  failing  {test}")
