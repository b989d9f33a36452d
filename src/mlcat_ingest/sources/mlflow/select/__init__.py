"""Selects the part of a store to read: filters, changes, shards, joins, missing entities."""
