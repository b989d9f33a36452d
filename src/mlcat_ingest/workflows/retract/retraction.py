"""A retraction: what a recipe wrote is listed, shown as a plan, and then taken back."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Self

from mlcat_ingest.client.base import Catalog
from mlcat_ingest.core.closing import Closing
from mlcat_ingest.errors import MlcatError, RecipeError
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.flow.queues import Gate
from mlcat_ingest.pipeline.merge import MergedEntity, retract_entity, whole_entity
from mlcat_ingest.pipeline.merge.stored import read_stored
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.report import EXIT_OK, Progress, Report
from mlcat_ingest.pipeline.report.tally import Mask, Standing, Tally
from mlcat_ingest.pipeline.state.memory import StateOptions
from mlcat_ingest.pipeline.state.session import StatePolicy, StateSession
from mlcat_ingest.pipeline.write.delivery import Delivery
from mlcat_ingest.sources.base import Source
from mlcat_ingest.workflows.plan.plan import Plan
from mlcat_ingest.workflows.plan.spool import PlanSpool
from mlcat_ingest.workflows.retract.listing import UrnList, in_chunks, list_ours

log = logging.getLogger(__name__)

OnProgress = Callable[[Progress], None]


class Retraction(Closing):
    """What one recipe wrote to its catalog, to be taken back. Used as a context, once.

    While it is open, no run of the recipe can begin.
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[Source[Any]],
        sink: Catalog,
        state_url: str,
        dead_letters: Path | None,
        mask: Mask,
    ) -> None:
        """Keep the sides; nothing is contacted.

        Raises:
            RecipeError: the sink holds nothing that could be taken back.
        """
        if not sink.keeps:
            raise RecipeError(
                f"the recipe {name!r} writes to a sink that keeps nothing to take back",
                hint="name the catalog in its `sink`",
            )
        self._name = name
        self._sources = sources
        self._sink = sink
        self._state = StateSession(state_url, StateOptions(name), StatePolicy.EXISTING, mask)
        self._dead_letters = dead_letters
        self._mask = mask
        self._merge = partial(retract_entity, writer=name)
        self._catalog = ""
        self._spool: PlanSpool

    def __enter__(self) -> Self:
        """Take the recipe's lock and connect.

        Raises:
            RecipeLockedError: a run of the recipe is at work.
            MlcatError: the state or the catalog cannot be used.
        """
        self._spool = PlanSpool()
        with ExitStack() as unless_open:
            unless_open.callback(self.close)
            self._state.open(self._sink)
            self._catalog = self._sink.open(read_only=True)
            unless_open.pop_all()
        return self

    def close(self) -> None:
        """Let go of everything; `with` does so at its end."""
        self._spool.close()
        self._sink.close()
        self._state.close()

    def plan(self, progress: OnProgress | None = None) -> Plan:
        """Return what would be taken back, until this is closed; nothing is written.

        Raises:
            MlcatError: what was written cannot be listed or read.

        Cost: a request for each 1,000 entities listed, and one for each batch read.
        """
        tally = Tally(self._name, self._mask)
        urns = UrnList()
        try:
            list_ours(urns, self._state, self._sink, self._sources, self._name)
            for chunk in in_chunks(urns):
                for one in self._read(chunk, tally):
                    self._spool.add(one)
                if progress is not None:
                    progress(tally.progress())
        finally:
            urns.close()
        return Plan(self._report(tally), self._spool)

    def execute(self, progress: OnProgress | None = None) -> Report:
        """Take back what `plan` found, and return what came of it.

        Each entity is read again, so that what was written since the plan stays. Errors and Ctrl-C
        are in the report. What is remembered is invalidated before the first write, and deleted
        when everything has arrived.

        Cost: a read and a write request for each batch of entities.
        """
        letters = DeadLetters(self._dead_letters, self._mask)
        tally = Tally(self._name, self._mask, letters)
        delivery = Delivery(self._sink, self._merge, tally, Gate())
        error: BaseException | None = None
        try:
            self._state.invalidate()
            for chunk in in_chunks(self._spool.urns()):
                changed = list(self._read(chunk, tally))
                if changed:
                    tally.entities_written(delivery.deliver(changed))
                if progress is not None:
                    progress(tally.progress())
            if self._report(tally).exit_code == EXIT_OK:
                self._state.delete()
        except (MlcatError, KeyboardInterrupt) as caught:
            error = caught
        letters.close(complete=error is None)
        return self._report(tally, error)

    def _read(self, urns: Iterable[str], tally: Tally) -> Iterator[MergedEntity]:
        """Yield those of some entities of one type that hold something of ours."""
        entities = [whole_entity(urn) for urn in urns]
        stored = read_stored(self._sink, entities)
        merged = [self._merge(one, stored.get(one.urn)) for one in entities]
        tally.entities_merged(entity_type_of(entities[0].urn), merged)
        yield from (one for one in merged if one.proposals)

    def _report(self, tally: Tally, error: BaseException | None = None) -> Report:
        standing = Standing(
            catalog=self._catalog,
            passes=(),
            source_requests=sum(source.requests_made() for source in self._sources),
            catalog_requests=self._sink.requests_made,
            error=error,
        )
        return tally.report(standing)
