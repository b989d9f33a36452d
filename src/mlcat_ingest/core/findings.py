"""Findings: the results of the checks of `mlcat-ingest check`."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of `mlcat-ingest check`: the check, its outcome, and the cure if it failed."""

    what: str
    outcome: Literal["ok", "warning", "failed"]
    detail: str = ""
    hint: str | None = None
