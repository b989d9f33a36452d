"""The end of a run: what metadata tests say of it, its report, and everything closed."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.pipeline.evaluate.gate import MetadataGate
from mlcat_ingest.pipeline.flow.queues import Gate
from mlcat_ingest.pipeline.removal import Withheld
from mlcat_ingest.pipeline.report.catalog import RecipeListing, publish
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.report.tally import Standing, Tally
from mlcat_ingest.pipeline.report.verdict import Verdict
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.sources.base import Source

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Ending:
    """Reports on a run, now and then and at its end, and closes what it used.

    Attributes:
        metadata_gate: looks at the results of metadata tests, once nothing more is written.
        listing: how the catalog lists the run; None where it is not told of it.
        catalog: the line for the user that says where the run writes, once that is known.
        verdict: what the metadata gate said.
    """

    sources: Sequence[Source[Any]]
    sink: Catalog
    state: StateSession
    tally: Tally
    gate: Gate
    withheld: Withheld
    letters: DeadLetters
    metadata_gate: MetadataGate | None
    listing: RecipeListing | None
    catalog: str = ""
    verdict: Verdict | None = None

    def report(self, *, finished: bool) -> Report:
        """Return the report of the run as it stands."""
        return self.tally.report(
            Standing(
                catalog=self.catalog,
                passes=self.state.pass_summaries(failed=finished and self.gate.cause is not None),
                source_requests=sum(source.requests_made() for source in self.sources),
                catalog_requests=self.sink.requests_made,
                error=self.gate.cause,
                finished=finished,
                gate=self.verdict,
            )
        )

    def close(self) -> None:
        """Judge, tell the catalog, and close everything, whatever becomes of one of these.

        What fails first is the run's error, unless it has one already.
        """
        closings: list[Callable[[], None]] = [source.close for source in self.sources]
        closings.extend([self._judge, self._publish])
        closings.append(lambda: self.sink.close(complete=self.gate.cause is None))
        closings.append(self.state.close)
        closings.append(self.withheld.close)
        closings.append(lambda: self.letters.close(complete=self.gate.cause is None))
        for close in closings:
            try:
                close()
            except BaseException as error:  # a file that cannot be finished is a failed run
                log.debug("closing failed", exc_info=True)
                self.gate.stop(error)

    def _judge(self) -> None:
        """Look at the results of metadata tests, while the state and the catalog are open."""
        cause = self.gate.cause
        if self.metadata_gate is not None and not isinstance(cause, KeyboardInterrupt):
            self.verdict = self.metadata_gate.judge(
                self.state.tracker.outcomes, self.tally.not_evaluated, ask_names=cause is None
            )

    def _publish(self) -> None:
        """Write the report to the catalog, if it is open and keeps anything."""
        if self.listing is None or not self.catalog or not self.sink.keeps:
            return
        problem = publish(self.report(finished=True), self.listing, self.sink)
        if problem is not None:
            self.tally.note("run_not_listed", problem)
