"""The drain: ingests the runs and registered models that a spool's events name, at least once.

It uses the stages of a recipe's run under the recipe's name, so that the entries of a scheduled
run and of a drain are the same. It takes no lock of the recipe and keeps no state, so it can run
beside a scheduled run; one spool has one drain at a time. An event is deleted once the catalog has
stored all proposals of what it names. A run may be ingested twice, which changes nothing.
"""

import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, TypeVar

from mlcat_ingest.core.redaction import redact_url
from mlcat_ingest.core.text import plural
from mlcat_ingest.errors import MlcatError, RecipeError, StateUnavailableError
from mlcat_ingest.hooks.sender import URI_VARIABLE
from mlcat_ingest.hooks.spool import DELETED, ClaimedEvent, Event, EventSpool
from mlcat_ingest.metadata.aliases import By, Sighting
from mlcat_ingest.metadata.naming import DEFAULT_WORKSPACE
from mlcat_ingest.pipeline.report.render import hooks_line
from mlcat_ingest.pipeline.report.report import EXIT_OK, HooksSummary, Report
from mlcat_ingest.pipeline.write.delivery import OnWritten
from mlcat_ingest.recipe.connection import ConnectionConfig
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.sources.base import Runs
from mlcat_ingest.sources.mlflow.values.uris import normalise_uri
from mlcat_ingest.workflows.ingest import NamedRunsResult, Pipeline
from mlcat_ingest.workflows.resolve import (
    ResolvedRecipe,
    ResolvedSink,
    ResolvedSource,
    load_resolved,
    resolve,
)

log = logging.getLogger(__name__)

BATCH: Final = 500
"""Events that one pass over MLflow is about."""
RETRY_BRIEFLY: Final = {"retry_for_s": 5.0}
"""Options by which a recipe waits briefly for a server that is away: the events stay."""
FAIL_FAST: Final = {"timeout_s": 10.0, "retries": 1, **RETRY_BRIEFLY}
"""Options with short timeouts and few retries: another drain costs nothing."""
FOLLOW_S: Final = 0.1
"""Between two looks at a spool that is followed."""
REST_S: Final = 2.0
"""Between two passes, so that where runs end all the time they come in batches."""

SideT = TypeVar("SideT", ResolvedSource, ResolvedSink)

EventFilter = Callable[[Event], bool]
IngestNamed = Callable[[Runs], NamedRunsResult]
"""Ingests runs and registered models by their names, as `Pipeline.run_named` does."""


@dataclass(frozen=True, slots=True)
class DrainResult:
    """The outcome of a drain for the report of a run; `report` is of what did not go well."""

    summary: HooksSummary = field(default_factory=HooksSummary)
    report: Report | None = None


def _event_filter(resolved: ResolvedRecipe, recipe: str) -> EventFilter:
    """Return a filter of the events for the recipe at path `recipe`, or for an address without one.

    An event that names no recipe is for whichever reads its tracking server.
    """
    uris = {
        normalise_uri(uri)
        for source in resolved.sources
        if isinstance(uri := getattr(source.config, "tracking_uri", None), str)
    }

    def accepts(event: Event) -> bool:
        if event.recipe:
            return event.is_for(recipe)
        return normalise_uri(event.tracking_uri) in uris

    return accepts


def drain_spool(
    resolved: ResolvedRecipe, spool: EventSpool, recipe: str, changes: OnWritten | None = None
) -> DrainResult:
    """Drain the events for `recipe`; a spool that is not there is an empty one.

    `changes` takes each change that the catalog acknowledged.

    Raises:
        MlcatError: the spool cannot be used, or the recipe has no sink.
    """
    if not spool.pending():
        return DrainResult()
    result = drain_into(resolved, spool, recipe, changes=changes)
    if result.report is None and not result.summary.busy:
        spool.backoff.reset()
    return result


