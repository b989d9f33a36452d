"""The behaviour of a catalog service as a probe found it: the facts by which a client decides.

Facts that no probe tried, or that it could not tell, are None here: they are found out by trying.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple, Self

from mlcat_ingest.core.findings import ProbeResult


class ProbeAnswer(StrEnum):
    """The ways in which a service answers a trial."""

    TAKEN = "taken"
    REFUSED = "refused"
    CONFLICT = "refused as a conflict"
    DROPPED = "acknowledged, not stored"
    STORED = "stored"
    THERE = "there"
    MISSING = "no such call"
    FOUND = "found"
    NOT_FOUND = "not found"
    KEPT = "kept"
    DELETED = "deleted"
    HIDDEN = "hidden, and readable"
    SHOWN = "shown"
    NUMBERED = "1"
    UNNUMBERED = "none, or another"
    OF_ITS_RELEASE = "as in its release"
    NOT_OF_ITS_RELEASE = "not as in its release"
    ONE_LATEST = "one is the latest"
    BOTH_LATEST = "each is the latest"
    NO_LATEST = "none is the latest"
    LATEST_UNLESS_ASKED = "the latest, all if asked"
    ALL_VERSIONS = "all versions"


class ProbedFact(NamedTuple):
    """The number and the name of a fact."""

    number: str
    name: str


CONDITIONS: Final = ProbedFact("G1", "failed If-Version-Match")
MODEL_ASPECTS: Final = ProbedFact("G5", "aspects of models")
OTHER_ASPECTS: Final = ProbedFact("G5", "aspects of groups and feature tables")
EVALUATION: Final = ProbedFact("G6", "evaluation of metadata tests")


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """The answer of a service to one trial, as it is kept between runs.

    `lacks` names aspects and fields that were acknowledged and not stored, each with its entity
    type: `mlModel.container`, `mlModelGroup.mlModelGroupProperties.externalUrl`.
    """

    fact: str
    name: str
    outcome: str
    observed: str
    lacks: Sequence[str] = ()

    @classmethod
    def of(cls, result: ProbeResult) -> Self:
        """Return the row of a result."""
        return cls(result.fact, result.name, result.outcome, result.observed, result.lacks)


@dataclass(frozen=True, slots=True)
class ProbedBehaviour:
    """The answers of one version of a service to a probe."""

    version: str
    """Version of the service."""
    probed_at_ms: int
    """Time of the probe, in epoch milliseconds UTC."""
    evaluates: bool | None = None
    """Whether it has an endpoint that evaluates metadata tests; null if that is not known."""
    lacks: tuple[str, ...] = ()
    """Aspects and fields that it acknowledges and does not store."""

    @classmethod
    def of(cls, version: str, probed_at_ms: int, rows: Iterable[ProbeRow]) -> Self:
        """Return the behaviour that `rows` show."""
        by_fact = {ProbedFact(row.fact, row.name): row for row in rows}
        evaluation: dict[str, bool] = {ProbeAnswer.THERE: True, ProbeAnswer.MISSING: False}
        aspects = (by_fact.get(MODEL_ASPECTS), by_fact.get(OTHER_ASPECTS))
        return cls(
            version,
            probed_at_ms,
            _answer(by_fact, EVALUATION, evaluation),
            tuple(one for row in aspects if row is not None for one in row.lacks),
        )

    @property
    def at(self) -> str:
        """The time of the probe, as words for the user."""
        return f"{datetime.fromtimestamp(self.probed_at_ms / 1000, UTC):%Y-%m-%d %H:%M} UTC"

    @property
    def decisions(self) -> tuple[str, ...]:
        """The decisions that rest on the probe, as words for the user."""
        return tuple(
            text
            for holds, text in (
                (self.evaluates is False, "`evaluate.where: auto` evaluates in the client"),
                (bool(self.lacks), f"not sent: {', '.join(self.lacks)}"),
            )
            if holds
        )


def _answer(
    rows: Mapping[ProbedFact, ProbeRow], fact: ProbedFact, meanings: Mapping[str, bool]
) -> bool | None:
    row = rows.get(fact)
    return None if row is None else meanings.get(row.observed)


UNPROBED: Final = ProbedBehaviour("", 0)
"""The behaviour of a catalog that nobody probed."""
