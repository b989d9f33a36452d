"""The tables of the catalog, and the steps that made them."""

from typing import Final

from sqlalchemy import BigInteger, Column, Integer, MetaData, Table, Text

from mlcat_ingest.catalog.schema.search_tables import SEARCH_TABLES
from mlcat_ingest.catalog.schema.upgrades import fill_in
from mlcat_ingest.metadata.aspects.common import VERSION_PROPERTIES
from mlcat_ingest.sql.migrations import Migration, statements

_METADATA = MetaData()

# One row an entity that exists. A key aspect is never stored: it follows from the URN.
entity = Table(
    "entity",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("urn", Text, nullable=False),
    Column("entity_type", Text, nullable=False),
    Column("name", Text),
    Column("created_ms", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
)


def _versioned(name: str) -> Table:
    return Table(
        name,
        _METADATA,
        Column("entity_id", Integer, nullable=False),
        Column("aspect", Text, nullable=False),
        Column("version", Integer, nullable=False),
        Column("value", Text, nullable=False),
        Column("system_metadata", Text),
        Column("created_ms", BigInteger, nullable=False),
        Column("created_by", Text, nullable=False),
        Column("modified_ms", BigInteger, nullable=False),
        Column("modified_by", Text, nullable=False),
        Column("run_id", Text),
    )


aspect = _versioned("aspect")
aspect_history = _versioned("aspect_history")

# A series of events has no versions: an event is known by its time and by `identity`.
timeseries = Table(
    "timeseries",
    _METADATA,
    Column("entity_id", Integer, nullable=False),
    Column("aspect", Text, nullable=False),
    Column("timestamp_ms", BigInteger, nullable=False),
    Column("identity", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("system_metadata", Text),
    Column("modified_ms", BigInteger, nullable=False),
    Column("run_id", Text),
)

# The destination is text: it may name an entity that was never written.
edge = Table(
    "edge",
    _METADATA,
    Column("destination", Text, nullable=False),
    Column("relationship", Text, nullable=False),
    Column("source_id", Integer, nullable=False),
    Column("aspect", Text, nullable=False),
)

task = Table(
    "task",
    _METADATA,
    Column("id", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("completed", Integer, nullable=False),
    Column("started_ms", BigInteger, nullable=False),
    Column("run_time_nanos", BigInteger, nullable=False),
    Column("status", Text, nullable=False),
    Column("failure", Text),
)

setting = Table(
    "setting",
    _METADATA,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
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

_VERSIONED = ("aspect", "aspect_history")

_VERSION_INDEXES = (
    f"""CREATE INDEX aspect_by_version_{name} ON aspect (
        json_extract(value, '$.versionSet'), json_extract(value, '{path}')
    ) WHERE aspect = '{VERSION_PROPERTIES}'"""
    for name, path in (("sort_id", "$.sortId"), ("label", "$.version.versionTag"))
)

# A released step never changes: what comes later is a further step.
MIGRATIONS: Final = (
    Migration(
        "entities, aspects with history, edges",
        statements(
            """CREATE TABLE entity (
                id INTEGER PRIMARY KEY,
                urn TEXT NOT NULL UNIQUE,
                entity_type TEXT NOT NULL,
                name TEXT,
                created_ms BIGINT NOT NULL,
                created_by TEXT NOT NULL
            )""",
            "CREATE INDEX entity_by_type ON entity (entity_type, id)",
            f"CREATE TABLE aspect ({_ASPECT_COLUMNS}, PRIMARY KEY (entity_id, aspect))",
            f"""CREATE TABLE aspect_history (
                {_ASPECT_COLUMNS}, PRIMARY KEY (entity_id, aspect, version)
            )""",
            """CREATE TABLE edge (
                destination TEXT NOT NULL,
                relationship TEXT NOT NULL,
                source_id INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
                aspect TEXT NOT NULL,
                PRIMARY KEY (destination, relationship, source_id, aspect)
            ) WITHOUT ROWID""",
            "CREATE INDEX edge_by_source ON edge (source_id, aspect)",
        ),
    ),
    Migration(
        "index tasks",
        statements(
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
        ),
    ),
    SEARCH_TABLES,
    Migration(
        "timeseries, and which run wrote what",
        statements(
            """CREATE TABLE timeseries (
                entity_id INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
                aspect TEXT NOT NULL,
                timestamp_ms BIGINT NOT NULL,
                identity TEXT NOT NULL,
                value TEXT NOT NULL,
                system_metadata TEXT,
                modified_ms BIGINT NOT NULL,
                run_id TEXT,
                PRIMARY KEY (entity_id, aspect, timestamp_ms, identity)
            ) WITHOUT ROWID""",
            *(f"ALTER TABLE {name} ADD COLUMN run_id TEXT" for name in _VERSIONED),
            *(
                f"CREATE INDEX {name}_by_run ON {name} (run_id) WHERE run_id IS NOT NULL"
                for name in (*_VERSIONED, "timeseries")
            ),
        ),
    ),
    Migration("runs, events and edges of keys that were there before", fill_in),
    Migration("versions by set, by sort id and by label", statements(*_VERSION_INDEXES)),
)
