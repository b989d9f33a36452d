"""The tables of the search index. `entity` is the catalog's own; all entity ids are its ids.

A *keyword* is a field and a value that entities are filtered on and counted by. All keywords of an
entity together are its *profile*; there are far fewer profiles than entities, so what concerns
keywords alone is counted over profiles. A *figure* is one metric or parameter of one entity; its
name is a keyword's value. The words are in an FTS5 table over `search_text`, in tokens that this
package makes; keywords are tokens there as well, so both meet in one walk through the index.
"""

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Integer, MetaData, Table, Text

from mlcat_ingest.sql.migrations import Migration, statements

EVERY: Final = "=all"
"""The token that every entity has."""

_METADATA = MetaData()

keyword = Table(
    "search_keyword",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("field", Text, nullable=False),
    Column("value", Text, nullable=False),
)

# `members` are the ids of keywords, in order, parted by spaces.
profile = Table(
    "search_profile",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("members", Text, nullable=False),
    Column("entities", Integer, nullable=False),
)

# The same once more, row by row, to find the profiles with a keyword.
member = Table(
    "search_member",
    _METADATA,
    Column("keyword_id", Integer, primary_key=True),
    Column("profile_id", Integer, primary_key=True),
)

# Which figures an entity has, so that they can be taken away: `members` as above.
figure_set = Table(
    "search_figure_set",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("members", Text, nullable=False),
    Column("entities", Integer, nullable=False),
)

# `value` is a number where the figure reads as one, and text elsewhere.
figure = Table(
    "search_figure",
    _METADATA,
    Column("keyword_id", Integer, primary_key=True),
    Column("entity_id", Integer, primary_key=True),
    Column("value", Float),
)

searched = Table(
    "search_entity",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("profile_id", Integer, nullable=False),
    Column("figure_set_id", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("modified_ms", BigInteger, nullable=False),
)

# What stands in the full-text table, column by column.
indexed_text = Table(
    "search_text",
    _METADATA,
    Column("id", Integer, primary_key=True),
    *(
        Column(name, Text, nullable=False)
        for name in ("name", "description", "tags", "properties", "urn", "keywords")
    ),
)

# The column of the table's own name stands for all columns, as FTS5 has it.
fts = Table("search_fts", _METADATA, Column("rowid", Integer), Column("search_fts", Text))

# A released step never changes: what comes later is a further step.
SEARCH_TABLES: Final = Migration(
    "search index",
    statements(
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
    ),
)


def keyword_token(number: int) -> str:
    """Return the token that every entity with this keyword has; no word can look like it."""
    return f"={number}"
