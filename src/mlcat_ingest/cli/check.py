"""`mlcat-ingest check`: the doctor, which connects to every side and changes nothing."""

from dataclasses import asdict

import click

from mlcat_ingest.cli import output
from mlcat_ingest.cli.options import Command, read_recipe
from mlcat_ingest.core.environment import stop_on_signals
from mlcat_ingest.core.findings import Finding
from mlcat_ingest.pipeline.report.report import EXIT_FAILED, EXIT_OK

_SIGNS = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}


@click.command(
    cls=Command,
    examples=[
        "check recipe.yml            # test all connections, change nothing",
        "check recipe.yml --write    # also write a test entity, and delete it",
        "check recipe.yml --json     # the same as one JSON object",
        "check http://mlflow:5000    # check a server without a recipe",
    ],
)
@click.argument("recipe")
@click.option(
    "--write",
    is_flag=True,
    help="Also write an entity mlcat-ingest-check-… to the catalog, read it back, test "
    "whether conditional writes are enforced, and delete it permanently.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(recipe: str, write: bool, as_json: bool) -> int:  # noqa: FBT001 - click's way
    """Check RECIPE, a file or an MLflow URL: validity, connections and permissions.

    The check covers connections, clocks, versions, each permission by name, URNs
    of another server, the state database and the dead-letter file. It changes nothing without
    --write. A side that does not answer is abandoned after a minute.

    MLflow since 3.5 answers only to localhost and private addresses, unless `mlflow server
    --allowed-hosts` has the host and port of the URL.

    Exit status: 0 no finding failed; 1 a finding failed; 2 invalid recipe.
    """
    resolved = read_recipe(recipe)
    from mlcat_ingest.workflows.check import examine

    findings: list[Finding] = []
    with stop_on_signals():
        for finding in examine(resolved, write=write):
            findings.append(finding)
            if not as_json:
                output.out_report(_line(finding))
    failed = sum(finding.outcome == "failed" for finding in findings)
    if as_json:
        output.out_json(
            {
                "recipe": resolved.recipe.name,
                "failed": failed,
                "findings": [_fields(finding) for finding in findings],
            }
        )
    return EXIT_FAILED if failed else EXIT_OK


def _line(finding: Finding) -> str:
    detail = f": {finding.detail}" if finding.detail else ""
    hint = f" ({finding.hint})" if finding.hint else ""
    return _one_line(f"{_SIGNS[finding.outcome]}  {finding.what}{detail}{hint}")


def _fields(finding: Finding) -> dict[str, str | None]:
    fields = {name: text and _one_line(text) for name, text in asdict(finding).items()}
    return {"side": finding.side, **fields}


def _one_line(text: str) -> str:
    from mlcat_ingest.core.text import printable
    from mlcat_ingest.recipe.secrets import mask

    # An error may list several problems, a line each; a finding is one line.
    return "; ".join(printable(line) for line in mask(text).split("\n"))
