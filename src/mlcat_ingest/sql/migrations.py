"""Migrations: an ordered list of named steps, each recorded in the database that it changed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.sql.database import Engine, SqlConnection, write_transaction

_LOCK_KEY: Final = 0x6D6C636174
"""The key of the advisory lock under which PostgreSQL's tables are migrated: "mlcat"."""

_APPLIED: Final = """CREATE TABLE IF NOT EXISTS mlcat_migration (
    component TEXT NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    applied_at_ms BIGINT NOT NULL,
    PRIMARY KEY (component, position)
)"""

_HAS_TABLE: Final = {
    "sqlite": "SELECT count(*) FROM sqlite_master WHERE name = 'mlcat_migration'",
    "postgresql": "SELECT count(to_regclass('mlcat_migration'))",
}


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: its name, which never changes once released, and the function that makes it."""

    name: str
    apply: Callable[[SqlConnection], None]


def statements(*sql: str) -> Callable[[SqlConnection], None]:
    """Return a step that runs SQL statements, one after the other."""

    def run(connection: SqlConnection) -> None:
        for statement in sql:
            connection.execute(statement)

    return run


def migrate(engine: Engine, component: str, migrations: Sequence[Migration]) -> list[str]:
    """Bring the tables of `component` up to date and return the names of the steps taken.

    All steps happen in one transaction: after an error the database is as it was before.

    Raises:
        RecipeError: the database was made by a newer version than this one.
        ProtocolMismatchError: no version made it.
    """
    with write_transaction(engine) as connection:
        if connection.dialect == "postgresql":
            # SQLite's write lock is held already; here two that begin at once would both make them.
            connection.execute("SELECT pg_advisory_xact_lock(?)", _LOCK_KEY)
        connection.execute(_APPLIED)
        left = pending(connection, component, migrations)
        for position, migration in enumerate(left, len(migrations) - len(left)):
            migration.apply(connection)
            connection.execute(
                "INSERT INTO mlcat_migration (component, position, name, applied_at_ms)"
                " VALUES (?, ?, ?, ?)",
                *(component, position, migration.name, time.time_ns() // 1_000_000),
            )
    return [migration.name for migration in left]


def pending(
    connection: SqlConnection, component: str, migrations: Sequence[Migration]
) -> Sequence[Migration]:
    """Return the steps that `component` has not taken yet; nothing is changed.

    Raises:
        RecipeError: the database was made by a newer version than this one.
        ProtocolMismatchError: no version made it.
    """
    if not connection.scalar(_HAS_TABLE[connection.dialect]):
        return migrations
    known = [migration.name for migration in migrations]
    applied = "SELECT name FROM mlcat_migration WHERE component = ? ORDER BY position"
    done = list(connection.scalars(applied, component))
    if done[: len(known)] != known[: len(done)]:
        raise ProtocolMismatchError(
            f"the steps that the {component} database lists are those of no version",
            hint="restore a backup, or use another database",
        )
    if len(done) > len(known):
        raise _newer(connection, component, done[len(known) :])
    return migrations[len(done) :]


def _newer(connection: SqlConnection, component: str, foreign: list[str]) -> RecipeError:
    steps = ", ".join(map(repr, foreign))
    return RecipeError(
        f"the {component} database {connection.name} was made by a newer version of mlcat-ingest: "
        f"it has {steps}, which this version does not know",
        hint="upgrade mlcat-ingest, or use another database",
    )
