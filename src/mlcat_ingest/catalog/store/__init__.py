"""What the catalog holds: entities, aspects with their versions, and edges."""