def drain_into(
    resolved: ResolvedRecipe,
    spool: EventSpool,
    recipe: str,
    *,
    rest_s: float = 0.0,
    changes: OnWritten | None = None,
) -> DrainResult:
    """Drain the events for `recipe`; what the catalog refused is kept in the spool's folder.

    Raises:
        RecipeError: the recipe does not say where to write.
        StateUnavailableError: the spool cannot be written.
    """
    pipeline, passes = Pipeline(resolved), count()
    servers = {getattr(source.config, "tracking_uri", None) for source in resolved.sources}

    def ingest(named: Runs) -> NamedRunsResult:
        if len(servers - {None}) > 1:  # an event does not say of which one a model is
            named = replace(named, moves={})
        more = next(passes) > 0
        letters = spool.refused_file
        return pipeline.run_named(named, dead_letters=letters, more=more, changes=changes)

    return drain(spool, _event_filter(resolved, recipe), ingest, rest_s=rest_s)


def drain(
    spool: EventSpool, accepts: EventFilter, ingest: IngestNamed, *, rest_s: float = 0.0
) -> DrainResult:
    """Ingest the runs and registered models of all events that the filter `accepts`.

    A failure keeps the events of its pass, and ends the drain. A refusal keeps the events of its
    run or model, and the drain goes on. Events written meanwhile are taken too, after `rest_s`
    seconds in which more of them can come together.

    Raises:
        StateUnavailableError: the spool cannot be written.

    Cost: a pass over MLflow for each 500 events; see `NamedRuns`.
    """
    work = _Drain(spool, accepts, ingest)
    try:
        while True:
            with spool.drain_lock() as acquired:
                if acquired:
                    work.take_all()
            # Who wrote an event while the drain was at work left it to the drain: so look again.
            if not acquired or work.ended or work.remaining() <= len(work.kept):
                return work.result(busy=not acquired)
            time.sleep(rest_s)
    except OSError as error:
        raise StateUnavailableError(
            f"cannot use the spool {spool.folder}: {error.strerror}",
            hint="set another folder with --spool or MLCAT_SPOOL",
        ) from error


class _Drain:
    """One drain under way."""

    def __init__(self, spool: EventSpool, accepts: EventFilter, ingest: IngestNamed) -> None:
        self._spool, self._accepts, self._ingest = spool, accepts, ingest
        self.kept: set[str] = set()
        self._events = self._runs = self._models = self._elsewhere = 0
        self._bad: Report | None = None

    @property
    def ended(self) -> bool:
        """True if a side failed, so that the next pass would fail as well."""
        return self._bad is not None and (self._bad.failure is not None or self._bad.interrupted)

    def remaining(self) -> int:
        return sum(map(self._accepts, self._spool.events()))

    def take_all(self) -> None:
        while not self.ended:
            claimed = self._spool.claim(BATCH, self._accepts, frozenset(self.kept))
            if not claimed:
                return
            done: frozenset[str] = frozenset()
            try:
                done = self._take(claimed)
            finally:
                kept = {one.name for one in claimed if not done.issuperset(one.event.names)}
                self._spool.delete([one.name for one in claimed if one.name not in kept])
                self._spool.release(sorted(kept))
                self.kept |= kept
            if len(claimed) < BATCH:
                return

    def _take(self, claimed: Sequence[ClaimedEvent]) -> frozenset[str]:
        """Ingest what these events name, and return the names of what has arrived."""
        events = [one.event for one in claimed]
        ids, models, deleted = (
            list(dict.fromkeys(filter(None, names)))
            for names in (
                (event.run_id for event in events),
                (event.model for event in events),
                (event.model for event in events if event.status == DELETED),
            )
        )
        moves: dict[tuple[str, str], list[Sighting]] = {}
        for event in filter(lambda event: event.alias, events):
            by: By = "event" if event.since_ms else "webhook"
            moved = Sighting(event.alias, event.version, event.since_ms, event.at_ms, by)
            model = event.workspace or DEFAULT_WORKSPACE, event.model
            moves.setdefault(model, []).append(moved)
        outcome = self._ingest(Runs(ids, models, deleted, moves))
        if outcome.report.exit_code != EXIT_OK:
            self._bad = outcome.report
        if self.ended:
            return frozenset()
        done = frozenset((*ids, *models)) - outcome.refused
        self._events += sum(done.issuperset(event.names) for event in events)
        self._runs += len(done.intersection(ids))
        self._models += len(done.intersection(models))
        self._elsewhere += len(outcome.unknown)
        if unknown := outcome.unknown:
            places = {event.tracking_uri for event in events if event.run_id in unknown}
            log.info(
                "ignored %s outside this recipe, such as %s in %s",
                plural(len(unknown), "finished run"),
                unknown[0],
                ", ".join(sorted(places)[:3]),
            )
        return done

    def result(self, *, busy: bool) -> DrainResult:
        counts = self._events, self._runs, self._models, self._elsewhere, self.remaining()
        summary, bad = HooksSummary(EXIT_OK, *counts, busy), self._bad
        if bad is not None:
            code, letters = bad.exit_code, bad.dead_letter_file
            summary = replace(
                summary, exit_code=code, failure=bad.failure, dead_letter_file=letters
            )
        return DrainResult(summary, bad)


