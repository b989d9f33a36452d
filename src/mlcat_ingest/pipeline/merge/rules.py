"""The rules of one writer: its name, and how each field is merged."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self

from mlcat_ingest.pipeline.merge.base import NOTHING
from mlcat_ingest.recipe.merge import Policy


@dataclass(frozen=True, slots=True)
class MergeRules:
    """How a writer merges. `policies` maps aspect, then field, to what is not `three_way`.

    A writer without a name keeps no base, and therefore takes nothing away: it merges by union.
    """

    writer: str | None
    policies: Mapping[str, Mapping[str, Policy]] = field(default_factory=lambda: NOTHING)
    adds_only: bool = False
    """Whether nothing is taken away, although a base is kept."""

    @property
    def default(self) -> Policy:
        """The policy of every field that `policies` does not name."""
        return "union" if self.adds_only or self.writer is None else "three_way"

    def adding(self) -> Self:
        """Return the rules of this writer by which nothing is taken away."""
        return replace(self, policies=NOTHING, adds_only=True)


UNION: Final = MergeRules(writer=None)
"""The rules of nobody in particular: nothing is taken away, and no base is kept."""
