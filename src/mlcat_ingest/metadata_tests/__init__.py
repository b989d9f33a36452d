"""Metadata tests: rules about entities, stored as `test` entities and really evaluated."""
