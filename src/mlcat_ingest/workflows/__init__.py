"""Workflows, one for each thing that a user asks for: ingest, plan, retract, check, shard."""
