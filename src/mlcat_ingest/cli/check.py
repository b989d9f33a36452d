"""`mlcat-ingest check`: the doctor, which connects to every side and changes nothing."""

import json
from typing import TYPE_CHECKING

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.exit_codes import EXIT_FAILED, EXIT_OK
from mlcat_ingest.cli.options import say_options
from mlcat_ingest.cli.reading import read_recipe

if TYPE_CHECKING:
    from mlcat_ingest.workflows.check import Examined

_SIGNS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}

_EXAMPLES = """\b
Examples:
  mlcat-ingest check recipe.yml            connect and look, change nothing
  mlcat-ingest check recipe.yml --write    write a probe entity and delete it again
  mlcat-ingest check recipe.yml --json     the same as one JSON object
  mlcat-ingest check http://mlflow:5000    a server, before there is a recipe"""


@click.command(epilog=_EXAMPLES)
@click.argument("recipe")
@click.option(
    "--write",
    is_flag=True,
    help="Also write an entity mlcat-ingest-check-… to the catalog, read it back, see whether "
    "conditional writes are enforced, and delete it for good.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@say_options
def command(recipe: str, write: bool, as_json: bool) -> int:  # noqa: FBT001 - click's way
    """Check RECIPE, a file or an address: is it valid, does every side answer and let us in.

    Looks at names, connections, certificates, clocks, versions, each permission by its name, URNs
    that another server holds, the state database and the dead-letter file. Changes nothing, unless
    --write is given. A side that does not answer is given up after a minute.

    Exit status: 0 nothing failed; 1 something did; 2 the recipe is wrong.
    """
    resolved = read_recipe(recipe)
    from mlcat_ingest.workflows.check import examine

    found: list[Examined] = []
    for one in examine(resolved, write=write):
        found.append(one)
        if not as_json:
            output.out_report(_line(one))
    failed = sum(one.finding.outcome == "failed" for one in found)
    if as_json:
        facts = {
            "recipe": resolved.recipe.name,
            "failed": failed,
            "findings": [_fields(one) for one in found],
        }
        output.out(json.dumps(facts, indent=2, ensure_ascii=False))
    return EXIT_FAILED if failed else EXIT_OK


def _line(one: "Examined") -> str:
    finding = one.finding
    detail = f": {finding.detail}" if finding.detail else ""
    hint = f" ({finding.hint})" if finding.hint else ""
    return _shown(f"{_SIGNS[finding.outcome]}  {finding.what}{detail}{hint}")


def _fields(one: "Examined") -> dict[str, str | None]:
    finding = one.finding
    return {
        "side": one.side,
        "what": _shown(finding.what),
        "outcome": finding.outcome,
        "detail": _shown(finding.detail),
        "hint": None if finding.hint is None else _shown(finding.hint),
    }


def _shown(text: str) -> str:
    from mlcat_ingest.core.text import printable
    from mlcat_ingest.recipe.secrets import mask

    # An error may list several problems, a line each; a finding is one line.
    return "; ".join(printable(line) for line in mask(text).split("\n"))
