"""The tables of the catalog: entities, aspects, edges, tasks and the search index.

Columns, keys and constraints are in the SQL of `MIGRATIONS`, the steps that make the tables. A
released step never changes.

A *keyword* is a field and a value that entities are filtered on and counted by. All keywords of an
entity together are its *profile*; there are far fewer profiles than entities, so what concerns
keywords alone is counted over profiles. A *numeric field* is one metric or parameter of one entity;
its name is a keyword's value. The words are in an FTS5 table over `search_text`, in tokens that
this package makes; keywords are tokens there as well, so both meet in one walk through the index.
"""

import sqlite3
from contextlib import closing
from typing import Any, Final

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

from mlcat_ingest.sql.database import Migration, sql_in

_STEP: Final = sql_in(__package__, "tables.sql")
_TYPES: Final[dict[str, type[TypeEngine[Any]]]] = {
    "INTEGER": Integer,
    "BIGINT": BigInteger,
    "TEXT": Text,
    "": Float,
}


def _read_tables() -> dict[str, Table]:
    """Return the tables by name, with the columns that the SQL above gives them."""
    columns: dict[str, list[Column[Any]]] = {}
    with closing(sqlite3.connect(":memory:")) as database:
        for statement in _STEP:
            if "CREATE TABLE" in statement:
                database.execute(statement)
        for table, column, kind in database.execute(
            "SELECT t.name, c.name, c.type FROM sqlite_master t, pragma_table_info(t.name) c"
            " WHERE t.type = 'table' ORDER BY c.cid"
        ):
            columns.setdefault(table, []).append(Column(column, _TYPES[kind]))
    return {table: Table(table, MetaData(), *of) for table, of in columns.items()}


_TABLES: Final = _read_tables()

# One row an entity that exists. A key aspect is never stored: it follows from the URN.
entity = _TABLES["entity"]
aspect = _TABLES["aspect"]
aspect_history = _TABLES["aspect_history"]

# A series of events has no versions: an event is known by its time and by `identity`.
timeseries = _TABLES["timeseries"]

# The destination is text: it may name an entity that was never written.
edge = _TABLES["edge"]

task = _TABLES["task"]
setting = _TABLES["setting"]

EVERY: Final = "=all"
"""The token that every entity has."""

keyword = _TABLES["search_keyword"]

# `members` are the ids of keywords, in order, parted by spaces.
profile = _TABLES["search_profile"]

# The same once more, row by row, to find the profiles with a keyword.
member = _TABLES["search_member"]

# The names of an entity's numeric fields, so that the values can be removed: `members` as above.
numeric_field_set = _TABLES["search_figure_set"]

# `value` is a number where it reads as one, and text elsewhere.
numeric_field = _TABLES["search_figure"]

searched = _TABLES["search_entity"]

# The content of the full-text table, column by column.
indexed_text = _TABLES["search_text"]

# The column of the table's own name stands for all columns, as FTS5 has it.
fts = Table("search_fts", MetaData(), Column("rowid", Integer), Column("search_fts", Text))


def keyword_token(number: int | str) -> str:
    """Return the token that every entity with this keyword has; no word can look like it."""
    return f"={number}"


# A released step never changes: what comes later is a further step.
MIGRATIONS: Final = (
    Migration(
        "entities, aspects with history, events, edges, tasks, search index",
        _STEP,
    ),
    Migration("changes by time", sql_in(__package__, "changes_by_time.sql")),
    Migration("entities by time", sql_in(__package__, "entities_by_time.sql")),
)