def drain_all(spool: EventSpool, recipe: str, server: str) -> str | None:
    """Drain the events for the recipe, or without one those of each tracking server, failing fast.

    Return why events are left, None if none are.
    """
    with_credentials = os.environ.pop(URI_VARIABLE, "")
    why = None
    nameless = {event.tracking_uri for event in spool.events() if not event.recipe}
    for place in [recipe] if recipe else sorted(nameless - {""}):
        try:
            if recipe:
                resolved = load_resolved(recipe)
            else:
                # Of the store that it was started for it knows the credentials.
                known = redact_url(with_credentials) == place
                uri = with_credentials if known else place
                resolved = resolve(Recipe.for_tracking_uri(uri, server))
            why = _drain_fast(resolved, spool, place) or why
        except MlcatError as error:
            why = str(error)
    return why


def _drain_fast(resolved: ResolvedRecipe, spool: EventSpool, place: str) -> str | None:
    result = drain_into(with_options(resolved, FAIL_FAST), spool, place, rest_s=REST_S)
    log.info("%s", hooks_line(result.summary))
    report = result.report
    if report is None:
        return None
    if report.failure is None and not report.interrupted:
        # Another try would be refused as well: the next drain takes it along.
        log.error("some records were refused; see %s", report.dead_letter_file)
        return None
    return str(report.failure or "interrupted")


def follow_spool(
    load: Callable[[], ResolvedRecipe],
    spool: EventSpool,
    recipe: str,
    report: Callable[[DrainResult], None],
) -> None:
    """Drain the events for `recipe` as they come, until Ctrl-C.

    Each drain has the recipe that `load` returns: a token file in it may have changed. `report`
    takes the result of each drain that was not busy. After one that failed the pause of the spool
    is kept, which gets longer. It holds no lock while it waits, so other drains can be at work.

    Raises:
        StateUnavailableError: the spool cannot be written.
    """
    known: frozenset[str] = frozenset()
    while True:
        names, result = spool.names(), None
        if not names <= known and not spool.backoff.remaining_s():
            result = _drain_loaded(load, spool, recipe)
        if result is None or result.summary.busy:
            time.sleep(FOLLOW_S)
            continue
        report(result)
        if result.report is not None and result.report.interrupted:
            return
        if result.report is not None and result.report.failure is not None:
            spool.backoff.record_failure(str(result.report.failure))
        else:
            spool.backoff.reset()
            # Events of other recipes, and refused ones, wait for the next event.
            known = names & spool.names()


def _drain_loaded(
    load: Callable[[], ResolvedRecipe], spool: EventSpool, recipe: str
) -> DrainResult | None:
    try:
        resolved = load()
    except RecipeError as error:  # its file, or a token's, is just being replaced
        log.error("%s", error)  # noqa: TRY400 - one sentence
        spool.backoff.record_failure(str(error))
        return None
    return drain_into(resolved, spool, recipe)


def with_options(resolved: ResolvedRecipe, options: Mapping[str, float]) -> ResolvedRecipe:
    """Return a recipe with `options` of the connections of its sources and its sink."""
    sink = resolved.sink
    return replace(
        resolved,
        sources=tuple(_side_with(source, options) for source in resolved.sources),
        sink=None if sink is None else _side_with(sink, options),
    )


def _side_with(side: SideT, options: Mapping[str, float]) -> SideT:
    if not isinstance(side.config, ConnectionConfig):
        return side
    return replace(side, config=side.config.model_copy(update=dict(options)))
