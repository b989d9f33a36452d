"""The reference pages that are made from code, and what makes each of their blocks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from support.reference import commands, example_run, python_names, recipe_keys, run_report
from support.reference.blocks import Maker, filled

REFERENCE: Final = Path(__file__).parents[3] / "docs" / "reference"
PAGES: Final = ("recipe.md", "command-line.md", "report.md", "python-api.md")
MAKERS: Final[Mapping[str, Maker]] = {
    "api": python_names.names,
    "commands": commands.commands,
    "errors": python_names.errors,
    "example": example_run.example,
    "keys": recipe_keys.keys,
    "metrics": run_report.metrics,
    "options": commands.shared_options,
    "report": run_report.report_keys,
    "statuses": run_report.statuses,
    "types": recipe_keys.types,
}


def made(page: str) -> str:
    """Return the text of a page, with its blocks made anew."""
    return filled((REFERENCE / page).read_text(), MAKERS)
