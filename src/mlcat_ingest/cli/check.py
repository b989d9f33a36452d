"""`mlcat-ingest check`: the doctor, which connects to every side and changes nothing."""

from contextlib import ExitStack, closing
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_status import EXIT_FAILED, EXIT_OK, EXIT_PARTIAL, stop_on_sigterm
from mlcat_ingest.cli.options import output_options, read_recipe

if TYPE_CHECKING:
    from mlcat_ingest.core.findings import ProbeResult
    from mlcat_ingest.workflows.check import SideFinding

_SIGNS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}

_EXAMPLES = """\b
Examples:
  mlcat-ingest check recipe.yml                  # test all connections, change nothing
  mlcat-ingest check recipe.yml --write          # also write a probe entity, and delete it
  mlcat-ingest check recipe.yml --write --probe  # also test the behaviour of the catalog
  mlcat-ingest check recipe.yml --json           # the same as one JSON object
  mlcat-ingest check http://mlflow:5000          # check a server without a recipe"""


@click.command(epilog=_EXAMPLES)
@click.argument("recipe")
@click.option(
    "--write",
    is_flag=True,
    help="Also write an entity mlcat-ingest-check-… to the catalog, read it back, test "
    "whether conditional writes are enforced, and delete it permanently.",
)
@click.option(
    "--probe",
    is_flag=True,
    help="With --write: also test the DataHub behaviour that runs rely on, with about "
    "35 probe entities, and print differences.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@output_options
def command(recipe: str, write: bool, probe: bool, as_json: bool) -> int:  # noqa: FBT001 - click's way
    """Check RECIPE, a file or an MLflow URL: validity, connections and permissions.

    The check covers connections, clocks, versions, each permission by name, URNs
    of another server, the state database and the dead-letter file. It changes nothing without
    --write. A side that does not answer is abandoned after a minute.

    Exit status: 0 no finding failed; 1 a finding failed; 2 invalid recipe; 4 the catalog differs
    from the expected behaviour (--probe).
    """
    if probe and not write:
        raise click.UsageError(
            "--probe writes probe entities to the catalog and deletes them again: add --write"
        )
    resolved = read_recipe(recipe)
    from mlcat_ingest.workflows.check import SideFinding, examine, probe_catalog

    found: list[SideFinding] = []
    results: list[ProbeResult] = []
    with ExitStack() as stack:
        stack.enter_context(stop_on_sigterm())
        trials = stack.enter_context(closing(probe_catalog(resolved))) if probe else ()
        for one in chain(examine(resolved, write=write), trials):
            if isinstance(one, SideFinding):
                found.append(one)
                line = _line(one)
            else:
                line = _row(one) if results else f"{_HEADER}\n{_row(one)}"
                results.append(one)
            if not as_json:
                output.out_report(line)
    failed = sum(one.finding.outcome == "failed" for one in found)
    failed += sum(one.outcome == "failed" for one in results)
    differ = sum(one.outcome == "differs" for one in results)
    if as_json:
        facts: dict[str, Any] = {
            "recipe": resolved.recipe.name,
            "failed": failed,
            "findings": [_fields(one) for one in found],
        }
        if probe:
            facts |= {"differ": differ, "facts": [_result_fields(one) for one in results]}
        output.out_json(facts)
    return EXIT_FAILED if failed else EXIT_PARTIAL if differ else EXIT_OK


def _line(one: "SideFinding") -> str:
    finding = one.finding
    detail = f": {finding.detail}" if finding.detail else ""
    hint = f" ({finding.hint})" if finding.hint else ""
    return _one_line(f"{_SIGNS[finding.outcome]}  {finding.what}{detail}{hint}")


def _fields(one: "SideFinding") -> dict[str, str | None]:
    finding = one.finding
    return {
        "side": one.side,
        "what": _one_line(finding.what),
        "outcome": finding.outcome,
        "detail": _one_line(finding.detail),
        "hint": None if finding.hint is None else _one_line(finding.hint),
    }


_COLUMNS = "{:<11}  {:<3}  {:<35}  {:<25}  {}"
_HEADER = "\n" + _COLUMNS.format("outcome", "", "fact", "expected", "observed")


def _row(one: "ProbeResult") -> str:
    observed = f"{one.observed} ({one.detail})" if one.observed and one.detail else one.observed
    text = "; ".join(filter(None, (observed or one.detail, one.consequence)))
    outcome = "FAILED" if one.outcome == "failed" else one.outcome
    return _one_line(_COLUMNS.format(outcome, one.fact, one.name, one.expected or "-", text))


def _result_fields(one: "ProbeResult") -> dict[str, Any]:
    return {
        name: _one_line(value) if isinstance(value, str) else value
        for name, value in asdict(one).items()
    }


def _one_line(text: str) -> str:
    from mlcat_ingest.core.text import printable
    from mlcat_ingest.recipe.secrets import mask

    # An error may list several problems, a line each; a finding is one line.
    return "; ".join(printable(line) for line in mask(text).split("\n"))
