"""The report of a run: counters, and its form as text, JSON, metrics and catalog entity."""
