"""The tables of the state, and the steps that made them; the same SQL on SQLite and PostgreSQL."""

from typing import Final

from mlcat_ingest.sql.database import Migration, sql_in, statements

COMPONENT: Final = "state"

# A released step never changes: what comes later is a further step.
MIGRATIONS: Final = (
    Migration("records and entities of a recipe", statements(*sql_in(__package__, "tables.sql"))),
)
