"""The ledger of a run: the only object that its stages tell what became of records and entities."""

import threading
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Any, Final

from mlcat_ingest.client.base import Evaluation
from mlcat_ingest.links.rules import Links
from mlcat_ingest.metadata.aspects import STATUS
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.state import records
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.pipeline.state.stamps import ReadStamps
from mlcat_ingest.pipeline.state.tracker import TrackedRecord, Tracker
from mlcat_ingest.sources.base import Page

ROWS: Final = 500
"""Rows of records that are written in one transaction, where no batch of entities is."""


class Ledger:
    """Books what becomes of records and entities: in state, report and dead letters.

    Stages compute, and tell nobody else. The order is the rule that a killed run relies on:

    1. `page`, `mapped` and `page_mapped` book what was read; an unusable record is `unusable`.
    2. `begin` comes before the write of a batch: from then on the rows of before equal nothing, and
       results and stamps of its entities do not count.
    3. `settle` comes after it, and before the URNs are released: the end of a pass waits for that.
    4. `evaluated` books what was found of settled entities.
    5. `commit` saves the checkpoints, when all that was read is settled and evaluated.

    A batch costs two transactions of the state, `begin` and `settle`. Safe for several threads.
    """

    def __init__(self, tally: Tally, state: StateSession | None = None) -> None:
        """Book in `tally`, and in `state` once it is open."""
        self.state = StateSession() if state is None else state
        self._tally = tally
        self._tracker = Tracker(self.state, tally.clean)
        self._saving = threading.Lock()
        self.note, self.count = tally.note, tally.count
        self.state_failed = tally.state_failed
        self.report = tally.entities
        """Books in the report alone what became of entities that no row waits for."""
        self.page_mapped, self.folded = self._tracker.touch, self._tracker.fold

    def page(
        self, page: Page[Any], read_stamps: ReadStamps
    ) -> tuple[list[tuple[Any, TrackedRecord | None]], Sequence[str]]:
        """Return the records of `page` that have to be mapped, and the entities of the others.

        Cost: see `Tracker.changes`.
        """
        self._tally.count(records=len(page.records))
        changed, unchanged = self._tracker.changes(page, read_stamps)
        self._tally.passed_over(unchanged, self.state.entities.removed(unchanged))
        return changed, unchanged

    def mapped(
        self,
        record: TrackedRecord | None,
        entities: Sequence[Entity],
        links: Sequence[Links] = (),
        *,
        looked_up: bool = False,
    ) -> tuple[Sequence[Entity], Sequence[str]]:
        """Return those of the entities of a record to merge, and the URNs of unchanged ones.

        If something was `looked_up` in the catalog for them, they are compared, not the record.
        """
        self._tally.features(links)
        has_content = any(entity.aspects or entity.only_if_absent for entity in entities)
        is_same = has_content and not self._tracker.track(record, entities, looked_up=looked_up)
        # A full pass reports of all that it maps, one over changes only of what it merges.
        has_notes = not is_same or (record is not None and record.part.full is not None)
        for entity in entities if has_notes else ():
            self._tally.notes(entity)
        if is_same:
            known = () if record is None else {*record.known_urns}
            unchanged = [one.urn for one in entities if one.only_if_absent or one.urn in known]
            self._tally.passed_over(unchanged, self.state.entities.removed(unchanged))
            return (), unchanged
        if not has_content:
            self._keep(record, [entity.urn for entity in entities])
            return (), ()
        return entities, ()

    def unusable(self, record: TrackedRecord | None, reference: str, reason: str) -> None:
        """Book a record that cannot be mapped: the next pass asks for it again."""
        self._tally.record_failed(reference, reason)
        self._keep(record, () if record is None else record.known_urns, reason)

    def _keep(
        self, record: TrackedRecord | None, urns: Iterable[str], reason: str | None = None
    ) -> None:
        self._tracker.keep(record, urns, reason)
        self._save_many()

    def begin(self, batch: Iterable[MergedEntity]) -> set[str]:
        """Book that a batch is about to be written; return the URNs that no earlier write left.

        Cost: one transaction, which also saves the rows that wait, and which writes have ended.
        """
        urns = [merged.urn for merged in batch]
        with self._saving:
            return self.state.entities.begin(urns, self._tracker.unfinished(urns))

    def ended(self, urns: Iterable[str]) -> None:
        """Book that nothing of a write of entities is unfinished any more."""
        self.state.entities.end(urns)

    def settle(self, outcomes: Sequence[Outcome]) -> None:
        """Book entities of sources: the catalog took or refused them, or nothing has changed.

        Cost: one transaction if any was written.
        """
        self.report(outcomes)
        entities = self.state.entities
        written = [outcome for outcome in outcomes if outcome.was_written]
        # All of it was written, whatever an earlier write left: but for a soft delete, which is of
        # one aspect.
        self.ended(
            outcome.urn
            for outcome in (*written, *(one for one in outcomes if one.kind == "left_out"))
            if not outcome.refusals and outcome.merged.entity.aspects.keys() != {STATUS}
        )
        if not self.state.remembers:
            return
        self._tracker.settle(outcomes)
        # A state that is new does not know yet what was removed before.
        kept = [one for one in outcomes if one.was_written or one.kind == "still_removed"]
        if kept:
            with self._saving:
                entities.settle(kept, self._tracker.take_rows())
        if entities.has_no_base:
            entities.save_bases(one.merged for one in outcomes if not one.was_written)
        self._save_many()

    def shown(self, outcomes: Sequence[Outcome]) -> None:
        """Book the writes of verdicts on entities that are settled: their bases, and their ends.

        Cost: two transactions if there are any.
        """
        if outcomes and self.state.remembers:
            arrived = (outcome.merged for outcome in outcomes if not outcome.refusals)
            self.state.entities.save_bases(arrived)
            self.begin(())

    def evaluated(self, evaluation: Evaluation, without: Collection[str] = ()) -> None:
        """Book results of metadata tests, and the entities that stay `without` one.

        Cost: one transaction if there are any.
        """
        self._tally.tests_evaluated(evaluation)
        outcomes = evaluation.outcomes
        if without:
            outcomes = {urn: outcomes[urn] for urn in outcomes if urn not in without}
        self.state.entities.save_results(outcomes, without)

    def evaluated_all(self, passes: Iterable[PartitionPass], tests: str) -> None:
        """Book that all entities of `passes` were evaluated under the tests of this digest."""
        for part in passes:
            self.state.database.change(partial(part.save_tests, digest=tests))

    def _flush(self) -> bool:
        """Save the rows that wait; return whether the database still takes them."""
        with self._saving:
            if rows := self._tracker.take_rows():
                self.state.database.save((records.SAVE, rows))
        return self.state.remembers

    def _save_many(self) -> None:
        if len(self._tracker.rows) >= ROWS:
            self._flush()

    def drained(self) -> bool:
        """Book that a source was read to its end, and all of it is settled: no row waits.

        Return whether the database still takes them.
        """
        self._tracker.release_held()
        return self._flush()

    def commit(self) -> None:
        """Save the checkpoints of all passes: what they read is settled.

        If something was refused that is of no record, they read everything next time.
        """
        self._tracker.forget()
        if self.drained():
            for part in self.state.partition_passes():
                again = self._tracker.refused_without_record
                self.state.database.change(part.reopen if again else part.commit)

    def reopen(self, passes: Iterable[PartitionPass]) -> None:
        """Have the next run list all that `passes` listed."""
        for part in passes:
            if part.full is None:
                part.finished = None  # its checkpoint stays, so what changed comes again
            else:
                self.state.database.change(part.reopen)

    def absent(self, part: PartitionPass, urns: Iterable[str]) -> None:
        """Book that a complete pass over `part` lacked `urns`, and no others."""
        self.state.entities.replace_absent(part, urns)

    def deleted(self, part: PartitionPass, urns: Iterable[str]) -> None:
        """Book that entities are about to be removed, or are gone: they may come back."""
        self.state.entities.delete(part, urns)

    def invalidate_stamps(self) -> None:
        """Have the next full pass compare every entity by its values."""
        self._flush()
        own = self.state.database
        own.save((records.DELETE_STAMPS, [own.key]))

    def close(self, *, complete: bool) -> None:
        """Save what waits, and end the dead letters of a `complete` run, or of one that failed.

        It comes before the state is closed.
        """
        self.begin(())
        self._tally.letters.close(complete=complete)
