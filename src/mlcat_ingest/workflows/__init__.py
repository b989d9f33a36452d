"""What a user asks for: ingest, plan, retract, check, and the shards of a run."""
