CREATE INDEX search_entity_by_time ON search_entity (created_ms, id, profile_id);
