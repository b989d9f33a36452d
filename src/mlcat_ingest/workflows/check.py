"""The doctor: every side of a recipe looked at, each by itself and within a bounded time."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Final, Literal, TypeVar

from pydantic import BaseModel

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.core.threads import start
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.pipeline.state.checks import dead_letter_finding, state_findings
from mlcat_ingest.recipe.model import Recipe
from mlcat_ingest.workflows.overlap import overlap
from mlcat_ingest.workflows.resolve import Resolved, ResolvedSink, ResolvedSource

PATIENCE_S: Final = 60.0
"""Seconds that one side has for all of its findings."""

_OVERLAP: Final = "overlap"
_STATE: Final = "state"
_MOST: Final = {
    "retries": 0,
    "timeout_s": 15.0,
    "connect_timeout_s": 5.0,
    "page_size": 100,
    "connections": 1,
}
"""Options of sources and sinks that make them wait, and the most that the doctor allows them."""

SideT = TypeVar("SideT", ResolvedSource, ResolvedSink)


@dataclass(frozen=True, slots=True)
class Examined:
    """A finding, and the side of the recipe that it is about: `source mlflow`, `sink rest`."""

    side: str
    finding: Finding


def examine(
    resolved: Resolved, *, write: bool = False, patience_s: float = PATIENCE_S
) -> Iterator[Examined]:
    """Yield the findings about each side of a recipe; an error of one side hides no other's.

    All sides are looked at at once. Nothing is changed, but that with `write` the catalog's own
    probe entity is written and deleted.
    """
    recipe = resolved.recipe
    yield Examined("recipe", Finding("recipe", "ok", f"{recipe.name}: valid"))
    watches = [
        _Watch(f"source {one.type}", _of_source(_hurried(one)), patience_s)
        for one in resolved.sources
    ]
    sink, state = resolved.sink, None
    if sink is None:
        watches.append(_Watch("sink", _no_sink, patience_s))
    else:
        check = _of_sink(_hurried(sink), write=write)
        watches.append(_Watch(f"sink {sink.type}", check, patience_s))
        state = _Watch(_STATE, _of_state(recipe, sink), patience_s)
    failed = False
    for watch in watches:
        for finding in watch.findings():
            failed |= finding.outcome == "failed"
            yield Examined(watch.side, finding)
    if sink is not None:
        yield from _overlaps(resolved, sink, patience_s, failed=failed)
    if state is not None:
        yield from (Examined(_STATE, finding) for finding in state.findings())


def _no_sink() -> Iterator[Finding]:
    told = "none is given: a run writes to ./mlcat-catalog.db, with --no-input it fails"
    yield Finding("sink", "warning", told)


def _overlaps(
    resolved: Resolved, sink: ResolvedSink, patience_s: float, *, failed: bool
) -> Iterator[Examined]:
    if failed:
        told = "not looked for, since a side failed"
        yield Examined(_OVERLAP, Finding("overlapping URNs", "warning", told))
        return
    for source in resolved.sources:
        check = _of_both(source, sink, resolved.recipe.name)
        # A large store may need longer for its listings, and is none the worse for it.
        watch = _Watch(_OVERLAP, check, patience_s, late="warning")
        yield from (Examined(_OVERLAP, finding) for finding in watch.findings())


def _hurried(side: SideT) -> SideT:
    """Return a side that gives up soon, and asks for little at a time."""
    return replace(side, config=_capped(side.config))


def _capped(config: BaseModel) -> BaseModel:
    given = {name: getattr(config, name, None) for name in _MOST}
    # Some source may mean another thing by a name: only numbers are numbers of something.
    numbers = {name: number for name, number in given.items() if isinstance(number, int | float)}
    return config.model_copy(
        update={name: min(number, _MOST[name]) for name, number in numbers.items()}
    )


def _of_source(resolved: ResolvedSource) -> Callable[[], Iterator[Finding]]:
    def check() -> Iterator[Finding]:
        with closing(resolved.build()) as source:
            yield from source.check()

    return check


def _of_sink(resolved: ResolvedSink, *, write: bool) -> Callable[[], Iterator[Finding]]:
    def check() -> Iterator[Finding]:
        with closing(resolved.build()) as sink:
            yield from sink.check(write=write)

    return check


def _of_both(
    source: ResolvedSource, sink: ResolvedSink, recipe: str
) -> Callable[[], Iterator[Finding]]:
    return lambda: overlap(_hurried(source).build(), _hurried(sink).build(), recipe)


def _of_state(recipe: Recipe, sink: ResolvedSink) -> Callable[[], Iterator[Finding]]:
    def check() -> Iterator[Finding]:
        with closing(sink.build()) as built:
            remembers = built.keeps
        if remembers:
            yield from state_findings(recipe.state.url, recipe.name)
        yield dead_letter_finding(recipe.dead_letter_file)

    return check


class _Watch:
    """One side's findings, found in a thread of its own so that nobody waits for ever."""

    def __init__(
        self,
        side: str,
        check: Callable[[], Iterable[Finding]],
        patience_s: float,
        late: Literal["warning", "failed"] = "failed",
    ) -> None:
        """Begin."""
        self.side = side
        self._check = check
        self._patience_s = patience_s
        self._late: Literal["warning", "failed"] = late
        self._ends_s = time.monotonic() + patience_s
        self._told: SimpleQueue[Finding | None] = SimpleQueue()
        self._work = start(self._look, f"check {side}")

    def _look(self) -> None:
        try:
            for finding in self._check():
                self._told.put(finding)
        except MlcatError as error:
            self._told.put(Finding(self.side, "failed", error.message, error.hint))
        finally:
            self._told.put(None)

    def findings(self) -> Iterator[Finding]:
        """Yield the findings as they come, and one more where they do not come in time."""
        while True:
            try:
                finding = self._told.get(timeout=max(0.0, self._ends_s - time.monotonic()))
            except Empty:
                yield Finding(
                    self.side,
                    self._late,
                    f"not done within {self._patience_s:.0f} s",
                    "does it answer too slowly, or not at all?",
                )
                return
            if finding is None:
                break
            yield finding
        self._work.result()
