"""The endpoints of OpenAPI v3: entities, their aspects, relationships, and the registry."""
