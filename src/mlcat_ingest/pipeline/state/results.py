"""What a run learns of metadata tests: kept as it goes, and lost with the database, not the run."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from sqlalchemy import Engine

from mlcat_ingest.pipeline.state.outcomes import Outcomes
from mlcat_ingest.sinks.base import Evaluation

Try = Callable[[Callable[[Engine], None]], None]
"""Does some work in the database where there is one; its failure ends remembering."""


class Results:
    """Keeps results while a run goes on; every method may be called from any thread."""

    def __init__(self, tried: Try) -> None:
        """Keep nothing before `start`."""
        self._tried = tried
        self.kept: Outcomes | None = None
        self.lasting = True

    def start(self, engine: Engine, recipe: str, address: str, *, lasting: bool) -> None:
        """Keep what `recipe` learns of the catalog at `address`, for later runs if `lasting`."""
        self.lasting = lasting
        self.kept = Outcomes(engine, recipe, address, time.time_ns() // 1_000_000)

    def changing(self, urns: Sequence[str]) -> None:
        """Note that entities are about to be written: what is known of their tests holds no more.

        Noted before the write, so that a run killed before it evaluates them leaves no old result.
        """
        if urns:
            self._asked(lambda kept: kept.outdate(urns))

    def removed(self, urns: Collection[str]) -> None:
        """Note that entities were marked as removed: they fail nothing any more."""
        if urns:
            self._asked(lambda kept: kept.save({}, urns))

    def evaluated(self, evaluation: Evaluation) -> None:
        """Keep which tests entities pass and fail."""
        if evaluation.outcomes:
            self._asked(lambda kept: kept.save(evaluation.outcomes))

    def without_result(self, urns: Collection[str]) -> None:
        """Keep that this run has no result for entities."""
        if urns:
            self._asked(lambda kept: kept.without_result(urns))

    def present(self, urns: Sequence[str]) -> Sequence[str]:
        """Return those of `urns` that are not known to be removed. Cost: a statement for 500."""
        gone: set[str] = set()
        self._asked(lambda kept: gone.update(kept.removed(urns)))
        return [urn for urn in urns if urn not in gone]

    def untested(self, part_ids: Iterable[int], *, again: bool) -> Iterator[Sequence[str]]:
        """Yield entities that the catalog has acknowledged and that have no result, in batches.

        With `again` those too that have one of an earlier run.
        """
        if self.kept is None:
            return
        batches = self.kept.untested(part_ids, again=again)
        yield from iter(lambda: self._next(batches), [])

    def _next(self, batches: Iterator[list[str]]) -> list[str]:
        batch: list[str] = []
        self._tried(lambda _: batch.extend(next(batches, ())))
        return batch

    def _asked(self, work: Callable[[Outcomes], None]) -> None:
        kept = self.kept
        if kept is not None:
            self._tried(lambda _: work(kept))
