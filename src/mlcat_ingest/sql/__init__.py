"""Relational databases: how they are opened, and how their tables grow."""
