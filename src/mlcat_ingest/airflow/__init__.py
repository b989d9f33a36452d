"""Airflow runs recipes: a connection type, a hook and operators; it imports nothing by itself."""
