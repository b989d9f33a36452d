"""Resolvers, a table a subject: object type and field to function."""
