"""A plan as a value: what would happen to each entity, and what it comes to."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from mlcat_ingest.core.closing import Closing
from mlcat_ingest.metadata.reserved import MAX_REQUEST_ITEMS
from mlcat_ingest.pipeline.report.report import EXIT_OK, EXIT_PARTIAL, EXIT_PENDING, Report
from mlcat_ingest.workflows.plan.diff import Action, EntityDiff
from mlcat_ingest.workflows.plan.spool import PlanSpool

ACTIONS: Final[tuple[Action, ...]] = ("create", "update", "remove", "revive")


class Plan(Closing):
    """What a run would write; `report` says how the planning went.

    Closing it lets go of its temporary file.
    """

    def __init__(
        self, report: Report, spool: PlanSpool, batch_size: int = MAX_REQUEST_ITEMS
    ) -> None:
        """Keep what the planning run found; a write request has up to `batch_size` proposals."""
        self.report = report
        self.batch_size = batch_size
        self._spool = spool

    def entities(self) -> Iterator[EntityDiff]:
        """Yield what would happen to each entity, by type and URN."""
        return self._spool.diffs()

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        self._spool.close()


class Totals:
    """What the entities of a plan come to, counted as they pass."""

    def __init__(self, batch_size: int = MAX_REQUEST_ITEMS) -> None:
        """Start with none; a write request has up to `batch_size` proposals."""
        self._batch_size = batch_size
        self.actions: dict[str, Counter[Action]] = {}
        self.bookkeeping: Counter[str] = Counter()
        self.proposals = 0

    def add(self, one: EntityDiff) -> None:
        """Count an entity."""
        kind = one.entity_type
        counts = self.actions.setdefault(kind, Counter())
        counts[one.action] += 1
        if one.action == "update" and not one.aspects:
            self.bookkeeping[kind] += 1
        self.proposals += one.proposals

    @property
    def entities(self) -> int:
        """How many entities would be written."""
        return sum(counts.total() for counts in self.actions.values())

    @property
    def write_requests(self) -> int:
        """How many requests writing them would take, if nothing is refused."""
        return -(-self.proposals // self._batch_size)


def exit_code_of_plan(report: Report, totals: Totals, *, tell_pending: bool) -> int:
    """Return the exit status of a plan: that of its run, but for what only writing can tell.

    With `tell_pending` it is 5 where there is something to write.
    """
    if report.exit_code not in {EXIT_OK, EXIT_PARTIAL}:
        return report.exit_code
    return EXIT_PENDING if tell_pending and totals.entities else EXIT_OK
