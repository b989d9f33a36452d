"""Migrations: an ordered list of named steps, each recorded in the database that it changed."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    Table,
    Text,
    func,
    insert,
    inspect,
    select,
    text,
)

from mlcat_ingest.errors import ProtocolMismatchError, RecipeError
from mlcat_ingest.sql.engine import write_transaction

_LOCK_KEY: Final = 0x6D6C636174
"""The key of the advisory lock under which PostgreSQL's tables are migrated: "mlcat"."""

_applied = Table(
    "mlcat_migration",
    MetaData(),
    Column("component", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("applied_at_ms", BigInteger, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: its name, which never changes once released, and the function that makes it."""

    name: str
    apply: Callable[[Connection], None]


def statements(*sql: str) -> Callable[[Connection], None]:
    """Return a step that runs SQL statements, one after the other."""

    def run(connection: Connection) -> None:
        for statement in sql:
            connection.exec_driver_sql(statement)

    return run


def migrate(engine: Engine, component: str, migrations: Sequence[Migration]) -> list[str]:
    """Bring the tables of `component` up to date and return the names of the steps taken.

    All steps happen in one transaction: after an error the database is as it was before.

    Raises:
        RecipeError: the database was made by a newer version than this one.
        ProtocolMismatchError: no version made it.
    """
    with write_transaction(engine) as connection:
        if engine.dialect.name == "postgresql":
            # SQLite's write lock is held already; here two that begin at once would both make them.
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK_KEY)))
        _applied.create(connection, checkfirst=True)
        left = pending(connection, component, migrations)
        for position, migration in enumerate(left, len(migrations) - len(left)):
            migration.apply(connection)
            connection.execute(
                insert(_applied).values(
                    component=component,
                    position=position,
                    name=migration.name,
                    applied_at_ms=time.time_ns() // 1_000_000,
                )
            )
    return [migration.name for migration in left]


def pending(
    connection: Connection, component: str, migrations: Sequence[Migration]
) -> Sequence[Migration]:
    """Return the steps that `component` has not taken yet; nothing is changed.

    Raises:
        RecipeError: the database was made by a newer version than this one.
        ProtocolMismatchError: no version made it.
    """
    if not inspect(connection).has_table(_applied.name):
        return migrations
    known = [migration.name for migration in migrations]
    done = list(
        connection.scalars(
            select(_applied.c.name)
            .where(_applied.c.component == component)
            .order_by(_applied.c.position)
        )
    )
    if done[: len(known)] != known[: len(done)]:
        raise ProtocolMismatchError(
            f"the steps that the {component} database lists are those of no version",
            hint="restore a backup, or use another database",
        )
    if len(done) > len(known):
        raise _newer(connection, component, done[len(known) :])
    return migrations[len(done) :]


def _newer(connection: Connection, component: str, foreign: list[str]) -> RecipeError:
    shown = connection.engine.url.set(query={}).render_as_string(hide_password=True)
    if connection.dialect.name == "sqlite":
        # An engine that only reads has no address: it opens its file in a way of its own.
        shown = str(connection.scalar(text("SELECT file FROM pragma_database_list")) or shown)
    steps = ", ".join(map(repr, foreign))
    return RecipeError(
        f"the {component} database {shown} was made by a newer version of mlcat-ingest: "
        f"it has {steps}, which this version does not know",
        hint="upgrade mlcat-ingest, or use another database",
    )
