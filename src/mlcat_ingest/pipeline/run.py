"""One run of a recipe: sources are read one after another, their entities merged and written.

    source ─ reader thread ─▶ pages ─ conductor thread: map, link, chunk ─▶ chunks ─▶ workers
    workers: read stored, merge, pack; who fills a batch writes it, then evaluates what it wrote

Everything is bounded, so memory does not grow with the number of runs. The calling thread only
waits, tells the progress, and takes Ctrl-C.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.pending import longest_pending_request
from mlcat_ingest.core.resources import start_thread
from mlcat_ingest.errors import LimitError, MlcatError
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.ending import Ending
from mlcat_ingest.pipeline.evaluate.evaluator import Evaluator
from mlcat_ingest.pipeline.evaluate.quality_gate import QualityGate, QualityGateOptions
from mlcat_ingest.pipeline.flow.queues import Cancellation, Channel, InFlight, StoppedError
from mlcat_ingest.pipeline.merge.entity import Merge, merge_entity
from mlcat_ingest.pipeline.merge.rules import UNION, MergeRules
from mlcat_ingest.pipeline.read.enrich import Enricher
from mlcat_ingest.pipeline.read.feature_tables import PrimaryKeys, refuse_collisions
from mlcat_ingest.pipeline.read.lineage import LineageCheck
from mlcat_ingest.pipeline.read.links import Linker
from mlcat_ingest.pipeline.read.pages import Chunk, Chunker, PageMapper, read_pages, request_for
from mlcat_ingest.pipeline.removal.rename import GroupCopier
from mlcat_ingest.pipeline.removal.soft_delete import DeferredRemovals, Removal
from mlcat_ingest.pipeline.report.catalog import RecipeListing, system_metadata
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.report import Report
from mlcat_ingest.pipeline.report.tally import Mask, Progress, Tally
from mlcat_ingest.pipeline.state.partitions import PartitionPass
from mlcat_ingest.pipeline.state.session import StateSession
from mlcat_ingest.pipeline.write.batches import BatchWriter
from mlcat_ingest.pipeline.write.delivery import Delivery, DeliveryTarget
from mlcat_ingest.pipeline.write.merger import Merger, NewEntityLimit
from mlcat_ingest.recipe import secrets
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.recipe.rules import by_aspect
from mlcat_ingest.sources.base import (
    Changes,
    Finished,
    NullState,
    Page,
    ReadScope,
    Rest,
    Shards,
    Source,
)

log = logging.getLogger(__name__)

WORKERS: Final = 3
"""Chunks that are read, merged and written at the same time, so that latencies overlap.

With two a catalog that is as busy as this process waits for it a seventh of the time; a fourth
would only wait, with 5 MiB in its hands.
"""

GRACE_S: Final = 3.0
"""Seconds that a stopped run waits for requests under way, to report what they achieved."""

KEEP_EVERY_S: Final = 5.0
"""Seconds between two reports of a run that goes on."""

_TICK_S: Final = 0.2

OnProgress = Callable[[Progress], None]
OnReport = Callable[[Report], None]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of a run, beside its sources and its sink."""

    recipe: Recipe
    """Its sources, sink and state are not looked at: the run is given those."""
    dead_letters: Path | None = None
    add_dead_letters: bool = False
    """True for one more part of a run that wrote to the same file before."""
    on_dead_letter: Callable[[str], object] = str
    """Called with the URN, or the name of the record, of what does not arrive."""
    mask: Mask = secrets.mask
    state: StateSession = field(default_factory=StateSession)
    quality_gate: QualityGateOptions | None = None
    scope: ReadScope = field(default_factory=Changes)
    doing: str = "writing to"
    """Verb for the user: how the run treats its catalog."""
    listing: RecipeListing | None = None
    """How the catalog lists the run; None where it does not."""


MakeDelivery = Callable[[Catalog, Merge, Tally, Cancellation], DeliveryTarget]


