CREATE TABLE entity (
    id INTEGER PRIMARY KEY,
    urn TEXT NOT NULL UNIQUE,
    entity_type TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    created_by TEXT NOT NULL
);

CREATE INDEX entity_by_type ON entity (entity_type, id);

CREATE TABLE aspect (
    entity_id INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    aspect TEXT NOT NULL,
    version INTEGER NOT NULL,
    value TEXT NOT NULL,
    system_metadata TEXT,
    created_ms BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    modified_ms BIGINT NOT NULL,
    modified_by TEXT NOT NULL,
    PRIMARY KEY (entity_id, aspect)
);

CREATE TABLE aspect_history (
    entity_id INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    aspect TEXT NOT NULL,
    version INTEGER NOT NULL,
    value TEXT NOT NULL,
    system_metadata TEXT,
    created_ms BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    modified_ms BIGINT NOT NULL,
    modified_by TEXT NOT NULL,
    PRIMARY KEY (entity_id, aspect, version)
);

CREATE INDEX aspect_by_version_sort_id ON aspect (
    json_extract(value, '$.versionSet'), json_extract(value, '$.sortId')
) WHERE aspect = 'versionProperties';

CREATE INDEX aspect_by_version_label ON aspect (
    json_extract(value, '$.versionSet'), json_extract(value, '$.version.versionTag')
) WHERE aspect = 'versionProperties';

CREATE TABLE timeseries (
    entity_id INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    aspect TEXT NOT NULL,
    timestamp_ms BIGINT NOT NULL,
    identity TEXT NOT NULL,
    value TEXT NOT NULL,
    system_metadata TEXT,
    modified_ms BIGINT NOT NULL,
    PRIMARY KEY (entity_id, aspect, timestamp_ms, identity)
) WITHOUT ROWID;

CREATE TABLE edge (
    destination TEXT NOT NULL,
    relationship TEXT NOT NULL,
    source_id INTEGER NOT NULL REFERENCES entity (id) ON DELETE CASCADE,
    aspect TEXT NOT NULL,
    PRIMARY KEY (destination, relationship, source_id, aspect)
) WITHOUT ROWID;

CREATE INDEX edge_by_source ON edge (source_id, aspect);

CREATE TABLE task (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind TEXT NOT NULL,
    completed INTEGER NOT NULL,
    started_ms BIGINT NOT NULL,
    run_time_nanos BIGINT NOT NULL,
    status TEXT NOT NULL,
    failure TEXT
);

CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);

CREATE TABLE search_keyword (
    id INTEGER PRIMARY KEY,
    field TEXT NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (field, value)
);

CREATE TABLE search_profile (
    id INTEGER PRIMARY KEY,
    members TEXT NOT NULL UNIQUE,
    entities INTEGER NOT NULL
);

CREATE TABLE search_member (
    keyword_id INTEGER NOT NULL,
    profile_id INTEGER NOT NULL,
    PRIMARY KEY (keyword_id, profile_id)
) WITHOUT ROWID;

CREATE TABLE search_figure_set (
    id INTEGER PRIMARY KEY,
    members TEXT NOT NULL UNIQUE,
    entities INTEGER NOT NULL
);

CREATE TABLE search_figure (
    keyword_id INTEGER NOT NULL,
    entity_id INTEGER NOT NULL,
    value NOT NULL,
    PRIMARY KEY (keyword_id, entity_id)
) WITHOUT ROWID;

CREATE TABLE search_entity (
    id INTEGER PRIMARY KEY,
    profile_id INTEGER NOT NULL,
    figure_set_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    created_ms BIGINT NOT NULL,
    modified_ms BIGINT NOT NULL
);

CREATE INDEX search_entity_by_name ON search_entity (name);

CREATE TABLE search_text (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    tags TEXT NOT NULL,
    properties TEXT NOT NULL,
    urn TEXT NOT NULL,
    keywords TEXT NOT NULL
);

CREATE VIRTUAL TABLE search_fts USING fts5 (
    name, description, tags, properties, urn, keywords,
    content='search_text', content_rowid='id', tokenize="ascii tokenchars '='"
);
