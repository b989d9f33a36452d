"""The store of the catalog: entities, aspects with their versions, and edges."""
