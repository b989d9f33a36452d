"""Reads MLflow's own tables by SQL: no server, no MLflow, nothing but SELECT."""
