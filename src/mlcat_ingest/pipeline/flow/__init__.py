"""Threads of a run: bounded queues between them, the stop of all, and URNs in flight."""
