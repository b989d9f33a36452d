"""The tables of the state, and the steps that made them; the same SQL on SQLite and PostgreSQL."""

from typing import Final

from mlcat_ingest.sql.database import Migration, sql_in

COMPONENT: Final = "state"

# A released step never changes: what comes later is a further step.
MIGRATIONS: Final = (
    Migration("records and entities of a recipe", sql_in(__package__, "tables.sql")),
)


def upsert(table: str, key: str, values: str, **merged: str) -> str:
    """Return the statement that writes a row of the columns `key` and `values`, over one before.

    A column in `merged` gets the value of that SQL in place of the new one.
    """
    names = [*key.split(), *values.split()]
    new = {name: f"excluded.{name}" for name in values.split()} | merged
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
        f" ON CONFLICT ({', '.join(key.split())}) DO UPDATE SET "
        + ", ".join(f"{name} = {value}" for name, value in new.items())
    )
