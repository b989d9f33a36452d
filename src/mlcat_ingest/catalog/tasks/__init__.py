"""Index tasks: their jobs, and their status as the service reports it."""
