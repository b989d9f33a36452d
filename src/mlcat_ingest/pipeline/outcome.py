"""What became of an entity in a pass: the one value that stages return and the ledger books."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Literal, NamedTuple

from mlcat_ingest.metadata.proposal import Proposal
from mlcat_ingest.pipeline.merge.entity import Change, MergedEntity

Stamps = Mapping[str, str | None]
"""The stamp of each aspect that the merge of an entity reads; None for one that is not stored."""


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
        # A privilege is one on the entity: no aspect is at fault.
        is_denial = self.status == HTTPStatus.FORBIDDEN
        return self.reason if is_denial else f"{self.proposal.aspect_name}: {self.reason}"


class Outcome(NamedTuple):
    """What became of an entity that the pass is done with.

    Attributes:
        merged: the entity, and what had to be written of it.
        refusals: the proposals that the catalog did not take; without any, all of it has arrived.
            With one the catalog may hold the entity all the same, and not find it: it failed at it,
            or refused a request whose first sending was taken without an answer.
        exact: True if the catalog checked that there was no other write after the read.
        stamps: those that its aspects have now, as far as they are certain.
    """

    merged: MergedEntity
    refusals: tuple[Refusal, ...] = ()
    exact: bool = False
    stamps: Stamps | None = None

    @property
    def urn(self) -> str:
        """The URN of the entity."""
        return self.merged.entity.urn

    @property
    def kind(self) -> Change | Literal["rejected", "still_removed"]:
        """The counter of the report that counts it."""
        if self.refusals:
            return "rejected"
        change = self.merged.change
        return "still_removed" if change == "unchanged" and self.merged.is_removed else change

    @property
    def was_written(self) -> bool:
        """True if a write of it was tried."""
        return bool(self.merged.proposals)
