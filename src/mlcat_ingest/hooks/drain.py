"""The drain: the runs that a spool's events name are read from MLflow and brought to the catalog.

It goes through the stages of a recipe's run, under the recipe's name, so that what is ours on an
entity stays the same whoever was first. It takes no recipe's lock and keeps no state, so it can be
beside a scheduled run; one spool has one drain at a time. An event goes once the catalog has taken
all that was written with it, so its run may be brought in twice, which changes nothing.
"""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol

from mlcat_ingest.errors import StateUnavailableError
from mlcat_ingest.hooks.event import Event
from mlcat_ingest.hooks.spool import ClaimedEvent, EventSpool
from mlcat_ingest.pipeline.report.report import EXIT_OK, HooksSummary, Report
from mlcat_ingest.sources.mlflow.values.uris import normalised
from mlcat_ingest.workflows.ingest import Pipeline
from mlcat_ingest.workflows.named_runs import Brought
from mlcat_ingest.workflows.resolve import Resolved

log = logging.getLogger(__name__)

BATCH: Final = 500
"""Events that one pass over MLflow is about."""

Wanted = Callable[[Event], bool]


class NamedRuns(Protocol):
    """What brings runs into the catalog: `Pipeline.run_named`."""

    def __call__(self, run_ids: Sequence[str]) -> Brought:
        """Return what came of these runs."""
        ...


@dataclass(frozen=True, slots=True)
class Drained:
    """What came of a drain.

    The catalog was told of `events`, that named `runs`; `elsewhere` of these are none of the
    recipe's. `left` events of the recipe wait on. `report` is of what did not go well. A `busy`
    spool has another drain at work.
    """

    events: int = 0
    runs: int = 0
    elsewhere: int = 0
    left: int = 0
    report: Report | None = None
    busy: bool = False

    @property
    def exit_code(self) -> int:
        """Exit status, as that of a run."""
        return EXIT_OK if self.report is None else self.report.exit_code

    def summary(self) -> HooksSummary:
        """Return what the report of a run says of the drain."""
        return HooksSummary(
            exit_code=self.exit_code,
            events=self.events,
            runs=self.runs,
            elsewhere=self.elsewhere,
            left=self.left,
            busy=self.busy,
            failure=None if self.report is None else self.report.failure,
            dead_letter_file=None if self.report is None else self.report.dead_letter_file,
        )


def wanted_by(resolved: Resolved, recipe: str) -> Wanted:
    """Return which events are for the recipe at path `recipe`, or for an address without one.

    An event that names no recipe is for whichever reads its tracking server.
    """
    uris = {
        normalised(uri)
        for source in resolved.sources
        if isinstance(uri := getattr(source.config, "tracking_uri", None), str)
    }

    def wanted(event: Event) -> bool:
        if event.recipe:
            return event.is_for(recipe)
        return normalised(event.tracking_uri) in uris

    return wanted


def drain_into(
    resolved: Resolved, spool: EventSpool, wanted: Wanted, *, rest_s: float = 0.0
) -> Drained:
    """Drain with the recipe `resolved`; what the catalog refused is kept in the spool's folder.

    See `drain` for `rest_s`.

    Raises:
        RecipeError: the recipe does not say where to write.
        StateUnavailableError: the spool cannot be written.
    """
    pipeline, passes = Pipeline(resolved), count()

    def bring(run_ids: Sequence[str]) -> Brought:
        return pipeline.run_named(run_ids, dead_letters=spool.refused_file, more=next(passes) > 0)

    return drain(spool, wanted, bring, rest_s=rest_s)


def drain(spool: EventSpool, wanted: Wanted, bring: NamedRuns, *, rest_s: float = 0.0) -> Drained:
    """Bring in the runs of all events that are `wanted`, and return what came of it.

    What ends a pass early keeps its events, and ends the drain; what was refused keeps those of
    its runs, and the drain goes on. Events written meanwhile are taken too, after `rest_s` seconds
    in which more of them can come together.

    Raises:
        StateUnavailableError: the spool cannot be written.

    Cost: a pass over MLflow for each 500 events; see `NamedReading`.
    """
    work = _Drain(spool, wanted, bring)
    try:
        while True:
            with spool.draining() as mine:
                if mine:
                    work.take_all()
            # Who wrote an event while the drain was at work left it to the drain: so look again.
            if not mine or work.ended or spool.count(wanted) <= len(work.kept):
                return work.result(busy=not mine)
            time.sleep(rest_s)
    except OSError as error:
        raise StateUnavailableError(
            f"the spool {spool.folder} cannot be used: {error.strerror}",
            hint="name another folder with --spool or MLCAT_SPOOL",
        ) from error


class _Drain:
    """One drain under way."""

    def __init__(self, spool: EventSpool, wanted: Wanted, bring: NamedRuns) -> None:
        self._spool, self._wanted, self._bring = spool, wanted, bring
        self.kept: set[str] = set()
        self._events = self._runs = self._elsewhere = 0
        self._bad: Report | None = None

    @property
    def ended(self) -> bool:
        """Whether a side failed, so that the next pass would fail as well."""
        return self._bad is not None and (self._bad.failure is not None or self._bad.interrupted)

    def take_all(self) -> None:
        while not self.ended:
            claimed = self._spool.claim(BATCH, self._wanted, frozenset(self.kept))
            if not claimed:
                return
            done: frozenset[str] = frozenset()
            try:
                done = self._take(claimed)
            finally:
                self._spool.done([one.name for one in claimed if one.event.run_id in done])
                kept = [one.name for one in claimed if one.event.run_id not in done]
                self._spool.release(kept)
                self.kept.update(kept)
            if len(claimed) < BATCH:
                return

    def _take(self, claimed: Sequence[ClaimedEvent]) -> frozenset[str]:
        """Bring in the runs of these events, and return the ids of those that have arrived."""
        ids = list(dict.fromkeys(one.event.run_id for one in claimed))
        brought = self._bring(ids)
        if brought.report.exit_code != EXIT_OK:
            self._bad = brought.report
        if self.ended:
            return frozenset()
        done = frozenset(ids) - brought.refused
        self._events += sum(1 for one in claimed if one.event.run_id in done)
        self._runs += len(done)
        self._elsewhere += len(brought.unknown)
        _tell_unknown(claimed, brought.unknown)
        return done

    def result(self, *, busy: bool) -> Drained:
        left = self._spool.count(self._wanted)
        return Drained(self._events, self._runs, self._elsewhere, left, self._bad, busy)


def _tell_unknown(claimed: Sequence[ClaimedEvent], unknown: Sequence[str]) -> None:
    if unknown:
        places = sorted({one.event.tracking_uri for one in claimed if one.event.run_id in unknown})
        log.info(
            "%d runs that ended are none of this recipe's, such as %s, of %s",
            len(unknown),
            unknown[0],
            ", ".join(places[:3]),
        )
