"""The state of a recipe as it is seen between runs: its summary, its deletion, its doctor.

The doctor checks whether state and dead letters can be written where the recipe wants them.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError, StateDamagedError
from mlcat_ingest.pipeline.state import partitions, tables
from mlcat_ingest.pipeline.state.entities import failing_tests
from mlcat_ingest.pipeline.state.locks import Holder, held_state, holder
from mlcat_ingest.pipeline.state.opening import (
    OTHER_DATABASE,
    file_of,
    is_missing,
    lock_file,
    open_database,
    open_state,
    printable_url,
    require_lasting,
    translate_errors,
)
from mlcat_ingest.sql.database import Engine, SqlConnection, pending


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
    """Everything that is remembered of a recipe; `holder` runs it just now."""

    recipe: str
    database: str
    holder: Holder | None
    parts: tuple[PartitionSummary, ...]


def summary(url: str, recipe: str) -> Summary:
    """Return what the database at `url` remembers of `recipe`; nothing is made that is not there.

    Raises:
        RecipeError: a newer version made the database.
        StateDamagedError: it is a damaged file.
        StateUnavailableError: it cannot be reached.
    """
    if is_missing(url):
        return Summary(recipe, printable_url(url), None, ())
    engine = open_state(url)
    try:
        runs = holder(engine, url, recipe)
        with translate_errors(engine), engine.transaction() as connection:
            rows = partitions.partitions_of(connection, recipe)
            parts = tuple(_summary_of(connection, row) for row in rows)
            return Summary(recipe, printable_url(url), runs, parts)
    finally:
        engine.dispose()


def _summary_of(connection: SqlConnection, row: partitions.PartitionRow) -> PartitionSummary:
    counts = partitions.counts(connection, row.key)
    return PartitionSummary(
        catalog=row.key.sink,
        source=row.key.source,
        instance=row.key.instance,
        passed_at_ms=row.passed_at_ms,
        full_at_ms=row.full_at_ms,
        checkpoint=row.checkpoint,
        records={kind: count.records for kind, count in counts.items()},
        dirty={kind: count.dirty for kind, count in counts.items() if count.dirty},
        names=row.identity,
        failing_entities=len(failing_tests(connection, row.key.recipe, row.key.sink)),
    )


def reset(url: str, recipe: str) -> bool:
    """Delete everything about `recipe`, and return whether there was anything.

    A damaged file is set aside as a whole, with a warning.

    Raises:
        RecipeError: a newer version made the database.
        RecipeLockedError: a run of the recipe is at work.
        StateUnavailableError: it cannot be written or reached.
    """
    if is_missing(url):
        return False
    with (
        held_state(url, recipe) as engine,
        translate_errors(engine),
        engine.transaction(write=True) as connection,
    ):
        return partitions.delete_recipe(connection, recipe)


_STATE: Final = "state database"
_LOCK: Final = "state lock"
_DEAD_LETTERS: Final = "dead-letter file"

_CONNECT_S: Final = 10

_MAY_WRITE: Final = (
    "SELECT CASE WHEN to_regclass('state_part') IS NULL"
    " THEN has_schema_privilege(current_schema(), 'CREATE')"
    " ELSE has_table_privilege('state_part', 'INSERT, UPDATE') END"
)


def state_findings(url: str, recipe: str) -> Iterator[Finding]:
    """Yield whether the state at `url` can be kept, and whether a run of `recipe` may begin.

    Nothing is made: a database that does not exist yet needs a folder that can be written.
    """
    engine: Engine | None = None
    try:
        require_lasting(url)
        path = file_of(url)
        if path is not None and not path.exists():
            yield _place(_STATE, path, OTHER_DATABASE, "created by the first run")
            return
        engine = open_database(url, connect_timeout_s=_CONNECT_S)
        with translate_errors(engine):
            finding = _usable(engine, url, path)
            yield finding
            runs = None if finding.outcome == "failed" else holder(engine, url, recipe)
        lock = lock_file(url, recipe)
        if runs is not None:
            what = f"a run of {recipe!r} is in progress: {runs}"
            yield Finding(_LOCK, "warning", what, "wait for it")
        elif finding.outcome != "failed" and lock is not None:
            yield _place(_LOCK, lock, OTHER_DATABASE, "free")
        elif finding.outcome != "failed":
            yield Finding(_LOCK, "ok", "free")
    except StateDamagedError as error:
        yield Finding(_STATE, "warning", error.message, error.hint)
    except MlcatError as error:
        yield Finding(_STATE, "failed", error.message, error.hint)
    finally:
        if engine is not None:
            engine.dispose()


def dead_letter_finding(path: Path) -> Finding:
    """Return whether the file of what the catalog refuses can be written; it is not made."""
    return _place(_DEAD_LETTERS, path, "set `dead_letters` to another file", "writable")


def _usable(engine: Engine, url: str, path: Path | None) -> Finding:
    with engine.transaction() as connection:
        if path is None:
            allowed = bool(connection.scalar(_MAY_WRITE))
        else:
            connection.scalar("SELECT count(*) FROM sqlite_master")
            allowed = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)
        # One that a newer version made is refused here as it is by a run.
        pending(connection, tables.COMPONENT, tables.MIGRATIONS)
    if not allowed:
        return Finding(_STATE, "failed", f"{printable_url(url)} is not writable", OTHER_DATABASE)
    return Finding(_STATE, "ok", printable_url(url))


def _place(what: str, path: Path, hint: str, well: str) -> Finding:
    """Return whether a file can be written, or made, without trying."""
    folder = next(parent for parent in (path.parent, *path.parent.parents) if parent.exists())
    writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) and not path.is_dir()
    if not writable or (path.exists() and not os.access(path, os.W_OK)):
        return Finding(what, "failed", f"cannot write {path}", hint)
    return Finding(what, "ok", f"{path}: {well}")
