"""Writes verdicts back: what a model's metadata tests say becomes tags of its run or version."""

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from mlcat_ingest.client.base import TestOutcome
from mlcat_ingest.errors import RecipeError, SourceUnavailableError
from mlcat_ingest.metadata.reserved import TESTS_AT_TAG, TESTS_TAG
from mlcat_ingest.metadata.urn import entity_type_of
from mlcat_ingest.pipeline.context import RunContext
from mlcat_ingest.pipeline.merge.rules import properties_aspect
from mlcat_ingest.sources.base import EntityTags, Source

_MODEL: Final = "mlModel"
_TEST: Final = "urn:li:test:"

_NAMES: Final = 10
"""Failing tests that a tag names; of each at most so many characters as `_NAME_CHARS`."""

_NAME_CHARS: Final = 100
"""With `_NAMES` far below the 5,000 bytes that MLflow 2.9 takes as a tag."""

_REFUSALS: Final = 16
"""Refusals before the first verdict is written, after which none is tried."""


class VerdictWriter:
    """Writes the verdicts of models to the sources that take tags. Safe for several threads."""

    def __init__(self, context: RunContext, sources: Sequence[Source[Any]]) -> None:
        """Write to those of `sources` that can set tags.

        Raises:
            RecipeError: none can.
        """
        self._context = context
        self._sources = [source for source in sources if source.can_set_tags]
        self._lock = threading.Lock()
        self._refused = 0
        self._was_taken = self._is_over = False
        if not self._sources:
            raise RecipeError(
                "evaluate.write_back: no source is an MLflow server that is read over HTTP",
                hint="set `tracking_uri` to the address of the server, or delete `write_back`",
            )

    def write(self, outcomes: Mapping[str, TestOutcome]) -> set[str]:
        """Write the verdicts of models, and return the models whose verdict could not be written.

        Cost: one read of a batch of models, and two or three requests a model.
        """
        name = properties_aspect(_MODEL) or ""
        models = [urn for urn in outcomes if entity_type_of(urn) == _MODEL]
        stored = self._context.sink.read_many(models, [name]) if models else {}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        tagged = [
            EntityTags(
                urn,
                entity[name].value,
                {TESTS_TAG: verdict_text(outcomes[urn]), TESTS_AT_TAG: now},
            )
            for urn, entity in stored.items()
            if name in entity
        ]
        left = {entity.urn for entity in tagged}
        failed: set[str] = set()
        for source in self._sources:
            tags = source.set_tags(tagged)
            try:
                while not self._is_over and (one := next(tags, None)) is not None:
                    urn, problem = one
                    left.discard(urn)
                    if problem is not None:
                        failed.add(urn)
                    self._count(urn, problem)
            except SourceUnavailableError as error:
                self._give_up(str(error))
        return failed | left if self._is_over else failed

    def _count(self, urn: str, problem: str | None) -> None:
        self._context.cancellation.check()
        if problem is None:
            self._was_taken = True
            self._context.tally.count(verdicts_written=1)
            return
        self._context.tally.note("verdict_not_written", f"{urn}: {problem}")
        with self._lock:
            self._refused += 1
        if self._refused >= _REFUSALS and not self._was_taken:
            self._give_up(f"none of {_REFUSALS} was taken")

    def _give_up(self, problem: str) -> None:
        with self._lock:
            is_first, self._is_over = not self._is_over, True
        if is_first:
            detail = f"{problem}: the next full pass evaluates the models again, and tries again"
            self._context.tally.note("verdicts_not_written", detail)


def verdict_text(outcome: TestOutcome) -> str:
    """Return the verdict as a tag has it: `passing`, `failing: has-owner, …`, or `no tests`."""
    if not outcome.failing:
        return "passing" if outcome.passing else "no tests"
    names = [urn.removeprefix(_TEST)[:_NAME_CHARS] for urn in sorted(set(outcome.failing))]
    more = len(names) - _NAMES
    return f"failing: {', '.join(names[:_NAMES])}" + (f" and {more} more" if more > 0 else "")
