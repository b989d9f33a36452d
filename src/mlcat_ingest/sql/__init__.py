"""Relational databases: engines, file locks, read-only access and migrations."""
