"""DataHub runs recipes: the source `mlcat` of `datahub ingest`; it imports nothing by itself."""
