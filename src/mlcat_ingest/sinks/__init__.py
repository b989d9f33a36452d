"""Sinks: where proposals go. `rest` and `embedded` merge and evaluate; `file` only writes."""
