"""The end of a run: what metadata tests say of it, its report, and everything closed."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGate
from mlcat_ingest.pipeline.flow.queues import Cancellation
from mlcat_ingest.pipeline.removal.soft_delete import DeferredRemovals
from mlcat_ingest.pipeline.report.catalog import RecipeListing, publish
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.report.tally import RunStatus, Tally
from mlcat_ingest.pipeline.report.verdict import Verdict
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.sources.base import Source

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Ending:
    """Reports on a run, now and then and at its end, and closes what it used.

    Attributes:
        quality_gate: looks at the results of metadata tests, once nothing more is written.
        listing: how the catalog lists the run; None where it does not.
        catalog: the line for the user that says where the run writes, once that is known.
        verdict: the verdict of the quality gate.
    """

    sources: Sequence[Source[Any]]
    sink: Catalog
    state: StateSession
    tally: Tally
    cancellation: Cancellation
    deferred: DeferredRemovals
    letters: DeadLetters
    quality_gate: QualityGate | None
    listing: RecipeListing | None
    catalog: str = ""
    verdict: Verdict | None = None

    def report(self, *, finished: bool) -> Report:
        """Return the report of the run as it stands."""
        error = self.cancellation.cause
        return self.tally.report(
            RunStatus(
                catalog=self.catalog,
                passes=self.state.pass_summaries(failed=finished and error is not None),
                source_requests=sum(source.requests_made() for source in self.sources),
                catalog_requests=self.sink.traffic.requests_made(),
                error=error,
                finished=finished,
                gate=self.verdict,
            )
        )

    def close(self) -> None:
        """Judge, publish the report, and close everything, even where one of these fails.

        The first failure is the run's error, unless it has one already.
        """
        closings: list[Callable[[], None]] = [source.close for source in self.sources]
        closings.extend([self._judge, self._publish])
        closings.append(lambda: self.sink.close(complete=self.cancellation.cause is None))
        closings.append(self.state.close)
        closings.append(self.deferred.close)
        closings.append(lambda: self.letters.close(complete=self.cancellation.cause is None))
        for close in closings:
            try:
                close()
            except BaseException as error:  # a file that cannot be finished is a failed run
                log.debug("closing failed", exc_info=True)
                self.cancellation.stop(error)

    def _judge(self) -> None:
        """Look at the results of metadata tests, while the state and the catalog are open."""
        cause = self.cancellation.cause
        if self.quality_gate is not None and not isinstance(cause, KeyboardInterrupt):
            self.verdict = self.quality_gate.judge(
                self.state.tracker.results,
                self.tally.not_evaluated,
                self.tally.unevaluated_tests,
                ask_names=cause is None,
            )

    def _publish(self) -> None:
        """Write the report to the catalog, if it is open and keeps anything."""
        if self.listing is None or not self.catalog or not self.sink.facts.keeps:
            return
        problem = publish(self.report(finished=True), self.listing, self.sink)
        if problem is not None:
            self.tally.note("run_not_listed", problem)
