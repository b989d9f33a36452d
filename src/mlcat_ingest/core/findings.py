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


ProbeOutcome = Literal["as expected", "differs", "not allowed", "not tried", "failed"]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """One row of `mlcat-ingest check --probe`: a fact about a catalog service, and if it holds.

    `fact` is a number and `name` a noun phrase; `expected` and `observed` are answers in a few
    words, `detail` says more; `consequence` is set where they differ. `lacks` names aspects and
    fields that were acknowledged and not stored, each with its entity type: `mlModel.container`.
    """

    fact: str
    name: str
    outcome: ProbeOutcome
    expected: str = ""
    observed: str = ""
    detail: str = ""
    consequence: str = ""
    lacks: tuple[str, ...] = ()
