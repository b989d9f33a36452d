"""What became of an entity that was written."""

from dataclasses import dataclass

from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.pipeline.merge import MergedEntity


@dataclass(frozen=True, slots=True)
class Refusal:
    """A proposal that the catalog did not take: why, and at which attempt.

    `status` is the HTTP status of the refusal, 0 where the catalog was not asked.
    """

    proposal: Proposal
    reason: str
    attempt: int
    status: int = 0

    def __str__(self) -> str:
        """Return the aspect and the reason."""
        return f"{self.proposal.aspect_name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Delivered:
    """An entity that the catalog is done with; without refusals all of it has arrived."""

    merged: MergedEntity
    refusals: tuple[Refusal, ...] = ()
