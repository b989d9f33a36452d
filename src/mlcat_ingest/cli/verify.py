"""`mlcat-ingest verify`: whether the catalog holds what MLflow holds, apart from any run."""

import json
import logging
from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_status import EXIT_OK, EXIT_PARTIAL, stop_on_sigterm
from mlcat_ingest.cli.options import OutputSettings, ReadingOptions, output_options
from mlcat_ingest.core.text import plural

if TYPE_CHECKING:
    from mlcat_ingest.workflows.verify_result import VerifyResult

_EXAMPLES = """\b
Examples:
  mlcat-ingest verify recipe.yml                # compare everything
  mlcat-ingest verify recipe.yml --sample 500   # compare 500 runs, spread over the store
  mlcat-ingest verify recipe.yml --json         # one JSON object"""

log = logging.getLogger(output.PROGRESS)


@click.command(epilog=_EXAMPLES)
@click.argument("recipe")
@click.option(
    "--sample",
    type=click.IntRange(min=1),
    metavar="N",
    help="Compare about N runs, sampled over their start times, and N versions.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@output_options
def command(recipe: str, sample: int | None, *, as_json: bool) -> int:
    """Compare the catalog with MLflow, and change nothing.

    Runs, parameters, last values of metrics, tags, experiments, versions and aliases are read from
    MLflow and from the catalog, and each is compared: missing or stale. Links to features that the
    catalog does not have are dangling. Entities without a counterpart in MLflow are orphaned.
    Objects that the recipe or a limit excludes are counted by reason. The state of runs is not
    used.

    Exit status: 0 the catalog has everything; 4 something is missing, stale, dangling or orphaned;
    1 a side failed; 2 invalid command or recipe; 130 interrupted.
    """
    from mlcat_ingest.recipe.secrets import mask
    from mlcat_ingest.workflows.verify import verify

    settings = OutputSettings.current()
    reading = ReadingOptions(
        recipe, to=None, limit=None, full=False, accept_renaming=False, no_input=False
    )
    resolved, _ = reading.resolve(settings, "comparing with")
    with stop_on_sigterm():
        result = verify(resolved, sample=sample, on_progress=_VerifyProgress())
    if as_json:
        output.out(mask(json.dumps(result.data(), indent=2, ensure_ascii=False)))
    else:
        for line in result.lines():
            output.out_report(line)
    return EXIT_PARTIAL if result.discrepancies else EXIT_OK


class _VerifyProgress(output.LogInterval):
    """Logs how far a verification is, at most every five seconds."""

    def __call__(self, result: "VerifyResult") -> None:
        """Log `result` if it is time."""
        if self.is_over():
            runs = plural(result.compared["run"], "run")
            differing = plural(result.discrepancies, "discrepancy", "discrepancies")
            log.info("%s compared, %s", runs, differing)
