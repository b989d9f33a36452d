"""What the doctor says about the places where a recipe keeps what it remembers."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from sqlalchemy import Engine, text

from mlcat_ingest.core.findings import Finding
from mlcat_ingest.errors import MlcatError
from mlcat_ingest.pipeline.state import tables
from mlcat_ingest.pipeline.state.database import file_of, lasting_address, shown, translate_errors
from mlcat_ingest.pipeline.state.lock import holder, lock_file
from mlcat_ingest.sql.engine import database_url, open_engine
from mlcat_ingest.sql.migrations import pending

_STATE: Final = "state database"
_LOCK: Final = "state lock"
_DEAD_LETTERS: Final = "dead-letter file"

_WITH_TIMEOUT: Final = frozenset({"postgresql+psycopg", "postgresql+psycopg2"})
_CONNECT_S: Final = "10"

_MAY_LOCK: Final = text("SELECT pg_try_advisory_xact_lock(hashtext('mlcat-ingest check'))")
_MAY_WRITE: Final = text(
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
        path = file_of(lasting_address(url))
        if path is not None and not path.exists():
            hint = "name another one in `state: {url: …}`"
            yield _place(_STATE, path, hint, "made by the first run")
            return
        engine = open_engine(_hurried(url))
        with translate_errors(url):
            found = _usable(engine, url, path)
            yield found
            if found.outcome != "failed":
                yield _lockable(engine, url, recipe)
    except MlcatError as error:
        yield Finding(_STATE, "failed", error.message, error.hint)
    finally:
        if engine is not None:
            engine.dispose()


def dead_letter_finding(path: Path) -> Finding:
    """Return whether the file of what the catalog refuses can be written; it is not made."""
    return _place(_DEAD_LETTERS, path, "name another file in `dead_letters`", "can be written")


def _hurried(url: str) -> str:
    """Return the address with a bound on the time that connecting takes."""
    address = database_url(url)
    if address.drivername in _WITH_TIMEOUT and "connect_timeout" not in address.query:
        address = address.update_query_dict({"connect_timeout": _CONNECT_S})
    return address.render_as_string(hide_password=False)


def _usable(engine: Engine, url: str, path: Path | None) -> Finding:
    hint = "name another one in `state: {url: …}`"
    with engine.connect() as connection:
        if path is None:
            allowed = bool(connection.scalar(_MAY_WRITE))
        else:
            connection.scalar(text("SELECT count(*) FROM sqlite_master"))
            allowed = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK | os.X_OK)
        # One that a newer version made is refused here as it is by a run.
        pending(connection, tables.COMPONENT, tables.MIGRATIONS)
    if not allowed:
        return Finding(_STATE, "failed", f"{shown(url)} may not be written", hint)
    return Finding(_STATE, "ok", shown(url))


def _lockable(engine: Engine, url: str, recipe: str) -> Finding:
    runs = holder(engine, url, recipe)
    if runs is not None:
        return Finding(_LOCK, "warning", f"a run of {recipe!r} is at work: {runs}", "wait for it")
    path = lock_file(url, recipe)
    if path is not None:
        return _place(_LOCK, path, "name another one in `state: {url: …}`", "free")
    with engine.connect() as connection:
        free = bool(connection.scalar(_MAY_LOCK))
    # Another check holds it for a moment: that shows as well that there are locks.
    return Finding(_LOCK, "ok", "free" if free else "another check is at work")


def _place(what: str, path: Path, hint: str, well: str) -> Finding:
    """Return whether a file can be written, or made, without trying."""
    folder = next(one for one in (path.parent, *path.parent.parents) if one.exists())
    writable = folder.is_dir() and os.access(folder, os.W_OK | os.X_OK) and not path.is_dir()
    if not writable or (path.exists() and not os.access(path, os.W_OK)):
        return Finding(what, "failed", f"cannot write {path}", hint)
    return Finding(what, "ok", f"{path}: {well}")
