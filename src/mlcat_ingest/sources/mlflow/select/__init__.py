"""What of a store is read: filters, changes, shards, joins, and runs that are missing."""
