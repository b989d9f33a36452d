"""One run of a recipe: sources are read one after another, their entities merged and written.

    source ─ reader thread ─▶ pages ─ conductor thread: map, link, chunk ─▶ chunks ─▶ workers
    workers: read stored, merge, pack; who fills a batch writes it, then evaluates what it wrote

Everything is bounded, so memory does not grow with the number of runs. The calling thread only
waits, reports the progress, and takes Ctrl-C.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from mlcat_ingest.client.base import Catalog, StoredEntity
from mlcat_ingest.core.findings import RequestSide, longest_pending_request
from mlcat_ingest.core.resources import start_thread
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import (
    LimitError,
    MlcatError,
    NotAuthorizedError,
    interrupt_behind,
)
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.evaluate.evaluator import Evaluator, VerdictWriter
from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGate, QualityGateOptions
from mlcat_ingest.pipeline.flow import Channel, InFlight, StoppedError
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.retract import merge_or_leave
from mlcat_ingest.pipeline.merge.rules import MergeRules
from mlcat_ingest.pipeline.read.chunks import Chunk, Chunker
from mlcat_ingest.pipeline.read.enrich import Enricher
from mlcat_ingest.pipeline.read.feature_tables import (
    PrimaryKeys,
    refuse_collisions,
    refuse_equal_identities,
)
from mlcat_ingest.pipeline.read.lineage import LineageCheck
from mlcat_ingest.pipeline.read.links import Linker
from mlcat_ingest.pipeline.read.pages import PageMapper, request_for
from mlcat_ingest.pipeline.removal.rename import GroupCopier, merge_copy
from mlcat_ingest.pipeline.removal.soft_delete import DeferredRemovals, Removal
from mlcat_ingest.pipeline.removal.unlisted import silent_writers
from mlcat_ingest.pipeline.report.catalog import RecipeListing, publish, system_metadata
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.progress import OnProgress
from mlcat_ingest.pipeline.report.report import (
    LineageSummary,
    PassSummary,
    Report,
    Verdict,
    failure_of,
)
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.pipeline.write.batches import BatchWriter, Merger
from mlcat_ingest.pipeline.write.delivery import Delivery, MakeDelivery
from mlcat_ingest.pipeline.write.searchable import IndexRepair
from mlcat_ingest.pipeline.write.verdicts import Verdicts
from mlcat_ingest.pipeline.write.version_sets import LatestVersions
from mlcat_ingest.recipe.model import Recipe, by_aspect
from mlcat_ingest.sources.base import (
    Changes,
    Everything,
    Finished,
    NullState,
    Page,
    ReadScope,
    Remainder,
    Shards,
    Source,
)

log = logging.getLogger(__name__)

MOST_WORKERS: Final = 16
"""Chunks that are read, merged and written at the same time, at most, so that latencies overlap.

There is one for each connection to the catalog, of 5 MiB at most.
"""

GRACE_S: Final = 3.0
"""Seconds that a stopped run waits for requests under way, to report what they achieved."""

KEEP_EVERY_S: Final = 5.0
"""Seconds between two reports of a run in progress."""

_TICK_S: Final = 0.2

OnReport = Callable[[Report], None]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run, beside its sources and its sink.

    `dead_letters` is the file of what does not arrive, by default none.
    """

    recipe: Recipe
    """Its sources, sink and state are not looked at: the run is given those."""
    dead_letters: DeadLetters = field(default_factory=DeadLetters)
    state: StateSession = field(default_factory=StateSession)
    quality_gate: QualityGateOptions | None = None
    scope: ReadScope = field(default_factory=Changes)
    doing: str = "writing to"
    """Verb for the user: how the run treats its catalog."""
    adopt_since_ms: int | None = None
    """Other states of the recipe's name that have not written since are taken over, unless None."""
    listing: RecipeListing | None = None
    """How the catalog lists the run; None where it does not."""
    run_id: str | None = None
    """Identifier that the program which started the run knows it by; None where there is none."""


