"""Retraction: what a recipe wrote is listed, shown as a plan, and taken back from the catalog."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import product
from pathlib import Path
from typing import Any, Self

from mlcat_ingest.client.base import CANNOT_ANSWER, Catalog, StoredEntity
from mlcat_ingest.client.rest.search import SEARCHABLE
from mlcat_ingest.core.resources import Closing
from mlcat_ingest.errors import MlcatError, ProtocolMismatchError, RecipeError
from mlcat_ingest.metadata.proposal import Entity
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.ledger import Ledger
from mlcat_ingest.pipeline.merge.entity import MergedEntity
from mlcat_ingest.pipeline.merge.retract import retract_entity, whole_entity
from mlcat_ingest.pipeline.outcome import Outcome
from mlcat_ingest.pipeline.removal.unlisted import silent_writers
from mlcat_ingest.pipeline.report.dead_letters import DeadLetters
from mlcat_ingest.pipeline.report.progress import OnProgress
from mlcat_ingest.pipeline.report.report import EXIT_OK, Report
from mlcat_ingest.pipeline.report.tally import Tally
from mlcat_ingest.pipeline.state.opening import is_missing
from mlcat_ingest.pipeline.state.session import StateOptions, StateSession
from mlcat_ingest.pipeline.write.conflicts import PermittedReads
from mlcat_ingest.pipeline.write.delivery import Delivery, MakeDelivery
from mlcat_ingest.pipeline.write.incidents import Incidents
from mlcat_ingest.pipeline.write.searchable import UrnList, in_chunks
from mlcat_ingest.pipeline.write.version_sets import LatestVersions
from mlcat_ingest.sources.base import AskedState, ReadRequest, Source
from mlcat_ingest.workflows.plan import Plan
from mlcat_ingest.workflows.plan_catalog import PlannedCatalog, PlannedDelivery
from mlcat_ingest.workflows.plan_store import PlanStore

log = logging.getLogger(__name__)


def _list_ours(
    urns: UrnList, state: StateSession, sink: Catalog, sources: Sequence[Source[Any]], recipe: str
) -> None:
    """Add to `urns` the entities that may hold something `recipe` wrote.

    Those are the entities of the records in its state, and all, removed ones too, that the catalog
    says came from the same sources. Without state, the sources are read for their names; without
    sources, all that the catalog says came from any are added.

    Raises:
        ProtocolMismatchError: nothing is remembered, and the catalog cannot be searched.

    Cost: one request for each 1,000 entities; a full reading of the sources where nothing is
    remembered.
    """
    remembered = False
    for known_urns in state.urns():
        remembered = True
        urns.add(known_urns)
    keys: Sequence[str | None] = [None]
    if sources:
        keys = state.source_keys() or _keys_of(sources)
    try:
        for key in keys:
            # What a run removed is in no state, and comes back with the name of its source.
            for entity_type, removed in product(SEARCHABLE, (False, True)):
                listed = sink.search.entities_of_source(entity_type, key, removed=removed)
                for page in listed.pages:
                    urns.add(page)
    except CANNOT_ANSWER as error:
        if not remembered:
            raise ProtocolMismatchError(
                f"the entities of {recipe!r} cannot be listed, so nothing was changed: it has "
                f"no state, and the catalog cannot be searched: {error.message}",
                hint=error.hint,
            ) from error
        log.warning(
            "the catalog cannot be searched, so only entities in the state count: %s", error
        )


def _keys_of(sources: Sequence[Source[Any]]) -> list[str]:
    state = AskedState()
    for source in sources:
        with closing(source):
            for _ in source.read(ReadRequest(state=state)):
                pass  # further partitions may come with further pages
    return list(dict.fromkeys(partition.key for partition, _ in state.asked))


class Retraction(Closing):
    """Retracts from its catalog what one recipe wrote. Used as a context, once.

    While it is open, no run of the recipe can begin.
    """

    def __init__(
        self,
        name: str,
        sources: Sequence[Source[Any]],
        sink: Catalog,
        state_url: str | None,
        dead_letters: Path | None,
        writer_ids: Sequence[str] | None = None,
        adopt_since_ms: int | None = None,
    ) -> None:
        """Keep the sides; nothing is contacted. Without `sources`, all of the catalog is searched.

        Raises:
            RecipeError: the sink holds nothing that could be taken back.
        """
        if not sink.facts.keeps:
            raise RecipeError(
                f"the recipe {name!r} has a sink that keeps no entities to retract",
                hint="set `sink` to the catalog",
            )
        self._name = name
        self._sources = sources
        self._sink = sink
        # Whoever names a recipe that is not at hand means all that was written by its name.
        ids = writer_ids or (None if sources else ())
        options = StateOptions(name, writer_ids=ids)
        # Nothing is made where there is no database.
        url = None if state_url is None or is_missing(state_url) else state_url
        self._state = StateSession(url, options)
        self._reads = PermittedReads(sink, self._state)
        self._dead_letters = dead_letters
        self._adopt_since_ms = adopt_since_ms
        self._catalog = ""
        self._store: PlanStore

    def __enter__(self) -> Self:
        """Take the recipe's lock and connect.

        Raises:
            RecipeLockedError: a run of the recipe is at work.
            MlcatError: the state or the catalog cannot be used.
        """
        self._store = PlanStore()
        with ExitStack() as unless_open:
            unless_open.callback(self.close)
            self._state.open(self._sink, required=True)
            self._catalog = self._sink.open(read_only=True)
            if self._adopt_since_ms is not None:
                writer = self._state.writer
                self._state.adopt(silent_writers(self._sink, writer, self._adopt_since_ms))
            unless_open.pop_all()
        return self

    def close(self) -> None:
        """Release all resources; `with` does so at its end."""
        self._store.close()
        self._sink.close()
        self._state.close()

    def plan(self, progress: OnProgress | None = None) -> Plan:
        """Return what would be taken back, until this is closed; nothing is written.

        Raises:
            MlcatError: what was written cannot be listed or read.

        Cost: a request for each 1,000 entities listed, and one for each batch read.
        """
        tally = Tally(self._name)
        context = RunContext(PlannedCatalog(self._sink, self._store), Ledger(tally))
        planned = PlannedDelivery(self._store, context)
        with closing(UrnList()) as urns:
            _list_ours(urns, self._state, self._sink, self._sources, self._name)
            for _ in self._deliver(urns, context, planned, lambda *_: planned):
                if progress is not None:
                    progress(tally.progress())
        return Plan(self._report(tally), self._store)

    def execute(self, progress: OnProgress | None = None) -> Report:
        """Take back what `plan` found, and return the report.

        Each entity is read again, so that entries written since the plan stay. Errors and Ctrl-C
        are in the report. State is invalidated before the first write, and deleted after the last
        acknowledged one.

        Cost: a read and a write request for each batch of entities.
        """
        tally = Tally(self._name, DeadLetters(self._dead_letters))
        context = RunContext(self._sink, Ledger(tally))
        error: BaseException | None = None
        try:
            self._state.invalidate()
            planned = (urn for urn in self._store.urns() if entity_type_of(urn) != "incident")
            delivery = Delivery(context, self._retract)
            for _ in self._deliver(planned, context, delivery, Delivery):
                if progress is not None:
                    progress(tally.progress())
            if self._report(tally).exit_code == EXIT_OK:
                self._state.delete()
        except (MlcatError, KeyboardInterrupt) as caught:
            error = caught
        context.ledger.close(complete=error is None)
        return self._report(tally, error)

    def _deliver(
        self,
        urns: Iterable[str],
        context: RunContext,
        delivery: Delivery | PlannedDelivery,
        make_delivery: MakeDelivery,
    ) -> Iterator[None]:
        """Deliver what retracts `urns`, with what follows from it; yield after each batch."""
        sets = LatestVersions(context, make_delivery)
        incidents = Incidents(context, make_delivery, self._name)
        for chunk in in_chunks(urns):
            if changed := list(self._read(chunk, context.ledger)):
                # First: once an entity has nothing of the recipe, no retraction reads it again.
                incidents.show({}, {one.urn: one.stored for one in changed}, lambda _: "dropped")
                sets.watch(changed)
                context.ledger.report(delivery.deliver(changed))
            yield
        sets.settle()

    def _retract(self, entity: Entity, stored: StoredEntity | None) -> MergedEntity:
        state = self._state
        return retract_entity(entity, stored, writer=state.writer, remembered=state.entities.base)

    def _read(self, urns: Iterable[str], ledger: Ledger) -> Iterator[MergedEntity]:
        """Yield the merged entities that hold something of the recipe; `urns` are of one type."""
        entities = [whole_entity(urn) for urn in urns]
        stored, denied = self._reads.read(entities)
        refused = {outcome.urn for outcome in denied}
        permitted = (entity for entity in entities if entity.urn not in refused)
        merged = [self._retract(entity, stored.get(entity.urn)) for entity in permitted]
        ledger.report([*denied, *(Outcome(entity) for entity in merged if not entity.proposals)])
        yield from (entity for entity in merged if entity.proposals)

    def _report(self, tally: Tally, error: BaseException | None = None) -> Report:
        return tally.report(
            catalog=self._catalog,
            source_requests=sum(source.traffic.requests_made() for source in self._sources),
            catalog_requests=self._sink.traffic.requests_made(),
            error=error,
        )
