"""Findings: what the doctor (`mlcat-ingest check`) says about one thing it tried."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `mlcat-ingest check`: what was tried, how it went, and the cure if it failed."""

    what: str
    outcome: Literal["ok", "warning", "failed"]
    detail: str = ""
    hint: str | None = None