class PipelineRun:
    """One run over sources and a sink that are built already; used once."""

    def __init__(
        self,
        sources: Sequence[Source[Any]],
        sink: Catalog,
        options: RunOptions,
        make_delivery: MakeDelivery = Delivery,
    ) -> None:
        """Prepare the stages; nothing is contacted before `execute`."""
        recipe = options.recipe
        self._policies = by_aspect(recipe.merge)
        self._sources = sources
        self._options = options
        self._state = options.state
        self._tally = Tally(recipe.name, options.dead_letters, options.run_id)
        self._ledger = Ledger(self._tally, options.state)
        self._context = context = RunContext(sink, self._ledger)
        self.found_ids: set[str] = set()
        self._threads: list[Future[None]] = []
        self._catalog = ""
        self._unread: dict[int, MlcatError] = {}
        self._failed: list[PassSummary] = []
        self._why_unread = "not read: the run ended before it"
        self._verdict: Verdict | None = None
        self._datasets = LineageSummary()

        gate, spec, merge = options.quality_gate, recipe.evaluate, self._merge
        self._gate = None if gate is None else QualityGate(gate, sink, spec.test_urns)
        verdicts = VerdictWriter(context, sources) if spec.write_back else None
        self._delivery = make_delivery(context, merge)
        show = Verdicts(context, recipe, make_delivery, merge, self._delivery).show
        complete = gate is not None
        self._evaluator = Evaluator(context, spec, complete=complete, verdicts=verdicts, show=show)

        self._keys = PrimaryKeys(sink, partial(self._ledger.note, "primary_keys_not_taken"))
        self._linker = Linker(context)
        self._lineage = LineageCheck(context, recipe.lineage)
        enricher, others = Enricher(recipe.enrich), (self._linker, self._lineage, self._evaluator)
        self._mapper = PageMapper(context, enricher, self._keys, *others)
        self._chunker = Chunker(context)
        # One chunk waits while the workers are busy: more would only take memory.
        self._chunks: Channel[Chunk] = Channel(context.cancellation)

        in_flight = InFlight(context.cancellation)
        self._latest = LatestVersions(context, make_delivery)
        self._writer = BatchWriter(
            context, in_flight, self._delivery, self._evaluator, self._latest
        )
        self._repair = IndexRepair(context, make_delivery)
        self._deferred = DeferredRemovals()
        defer = self._deferred.partition
        self._merger = Merger(context, in_flight, self._writer, self._latest, recipe, merge, defer)

        delivery = make_delivery(context, merge_copy)
        copier = GroupCopier(sink, delivery, self._ledger)
        self._removal = Removal(context, self._deferred, copier, self._keys, recipe.limits)

    def _merge(self, entity: Entity, stored: StoredEntity | None) -> MergedEntity:
        state = self._state
        # A policy that keeps what a source dropped would keep the tag of a test that passes.
        policies = self._policies if entity.verdicts is None else {}
        clears_reused = self._options.recipe.reused_names == "clear"
        rules = MergeRules(state.writer, policies, clears_reused=clears_reused)
        can_read = self._context.sink.facts.keeps
        return merge_or_leave(entity, stored, rules, state.entities.base, can_read=can_read)

    def execute(self, progress: OnProgress | None = None, keep: OnReport | None = None) -> Report:
        """Read, merge, write and evaluate, and return the report.

        Errors and Ctrl-C end the run and are in the report; nothing is raised for them. `keep`
        gets the current report from time to time, so that a killed run leaves one, too.
        """
        sink, cancellation = self._context.sink, self._context.cancellation
        try:
            self._wait(self._start("contact", self._contact), progress)
            self._state.open(
                sink,
                needs_results=self._gate is not None,
                on_problem=self._ledger.state_failed,
            )
            self._state.writer = replace(self._state.writer, name=self._options.recipe.name)
            self._wait(self._start("connect", self._connect), progress)
            log.info("%s %s", self._options.doing, self._catalog)
            count = min(sink.facts.connections, MOST_WORKERS)
            workers = [self._start("write", self._work) for _ in range(count)]
            conductor = self._start("map", lambda: self._conduct(workers))
            self._threads += [*workers, conductor]
            self._wait(conductor, progress, keep)
        except BaseException as error:  # noqa: BLE001 - it is in the report, Ctrl-C too
            cancellation.stop(interrupt_behind(error) or error)
        self._let_finish()
        self._close()
        return self._report(finished=True)

    @property
    def next_removals(self) -> Sequence[str]:
        """The entities that are removed if the next complete pass lacks them, too."""
        return tuple(self._removal.next_pass)

    def _contact(self) -> None:
        self._unread = refuse_equal_identities(self._sources)
        # Where a source does not answer, no empty catalog is left.
        for source in () if self._context.sink.facts.exists else self._sources:
            self._context.cancellation.check()
            next(iter(source.read(request_for(source, self._options.scope, NullState()))), None)

    def _connect(self) -> None:
        self._catalog = self._context.sink.open()
        self._context.sink.system_metadata = system_metadata(self._report(finished=False))
        self._evaluator.open()
        if self._options.adopt_since_ms is not None:
            sink, since_ms = self._context.sink, self._options.adopt_since_ms
            self._state.adopt(silent_writers(sink, self._state.writer, since_ms))

    def _conduct(self, workers: Sequence[Future[None]]) -> None:
        """Read all sources, and end each stage in the order of the data."""
        over_limit = None
        refuse_collisions(self._sources, self._context.sink, self._keys, self._unread)
        failure: BaseException | None = None
        for i, source in enumerate(self._sources):
            begun = len(self._state.partition_passes())
            error = self._unread.get(i) or self._read(source, begun)
            if error is None:
                continue
            self._describe_failure(source, begun, error)
            if not isinstance(error, LimitError):
                failure = error
                break  # what was read before is still written and evaluated
            over_limit = error  # nothing of this source is removed; others are still read
        else:
            self._why_unread = "not read: this run did not list it"
        self._chunks.close()
        wait(workers)
        self._evaluator.flush()
        self._datasets = self._lineage.finish()
        if failure is None and (over_limit or isinstance(self._options.scope, Shards)):
            self._evaluator.catch_up(self._state.partition_passes())
        self._delivery.finish()
        if failure is None and isinstance(self._options.scope, Changes | Everything | Remainder):
            # The sources of earlier runs that this one did not list: nothing of them goes.
            for key, count in self._state.unread_records():
                left = f"{plural(count, 'record')} of a source that this run did not list"
                self._ledger.note("unlisted_kept", f"{key}: {left}")
        if failure or over_limit:
            self._context.cancellation.stop(failure or over_limit)

    def _describe_failure(self, source: Source[Any], begun: int, error: BaseException) -> None:
        """Have the report say why `source` failed, whose passes are from the `begun`-th on."""
        why = f"failed: {failure_of(error).message}"
        name = source.address or source.place or type(source).__name__
        self._why_unread = f"not read: the run ended at {name}"
        passes = self._state.partition_passes()[begun:]
        for part in passes:
            part.why = f"{part.why}; {why}"
        if not passes:
            self._failed.append(PassSummary(source.place, full=False, why=why, label=name))

    def _read(self, source: Source[Any], begun: int) -> BaseException | None:
        """Bring all of `source` into the catalog; return what made that end early.

        Its passes are from the `begun`-th on. With a `LimitError` too much would be removed, so
        nothing was.
        """
        request = request_for(source, self._options.scope, self._state)
        pages: Channel[Page[Any] | Finished] = Channel(self._context.cancellation)

        def read() -> None:
            for page in source.read(request):
                pages.put(page)
            pages.close()

        self._threads.append(start_thread(read, "mlcat-read", pages.close))
        for page in pages:
            if isinstance(page, Finished):
                self._finish_partition(page)
                continue
            entities = self._mapper.entities(source, page)
            self._dispatch(self._chunker.chunks(entities))
        self._drain()
        # What some shards lack may be in others.
        if pages.error is not None or isinstance(self._options.scope, Shards):
            self._deferred.restart()
            return pages.error
        try:
            self._finish_source(source, self._state.partition_passes()[begun:])
        except MlcatError as error:
            if isinstance(error, LimitError):
                # Or the checkpoint would count with that of the next source.
                self._ledger.reopen(self._state.partition_passes()[begun:])
            return error
        finally:
            self._deferred.restart()
        return None

    def _finish_partition(self, finished: Finished) -> None:
        """Keep the checkpoint of a partition until all of it is acknowledged."""
        for note in finished.notes:
            self._ledger.note(note.kind, note.detail)
        self.found_ids.update(finished.found_ids)
        self._removal.named.extend(finished.groups)
        if finished.index is not None:
            self._linker.add(finished.index)
        if isinstance(finished.partition, PartitionPass) and finished.checkpoint is not None:
            finished.partition.finished = finished.checkpoint, finished.complete

    def _finish_source(self, source: Source[Any], passes: Sequence[PartitionPass]) -> None:
        """Remove what `source` lacks, evaluate what has no result, and save the checkpoints."""
        self._ledger.drained()
        gone = self._removal.after(source, passes)
        self._dispatch(self._chunker.chunks(gone))
        self._drain()
        self._ledger.drained()
        self._removal.copy_moved()
        self._latest.settle()
        for part in passes if self._context.sink.facts.index else ():
            with suppress(NotAuthorizedError):  # then nothing could be written either
                self._repair.repair(self._removal.unfound(part), part.key.source)
        # A pass after the checkpoint would not read the entities without a result.
        self._evaluator.flush()
        # Shards were evaluated by the runs that wrote them.
        if not isinstance(self._options.scope, Remainder):
            self._evaluator.catch_up(passes)
        self._ledger.commit()

    def _dispatch(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            self._writer.claim(chunk)
            self._chunks.put(chunk)

    def _drain(self) -> None:
        """Write what was read so far, to the last entity."""
        self._dispatch(self._chunker.rest())
        self._writer.drain()

    def _work(self) -> None:
        for chunk in self._chunks:
            self._merger.merge(chunk)

    def _report(self, *, finished: bool) -> Report:
        error = self._context.cancellation.cause
        return self._tally.report(
            catalog=self._catalog,
            passes=[
                *self._failed,
                *self._state.pass_summaries(self._why_unread if finished and error else None),
            ],
            source_requests=sum(source.traffic.requests_made() for source in self._sources),
            catalog_requests=self._context.sink.traffic.requests_made(),
            error=error,
            finished=finished,
            gate=self._verdict,
            lineage=self._datasets,
            group_page=self._context.sink.facts.group_page,
        )

    def _close(self) -> None:
        """Judge, publish the report, and close everything, even where one of these fails.

        The first failure is the run's error, unless it has one already.
        """
        sink, cancellation = self._context.sink, self._context.cancellation
        closings: list[Callable[[], None]] = [
            *(source.close for source in self._sources),
            self._judge,
            self._publish,
            lambda: sink.close(complete=cancellation.cause is None),
            self._deferred.close,
            lambda: self._ledger.close(complete=cancellation.cause is None),
            self._state.close,
        ]
        for close in closings:
            try:
                close()
            except BaseException as error:  # a file that cannot be finished is a failed run
                log.debug("closing failed", exc_info=True)
                cancellation.stop(error)

    def _judge(self) -> None:
        """Look at the results of metadata tests, while the state and the catalog are open."""
        cause = self._context.cancellation.cause
        if self._gate is not None and not isinstance(cause, KeyboardInterrupt):
            known, evaluation = self._state.entities, self._tally.evaluation
            self._verdict = self._gate.judge(known, evaluation, ask_names=cause is None)

    def _publish(self) -> None:
        """Write the report to the catalog, if it is open and keeps anything."""
        listing, sink = self._options.listing, self._context.sink
        if listing is None or not self._catalog or not sink.facts.keeps:
            return
        problem = publish(self._report(finished=True), listing, sink)
        if problem is not None:
            self._ledger.note("run_not_listed", problem)

    def _start(self, name: str, work: Callable[[], None]) -> Future[None]:
        return start_thread(work, f"mlcat-{name}", on_error=self._stop_run)

    def _stop_run(self, error: BaseException) -> None:
        """Stop the run for the error of a thread, unless it was stopped already."""
        if not isinstance(error, StoppedError):
            log.debug("%s failed", threading.current_thread().name, exc_info=error)
            self._context.cancellation.stop(error)

    def _wait(
        self, work: Future[None], progress: OnProgress | None, keep: OnReport | None = None
    ) -> None:
        going = True
        kept_s = -KEEP_EVERY_S
        while going:
            wait([work], _TICK_S)
            going = not work.done() and not self._context.cancellation.stopped
            if progress is not None:
                pending = longest_pending_request(*self._sides())
                progress(replace(self._tally.progress(), pending_request=pending))
            if keep is not None and time.monotonic() - kept_s >= KEEP_EVERY_S:
                kept_s = time.monotonic()
                keep(self._report(finished=False))
        self._context.cancellation.check()

    def _sides(self) -> list[RequestSide]:
        return [*(source.traffic for source in self._sources), self._context.sink.traffic]

    def _let_finish(self) -> None:
        """Give requests under way a moment, so that what they achieve is counted."""
        if self._context.cancellation.stopped:
            for side in self._sides():
                side.end_waits()
        try:
            wait(self._threads, GRACE_S)
        except KeyboardInterrupt:
            log.debug("not waiting for requests under way")
