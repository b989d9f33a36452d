"""From records to entities: map, enrich, link to features, and group into chunks."""
