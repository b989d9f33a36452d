"""The tables of the catalog: entities, aspects, edges, tasks and the search index.

Keys and constraints are in `MIGRATIONS`, the steps that make the tables. A released step never
changes.

A *keyword* is a field and a value that entities are filtered on and counted by. All keywords of an
entity together are its *profile*; there are far fewer profiles than entities, so what concerns
keywords alone is counted over profiles. A *numeric field* is one metric or parameter of one entity;
its name is a keyword's value. The words are in an FTS5 table over `search_text`, in tokens that
this package makes; keywords are tokens there as well, so both meet in one walk through the index.
"""

from typing import Any, Final

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, Table, Text
from sqlalchemy.types import TypeEngine

from mlcat_ingest.sql.database import Migration, sql_in, statements


def _table(name: str, /, **columns: type[TypeEngine[Any]]) -> Table:
    return Table(name, MetaData(), *(Column(key, kind) for key, kind in columns.items()))


# One row an entity that exists. A key aspect is never stored: it follows from the URN.
entity = _table(
    "entity",
    id=Integer,
    urn=Text,
    entity_type=Text,
    created_ms=BigInteger,
    created_by=Text,
)

_VERSIONED: Final = {
    "entity_id": Integer,
    "aspect": Text,
    "version": Integer,
    "value": Text,
    "system_metadata": Text,
    "created_ms": BigInteger,
    "created_by": Text,
    "modified_ms": BigInteger,
    "modified_by": Text,
}
aspect = _table("aspect", **_VERSIONED)
aspect_history = _table("aspect_history", **_VERSIONED)

# A series of events has no versions: an event is known by its time and by `identity`.
timeseries = _table(
    "timeseries",
    entity_id=Integer,
    aspect=Text,
    timestamp_ms=BigInteger,
    identity=Text,
    value=Text,
    system_metadata=Text,
    modified_ms=BigInteger,
)

# The destination is text: it may name an entity that was never written.
edge = _table("edge", destination=Text, relationship=Text, source_id=Integer, aspect=Text)

task = _table(
    "task",
    id=Integer,
    kind=Text,
    completed=Integer,
    started_ms=BigInteger,
    run_time_nanos=BigInteger,
    status=Text,
    failure=Text,
)

setting = _table("setting", name=Text, value=Text)

EVERY: Final = "=all"
"""The token that every entity has."""

keyword = _table("search_keyword", id=Integer, field=Text, value=Text)

# `members` are the ids of keywords, in order, parted by spaces.
profile = _table("search_profile", id=Integer, members=Text, entities=Integer)

# The same once more, row by row, to find the profiles with a keyword.
member = _table("search_member", keyword_id=Integer, profile_id=Integer)

# The names of an entity's numeric fields, so that the values can be removed: `members` as above.
numeric_field_set = _table("search_figure_set", id=Integer, members=Text, entities=Integer)

# `value` is a number where it reads as one, and text elsewhere.
numeric_field = _table("search_figure", keyword_id=Integer, entity_id=Integer, value=Float)

searched = _table(
    "search_entity",
    id=Integer,
    profile_id=Integer,
    figure_set_id=Integer,
    name=Text,
    created_ms=BigInteger,
    modified_ms=BigInteger,
)

# The content of the full-text table, column by column.
indexed_text = _table(
    "search_text",
    id=Integer,
    name=Text,
    description=Text,
    tags=Text,
    properties=Text,
    urn=Text,
    keywords=Text,
)

# The column of the table's own name stands for all columns, as FTS5 has it.
fts = _table("search_fts", rowid=Integer, search_fts=Text)


def keyword_token(number: int | str) -> str:
    """Return the token that every entity with this keyword has; no word can look like it."""
    return f"={number}"


# A released step never changes: what comes later is a further step.
MIGRATIONS: Final = (
    Migration(
        "entities, aspects with history, events, edges, tasks, search index",
        statements(*sql_in(__package__, "tables.sql")),
    ),
    Migration("changes by time", statements(*sql_in(__package__, "changes_by_time.sql"))),
)
