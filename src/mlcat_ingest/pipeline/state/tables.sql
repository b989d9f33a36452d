-- state_part: what one recipe reads from one workspace of one source, for one catalog.
--   id              follows from recipe, sink, source and instance: no sequence that the two
--                   databases spell differently
--   settings        a digest of all that decides what is read and how it is mapped
--   identity        how URNs of each kind are made, as JSON, the same for all instances of a source:
--                   a change would make every entity of that kind a second time
--   checkpoint      the source's own, as JSON; null until everything was read once
--   tests           a digest of the metadata tests that the client evaluated on all of its entities
CREATE TABLE state_part (
    id BIGINT PRIMARY KEY,
    recipe TEXT NOT NULL,
    sink TEXT NOT NULL,
    source TEXT NOT NULL,
    instance TEXT NOT NULL,
    settings TEXT NOT NULL,
    identity TEXT NOT NULL,
    checkpoint TEXT,
    pass_number INTEGER NOT NULL,
    passed_at_ms BIGINT,
    full_at_ms BIGINT,
    tests TEXT NOT NULL DEFAULT '',
    UNIQUE (recipe, sink, source, instance)
);

-- state_record: one row a record whose entities the catalog acknowledged. `reason` says why it is
--   dirty: it was refused, or a write has begun that changes it. A record whose `digest` or
--   `aspect_stamps` is empty equals nothing in that respect: it is mapped, or compared by values.
--   aspect_stamps   what the catalog held of the entities when the row was written: a JSON object by
--                   URN, of the stamp of each aspect that a merge reads, null where it was not
--                   stored. An entity that is only referred to has none.
CREATE TABLE state_record (
    part_id BIGINT NOT NULL REFERENCES state_part (id) ON DELETE CASCADE,
    kind TEXT NOT NULL,
    id TEXT NOT NULL,
    digest TEXT NOT NULL,
    urns TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    joined_fingerprint TEXT NOT NULL,
    reason TEXT NOT NULL,
    seen_in_pass INTEGER NOT NULL,
    aspect_stamps TEXT NOT NULL,
    PRIMARY KEY (part_id, kind, id)
);

CREATE INDEX state_record_fingerprint ON state_record (part_id, kind) WHERE fingerprint <> '';

CREATE INDEX state_record_joined_fingerprint ON state_record (part_id, kind) WHERE joined_fingerprint <> '';

CREATE INDEX state_record_reason ON state_record (part_id, kind) WHERE reason <> '';

-- state_entity: one row an entity that the recipe has written, evaluated or missed.
--   base            as the recipe last wrote it: another tool's upsert may drop it there
--   stamps          of its aspects after that, as in a record: a rollback brings back older ones
--   begun           1 from the begin of a write until the catalog has acknowledged all of the
--                   entity: until then its result does not count
--   absent_from     the part whose last complete listing lacked it; if the next one lacks it too,
--                   it is removed
--   result, before  the last result of metadata tests, and the one before. No result: it was written
--                   since it was evaluated, or the service gave none in the run `run_ms`.
CREATE TABLE state_entity (
    recipe TEXT NOT NULL,
    sink TEXT NOT NULL,
    urn TEXT NOT NULL,
    base TEXT NOT NULL DEFAULT '',
    stamps TEXT NOT NULL DEFAULT '',
    begun INTEGER NOT NULL DEFAULT 0,
    absent_from BIGINT,
    result BIGINT,
    before BIGINT,
    run_ms BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (recipe, sink, urn)
);

CREATE INDEX state_entity_begun ON state_entity (recipe, sink) WHERE begun <> 0;

CREATE INDEX state_entity_absent ON state_entity (absent_from) WHERE absent_from IS NOT NULL;

-- state_result: a result of metadata tests, once for all the entities that have it; `id` follows
--   from the lists.
CREATE TABLE state_result (
    id BIGINT PRIMARY KEY,
    passing TEXT NOT NULL,
    failing TEXT NOT NULL
);

-- state_writer: the writer ids of a recipe, its own and those that it took over. They are no cache.
CREATE TABLE state_writer (
    recipe TEXT NOT NULL,
    id TEXT NOT NULL,
    adopted INTEGER NOT NULL,
    PRIMARY KEY (recipe, id)
);

-- state_holder: who holds the lock of a recipe on PostgreSQL; only as true as the advisory lock
--   behind it.
CREATE TABLE state_holder (
    recipe TEXT PRIMARY KEY,
    pid INTEGER NOT NULL,
    host TEXT NOT NULL,
    since_ms BIGINT NOT NULL
);
