"""The command line as tests see it: what it wrote and how it ended."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mlcat_ingest.cli.main import call


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str


class Invoke(Protocol):
    def __call__(self, *args: str) -> Result: ...


def report_of(recipe: Path | str, *options: str, code: int | None = 0) -> dict[str, Any]:
    """Run the command with this recipe, to any end if `code` is `None`; return its report."""
    report = Path(recipe).with_name("report.json")
    ended = call([str(recipe), "--report", str(report), "-q", *options])
    found: dict[str, Any] = json.loads(report.read_text())
    assert ended == found["exit_code"], found
    assert code in (ended, None), found
    return found
