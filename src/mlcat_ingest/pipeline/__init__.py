"""The pipeline: records become entities, entities are merged with what is stored, and written."""
