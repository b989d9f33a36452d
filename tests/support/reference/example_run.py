"""A real run of a recipe: what its report, and a line of its changes, look like."""

import json
import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from mlcat_ingest.cli import demo
from mlcat_ingest.cli.main import call
from support.reference.blocks import Page

RECIPE: Final = """\
name: diabetes
sources:
  - type: feast
    config: {registry: registry.db, tables: {allow: [patients]}, server_id: lab}
  - type: mlflow
    config:
      tracking_uri: sqlite:///mlflow.db
      experiments: {allow: [diabetes]}
      server_id: lab
sink: {type: embedded, config: {db: catalog.db}}
evaluate: {test_files: [tests.yml]}
"""
STARTED_MS: Final = 1_790_000_000_000
"""Times of a run, and the numbers of its requests, differ each time; fixed ones replace them."""


def example(argument: str, page: Page) -> str:
    """Return the `report` of the run, or its `change <aspect>.<field>`, as JSON."""
    del page
    report, changes = _run()
    kind, _, place = argument.partition(" ")
    if kind == "report":
        return _fenced(report)
    return _fenced(next(one for one in changes if f"{one['aspect']}.{one['field']}" == place))


def _fenced(data: Any) -> str:
    return f"```json\n{json.dumps(data, indent=2, ensure_ascii=False)}\n```"


@cache
def _run() -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run a recipe on the demo's store; return its report, and its changes."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        demo.unpack_store(folder)
        shutil.copy(demo.HERE / "metadata_tests.yml", folder / "tests.yml")
        shutil.copy(demo.HERE / "feast" / "registry.db", folder)
        (folder / "recipe.yml").write_text(RECIPE)
        report, changes = folder / "report.json", folder / "changes.jsonl"
        files = ["--report", str(report), "--changes", str(changes)]
        call(["-q", str(folder / "recipe.yml"), *files, "--fail-on-tests", "has-owner"])
        text = report.read_text().replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")
        data = json.loads(text)
        lines = changes.read_text().splitlines()
    _fix_measurements(data)
    return data, [json.loads(line) for line in lines]


def _fix_measurements(report: dict[str, Any]) -> None:
    report |= {"source_requests": 23, "catalog_requests": 31}
    report |= {"started_at_ms": STARTED_MS, "finished_at_ms": STARTED_MS + 2_000, "duration_s": 2.0}
    report["run_id"] = "diabetes-2026_09_21-13_33_20-3f9a1c"
    for place in report["passes"]:
        place["current_at_ms"] = STARTED_MS + 100