class PipelineRun:
    """One run over sources and a sink that are built already; used once."""

    def __init__(
        self,
        sources: Sequence[Source[Any]],
        sink: Catalog,
        options: RunOptions,
        delivery: MakeDelivery = Delivery,
    ) -> None:
        """Prepare the stages, with what `delivery` makes; nothing is contacted before `execute`."""
        self._sources = sources
        self._sink = sink
        self._doing = options.doing
        self._scope = options.scope
        self.found_ids: set[str] = set()
        self._state = options.state
        self._cancellation = Cancellation()
        self._in_flight = InFlight(self._cancellation)
        letters = _letters_of(options)
        recipe = options.recipe
        self._tally = Tally(recipe.name, options.mask, letters)
        self._linker = Linker(sink, self._tally, self._cancellation)
        self._keys = PrimaryKeys(sink, partial(self._tally.note, "primary_keys_not_taken"))
        self._mapper = self._mapping(options)
        self._chunker = Chunker(self._tally, self._state.tracker.entity_folded)
        self._deferred = DeferredRemovals()
        self._lineage = LineageCheck(sink, self._tally, self._cancellation, recipe.lineage)
        # One chunk waits while the workers are busy: more would only take memory.
        self._chunks: Channel[Chunk] = Channel(self._cancellation, 1)
        self._evaluator = Evaluator(
            sink,
            recipe.evaluate,
            self._state.tracker.results,
            self._tally,
            self._cancellation,
            complete=options.quality_gate is not None,
        )
        self._delivery, self._writer, self._merger, self._removal = self._writing(options, delivery)
        self._ending = Ending(
            sources,
            sink,
            options.state,
            self._tally,
            self._cancellation,
            self._deferred,
            letters,
            quality_gate=_gate_of(options, sink),
            listing=options.listing,
        )
        self._threads: list[Future[None]] = []

    def _mapping(self, options: RunOptions) -> PageMapper:
        """Return the stage from records to entities."""
        return PageMapper(
            Enricher(options.recipe.enrich),
            self._keys,
            self._linker,
            options.state.tracker,
            self._tally,
            self._pass_over,
        )

    def _writing(
        self, options: RunOptions, delivery: MakeDelivery
    ) -> tuple[DeliveryTarget, BatchWriter, Merger, Removal]:
        """Return the stages from an entity to the catalog."""
        recipe, tracker = options.recipe, self._state.tracker
        rules = MergeRules(recipe.name, by_aspect(recipe.merge))
        merge = partial(merge_entity, rules=rules, remembered=tracker.bases.get)

        def deliver(merge: Merge) -> DeliveryTarget:
            return delivery(self._sink, merge, self._tally, self._cancellation)

        last = deliver(merge)
        writer = BatchWriter(
            last,
            self._in_flight,
            self._evaluator,
            tracker,
            self._tally,
            batch_size=self._sink.facts.batch_size,
        )
        merger = Merger(
            self._sink,
            writer,
            self._in_flight,
            self._evaluator,
            tracker,
            NewEntityLimit(recipe.limits),
            self._tally,
            merge,
            self._deferred.partition,
            deliver,
        )
        removal = Removal(
            self._sink,
            tracker,
            self._deferred,
            GroupCopier(self._sink, deliver(partial(merge_entity, rules=UNION))),
            self._keys,
            self._tally.note,
            writer=recipe.name,
            limits=recipe.limits,
        )
        return last, writer, merger, removal

    def execute(self, progress: OnProgress | None = None, keep: OnReport | None = None) -> Report:
        """Read, merge, write and evaluate, and return the report.

        Errors and Ctrl-C end the run and are in the report; nothing is raised for them. `keep`
        gets the current report from time to time, so that a killed run leaves one, too.
        """
        try:
            if not self._sink.facts.exists:
                self._wait(self._start("contact", self._contact), progress)
                self._cancellation.check()
            self._state.open(self._sink, needs_results=self._ending.quality_gate is not None)
            self._wait(self._start("connect", self._connect), progress)
            self._cancellation.check()
            log.info("%s %s", self._doing, self._ending.catalog)
            workers = [self._start("write", self._work) for _ in range(WORKERS)]
            conductor = self._start("map", lambda: self._conduct(workers))
            self._threads += [*workers, conductor]
            self._wait(conductor, progress, keep)
        except BaseException as error:  # noqa: BLE001 - it is in the report, Ctrl-C too
            self._cancellation.stop(error)
        self._let_finish()
        self._ending.close()
        return self._ending.report(finished=True)

    @property
    def next_removals(self) -> Sequence[str]:
        """The entities that go if the next complete pass lacks them as this one did."""
        return tuple(self._removal.next_pass)

    def _connect(self) -> None:
        self._ending.catalog = self._sink.open()
        self._sink.system_metadata = system_metadata(self._ending.report(finished=False))
        self._evaluator.open()

    def _contact(self) -> None:
        """Read a page of every source: where one does not answer, no empty catalog is left."""
        for source in self._sources:
            next(iter(source.read(request_for(source, self._scope, NullState()))), None)

    def _start(self, name: str, work: Callable[[], None]) -> Future[None]:
        return start_thread(work, f"mlcat-{name}", on_error=self._stop_run)

    def _stop_run(self, error: BaseException) -> None:
        """Stop the run for the error of a thread, unless it was stopped already."""
        if not isinstance(error, StoppedError):
            log.debug("%s failed", threading.current_thread().name, exc_info=error)
            self._cancellation.stop(error)

    def _wait(
        self, work: Future[None], progress: OnProgress | None, keep: OnReport | None = None
    ) -> None:
        going = True
        kept_s = -KEEP_EVERY_S
        while going:
            wait([work], _TICK_S)
            going = not work.done() and not self._cancellation.stopped
            if progress is not None:
                pending_request = longest_pending_request(*self._sources, self._sink.traffic)
                progress(replace(self._tally.progress(), pending_request=pending_request))
            if keep is not None and time.monotonic() - kept_s >= KEEP_EVERY_S:
                kept_s = time.monotonic()
                keep(self._ending.report(finished=False))

    def _conduct(self, workers: Sequence[Future[None]]) -> None:
        over_limit = None
        unlisted = refuse_collisions(self._sources, self._sink, self._keys)
        failure: BaseException | None = None
        for i, source in enumerate(self._sources):
            try:
                failure = unlisted.get(i) or self._read(source)
            except LimitError as error:
                over_limit = error  # nothing of this source is removed; others are still read
            if failure is not None:
                break  # what was read before is still written and evaluated
        self._chunks.close()
        wait(workers)
        self._evaluator.flush()
        self._delivery.finish()
        self._lineage.finish()
        if failure is None and (over_limit or isinstance(self._scope, Shards)):
            self._evaluator.catch_up(self._state.partition_passes())
        if failure or over_limit:
            self._cancellation.stop(failure or over_limit)

    def _read(self, source: Source[Any]) -> BaseException | None:
        """Bring all of `source` into the catalog; return what made its reading end early.

        Raises:
            LimitError: too much would be removed, so nothing was.
        """
        read_before = len(self._state.partition_passes())
        request = request_for(source, self._scope, self._state)
        pages: Channel[Page[Any] | Finished] = Channel(self._cancellation, 1)
        reader = start_thread(lambda: read_pages(source, request, pages), "mlcat-read", pages.close)
        self._threads.append(reader)
        for page in pages:
            if isinstance(page, Finished):
                self._finish(page)
                continue
            entities = self._mapper.entities(source, page)
            self._dispatch(self._chunker.chunks(self._lineage.watch(entities)))
        self._drain()
        try:
            # What some shards lack may be in others.
            if pages.error is None and not isinstance(self._scope, Shards):
                parts = self._state.partition_passes()[read_before:]
                gone = self._removal.after(source, parts)
                self._dispatch(self._chunker.chunks(gone))
                self._drain()
                self._merger.latest.settle()
                # A pass after the checkpoint would not read the entities without a result.
                self._evaluator.flush()
                # Units were evaluated by those who wrote them.
                if not isinstance(self._scope, Rest):
                    self._evaluator.catch_up(parts)
                self._state.commit()
        except LimitError:
            # Or the checkpoint would count with that of the next source.
            self._state.tracker.reopen(self._state.partition_passes()[read_before:])
            raise
        except MlcatError as error:
            return error
        finally:
            self._deferred.restart()
        return pages.error

    def _finish(self, finished: Finished) -> None:
        """Keep what the end of a partition says, for when all of it is acknowledged."""
        self.found_ids.update(finished.found_ids)
        if finished.index is not None:
            self._linker.add(finished.index)
        if isinstance(finished.partition, PartitionPass) and finished.checkpoint is not None:
            finished.partition.finish(finished.checkpoint, complete=finished.complete)

    def _drain(self) -> None:
        """Write what was read so far, to the last entity."""
        self._dispatch(self._chunker.rest())
        while not self._in_flight.wait_until_idle():
            self._writer.flush()

    def _pass_over(self, urns: Sequence[str]) -> None:
        """Count entities whose records did not change since the catalog acknowledged them."""
        for entity_type, count in Counter(map(entity_type_of, urns)).items():
            self._tally.entities_passed_over(entity_type, count)
        self._evaluator.add_unchanged(urns)

    def _dispatch(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            moves = self._in_flight.moves
            while not self._in_flight.claim(chunk.entities, chunk.version_sets):
                if not self._writer.flush():
                    self._in_flight.wait_for_move(moves)
                moves = self._in_flight.moves
            self._chunks.put(chunk)

    def _work(self) -> None:
        for chunk in self._chunks:
            self._merger.merge(chunk.entity_type, chunk.entities)

    def _let_finish(self) -> None:
        """Give requests under way a moment, so that what they achieve is counted."""
        if self._cancellation.stopped:
            for side in (*self._sources, self._sink.traffic):
                side.end_waits()
        try:
            wait(self._threads, GRACE_S)
        except KeyboardInterrupt:
            log.debug("not waiting for requests under way")


def _letters_of(options: RunOptions) -> DeadLetters:
    return DeadLetters(
        options.dead_letters,
        options.mask,
        options.on_dead_letter,
        add=options.add_dead_letters,
    )


def _gate_of(options: RunOptions, sink: Catalog) -> QualityGate | None:
    if options.quality_gate is None:
        return None
    return QualityGate(options.quality_gate, sink, options.recipe.evaluate.test_urns)
