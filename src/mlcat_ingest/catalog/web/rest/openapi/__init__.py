"""The endpoints of OpenAPI v3: entities and their aspects."""
