"""What is remembered of a recipe, as one value for people and programs; and forgetting it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from mlcat_ingest.pipeline.state import lock, parts
from mlcat_ingest.pipeline.state.database import (
    is_missing,
    open_state,
    shown,
    translate_errors,
)
from mlcat_ingest.pipeline.state.outcomes import failing_tests


@dataclass(frozen=True, slots=True)
class PartitionSummary:
    """One place that a recipe reads for one catalog; times are epoch milliseconds."""

    catalog: str
    source: str
    instance: str
    passed_at_ms: int | None
    full_at_ms: int | None
    checkpoint: Mapping[str, Any] | None
    records: Mapping[str, int]
    dirty: Mapping[str, int]
    names: Mapping[str, str]
    failing_entities: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What is remembered of a recipe; `holder` runs it just now."""

    recipe: str
    database: str
    holder: lock.Holder | None
    parts: tuple[PartitionSummary, ...]


def summary(url: str, recipe: str) -> Summary:
    """Return what the database at `url` remembers of `recipe`; nothing is made that is not there.

    Raises:
        RecipeError: the database is damaged, or a newer version made it.
        StateUnavailableError: it cannot be reached.
    """
    if is_missing(url):
        return Summary(recipe, shown(url), None, ())
    with _opened(url) as engine, translate_errors(url):
        return Summary(
            recipe,
            shown(url),
            lock.holder(engine, url, recipe),
            tuple(_part(engine, row) for row in parts.parts_of(engine, recipe)),
        )


def _part(engine: Engine, row: parts.PartitionRow) -> PartitionSummary:
    counts = parts.counts(engine, row.key)
    return PartitionSummary(
        catalog=row.key.sink,
        source=row.key.source,
        instance=row.key.instance,
        passed_at_ms=row.passed_at_ms,
        full_at_ms=row.full_at_ms,
        checkpoint=row.checkpoint,
        records={kind: found.records for kind, found in counts.items()},
        dirty={kind: found.dirty for kind, found in counts.items() if found.dirty},
        names=parts.pinned(engine, row.key),
        failing_entities=len(failing_tests(engine, row.key.recipe, row.key.sink)),
    )


def reset(url: str, recipe: str) -> bool:
    """Forget everything about `recipe`, and return whether there was anything.

    Raises:
        RecipeError: the database is damaged, or a newer version made it.
        RecipeLockedError: a run of the recipe is at work.
        StateUnavailableError: it cannot be written or reached.
    """
    if is_missing(url):
        return False
    with _opened(url) as engine, translate_errors(url):
        held = lock.acquire(engine, url, recipe)
        try:
            found = bool(parts.parts_of(engine, recipe))
            parts.delete_recipe(engine, recipe)
        finally:
            held.release()
    return found


@contextmanager
def _opened(url: str) -> Iterator[Engine]:
    engine = open_state(url)
    try:
        yield engine
    finally:
        engine.dispose()
