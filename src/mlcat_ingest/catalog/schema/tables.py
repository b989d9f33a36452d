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

from mlcat_ingest.metadata.aspects.common import VERSION_PROPERTIES
from mlcat_ingest.sql.database import Migration, statements


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


_SEARCH_TABLES: Final = (
    """CREATE TABLE search_keyword (
        id INTEGER PRIMARY KEY,
        field TEXT NOT NULL,
        value TEXT NOT NULL,
        UNIQUE (field, value)
    )""",
    """CREATE TABLE search_profile (
        id INTEGER PRIMARY KEY,
        members TEXT NOT NULL UNIQUE,
        entities INTEGER NOT NULL
    )""",
    """CREATE TABLE search_member (
        keyword_id INTEGER NOT NULL,
        profile_id INTEGER NOT NULL,
        PRIMARY KEY (keyword_id, profile_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE search_figure_set (
        id INTEGER PRIMARY KEY,
        members TEXT NOT NULL UNIQUE,
        entities INTEGER NOT NULL
    )""",
    """CREATE TABLE search_figure (
        keyword_id INTEGER NOT NULL,
        entity_id INTEGER NOT NULL,
        value NOT NULL,
        PRIMARY KEY (keyword_id, entity_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE search_entity (
        id INTEGER PRIMARY KEY,
        profile_id INTEGER NOT NULL,
        figure_set_id INTEGER NOT NULL,
        name TEXT NOT NULL,
        created_ms BIGINT NOT NULL,
        modified_ms BIGINT NOT NULL
    )""",
    "CREATE INDEX search_entity_by_name ON search_entity (name)",
    """CREATE TABLE search_text (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        description TEXT NOT NULL,
        tags TEXT NOT NULL,
        properties TEXT NOT NULL,
        urn TEXT NOT NULL,
        keywords TEXT NOT NULL
    )""",
    """CREATE VIRTUAL TABLE search_fts USING fts5 (
        name, description, tags, properties, urn, keywords,
        content='search_text', content_rowid='id', tokenize="ascii tokenchars '='"
    )""",
)

_ASPECT_COLUMNS = """
    entity_id INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    aspect TEXT NOT NULL,
    version INTEGER NOT NULL,
    value TEXT NOT NULL,
    system_metadata TEXT,
    created_ms BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    modified_ms BIGINT NOT NULL,
    modified_by TEXT NOT NULL
"""

_VERSION_INDEXES = (
    f"""CREATE INDEX aspect_by_version_{name} ON aspect (
        json_extract(value, '$.versionSet'), json_extract(value, '{path}')
    ) WHERE aspect = '{VERSION_PROPERTIES}'"""
    for name, path in (("sort_id", "$.sortId"), ("label", "$.version.versionTag"))
)

# A released step never changes: what comes later is a further step.
MIGRATIONS: Final = (
    Migration(
        "entities, aspects with history, events, edges, tasks, search index",
        statements(
            """CREATE TABLE entity (
                id INTEGER PRIMARY KEY,
                urn TEXT NOT NULL UNIQUE,
                entity_type TEXT NOT NULL,
                created_ms BIGINT NOT NULL,
                created_by TEXT NOT NULL
            )""",
            "CREATE INDEX entity_by_type ON entity (entity_type, id)",
            f"CREATE TABLE aspect ({_ASPECT_COLUMNS}, PRIMARY KEY (entity_id, aspect))",
            f"""CREATE TABLE aspect_history (
                {_ASPECT_COLUMNS}, PRIMARY KEY (entity_id, aspect, version)
            )""",
            *_VERSION_INDEXES,
            """CREATE TABLE timeseries (
                entity_id INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
                aspect TEXT NOT NULL,
                timestamp_ms BIGINT NOT NULL,
                identity TEXT NOT NULL,
                value TEXT NOT NULL,
                system_metadata TEXT,
                modified_ms BIGINT NOT NULL,
                PRIMARY KEY (entity_id, aspect, timestamp_ms, identity)
            ) WITHOUT ROWID""",
            """CREATE TABLE edge (
                destination TEXT NOT NULL,
                relationship TEXT NOT NULL,
                source_id INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
                aspect TEXT NOT NULL,
                PRIMARY KEY (destination, relationship, source_id, aspect)
            ) WITHOUT ROWID""",
            "CREATE INDEX edge_by_source ON edge (source_id, aspect)",
            """CREATE TABLE task (
                id INTEGER PRIMARY KEY AUTOINCREMENT,
                kind TEXT NOT NULL,
                completed INTEGER NOT NULL,
                started_ms BIGINT NOT NULL,
                run_time_nanos BIGINT NOT NULL,
                status TEXT NOT NULL,
                failure TEXT
            )""",
            "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
            *_SEARCH_TABLES,
        ),
    ),
    Migration(
        "changes by time",
        statements(
            *(
                f"CREATE INDEX {table}_by_time ON {table} (modified_ms, entity_id, modified_by)"
                for table in ("aspect", "aspect_history")
            )
        ),
    ),
)
