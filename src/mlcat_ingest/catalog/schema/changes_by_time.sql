CREATE INDEX aspect_by_time ON aspect (modified_ms, entity_id, modified_by, aspect);

CREATE INDEX aspect_history_by_time ON aspect_history (modified_ms, entity_id, modified_by, aspect);
